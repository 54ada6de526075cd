"""HTTP/2's flow control of what we send, pure: data waits here until the peer has made room for it."""

from __future__ import annotations

from stepbench.wire.http2_frames import (
    DATA,
    END_STREAM,
    MAX_FRAME_BYTES,
    ErrorCode,
    Http2Error,
    encode_frame,
    encode_request,
)

USUAL_WINDOW_BYTES = 65_535
_MAX_WINDOW_BYTES = 2**31 - 1


class _Upload:
    """What a stream has still to say; `ends`: with its last byte, it has said everything."""

    __slots__ = ("ends", "rest", "window")

    def __init__(self, data: bytes, window: int, *, ends: bool) -> None:
        self.rest = memoryview(data)
        self.window = window
        self.ends = ends


class Uploads:
    """All streams of a connection; the peer's limits are what it has said last."""

    def __init__(self) -> None:
        self._max_frame_bytes = MAX_FRAME_BYTES
        self._initial_window = USUAL_WINDOW_BYTES
        self._window = USUAL_WINDOW_BYTES
        self._under_way: dict[int, _Upload] = {}

    def at_once(self, stream: int, block: bytes, data: bytes) -> bytes | None:
        """The whole request, if there is room for it, and nobody waits for room."""
        size = len(data)
        if size > self._window or size > self._initial_window or size > self._max_frame_bytes or self._under_way:
            return None
        self._window -= size
        return encode_request(stream, block, data)

    def begin(self, stream: int, data: bytes, *, ends: bool) -> None:
        """Take what a stream has to say, after its fields, for `more`; without `ends` it stays open behind that."""
        self._under_way[stream] = _Upload(data, self._initial_window, ends=ends)

    def drop(self, stream: int) -> bool:
        """Forget a stream; whether it had not ended on our side."""
        return self._under_way.pop(stream, None) is not None

    @property
    def are_waiting(self) -> bool:
        """Whether anything might want more room."""
        return bool(self._under_way)

    def more(self) -> list[bytes]:
        """Frames for which there is room now."""
        frames: list[bytes] = []
        for stream, upload in list(self._under_way.items()):
            while (
                upload.rest and (size := min(len(upload.rest), self._max_frame_bytes, self._window, upload.window)) > 0
            ):
                part, upload.rest = bytes(upload.rest[:size]), upload.rest[size:]
                self._window -= size
                upload.window -= size
                is_last = upload.ends and not upload.rest
                frames.append(encode_frame(DATA, END_STREAM if is_last else 0, stream, part))
                if is_last:
                    del self._under_way[stream]
        return frames

    def widen(self, stream: int, increment: int) -> None:
        """WINDOW_UPDATE; stream 0 is the connection. One that we have ended needs no more room."""
        if increment == 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a window that grows by nothing")
        if stream == 0:
            self._window = _checked(self._window + increment)
        elif (upload := self._under_way.get(stream)) is not None:
            upload.window = _checked(upload.window + increment)

    def resize_windows(self, initial: int) -> None:
        """SETTINGS_INITIAL_WINDOW_SIZE: of streams under way, too, whose window may fall below 0."""
        change, self._initial_window = _checked(initial) - self._initial_window, initial
        for upload in self._under_way.values():
            upload.window = _checked(upload.window + change)

    def resize_frames(self, max_frame_bytes: int) -> None:
        """SETTINGS_MAX_FRAME_SIZE."""
        if not MAX_FRAME_BYTES <= max_frame_bytes < 2**24:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"frames of {max_frame_bytes:,} bytes")
        self._max_frame_bytes = max_frame_bytes


def _checked(window: int) -> int:
    if window > _MAX_WINDOW_BYTES:
        raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, f"a window of {window:,} bytes")
    return window

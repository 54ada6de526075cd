"""The streams of an HTTP/2 session: what is asked of them, and what they still have to send.

Flow control is pure: data waits here until the peer has made room for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from stepbench.wire.http2 import (
    DATA,
    END_STREAM,
    MAX_FRAME_BYTES,
    ErrorCode,
    Http2Error,
    encode_frame,
    encode_request,
)

if TYPE_CHECKING:
    from stepbench.wire.http2 import Head
    from stepbench.wire.socket import OutgoingBytes


class StreamEnd(NamedTuple):
    """
    The end of a stream before its answer was complete.

    code: the peer's, or None where the connection is gone. reason: in words that are the same each time. untouched:
    it never left us, or the peer says that it has done nothing with it.
    """

    code: ErrorCode | None
    reason: str
    untouched: bool


class Http2Stream(Protocol):
    """One request and what comes back; its methods are called while bytes are received."""

    stream_id: int
    outgoing: OutgoingBytes
    """That its fields leave with. Both are the session's to set."""
    received_bytes: int
    """Bytes received since the peer was last given room for more; those of the session, too. Both begin with 0."""

    def take_head(self, head: Head, *, is_last: bool) -> None:
        """Take fields, or trailers."""
        ...

    def take_data(self, data: bytes, *, is_last: bool) -> None:
        """Take a part of the answer's body."""
        ...

    def take_end(self, ended: StreamEnd) -> None:
        """Take the end; there will be no more."""
        ...


USUAL_WINDOW_BYTES = 65_535
_MAX_WINDOW_BYTES = 2**31 - 1


class _Upload:
    """The data that a stream has still to send; `ends`: with its last byte, the stream ends on our side."""

    __slots__ = ("ends", "rest", "window")

    def __init__(self, data: bytes, window: int, *, ends: bool) -> None:
        self.rest = memoryview(data)
        self.window = window
        self.ends = ends


class Uploads:
    """The data that all streams of a connection have still to send, within the limits that the peer has set last."""

    def __init__(self) -> None:
        self._max_frame_bytes = MAX_FRAME_BYTES
        self._initial_window = USUAL_WINDOW_BYTES
        self._window = USUAL_WINDOW_BYTES
        self._under_way: dict[int, _Upload] = {}

    def at_once(self, stream: int, block: bytes, data: bytes) -> bytes | None:
        """Return the whole request, if there is room for it, and nobody waits for room."""
        size = len(data)
        if size > self._window or size > self._initial_window or size > self._max_frame_bytes or self._under_way:
            return None
        self._window -= size
        return encode_request(stream, block, data)

    def begin(self, stream: int, data: bytes, *, ends: bool) -> None:
        """Take what a stream has to say, after its fields, for `more`; without `ends` it stays open behind that."""
        self._under_way[stream] = _Upload(data, self._initial_window, ends=ends)

    def drop(self, stream: int) -> bool:
        """Forget a stream; return whether it had not ended on our side."""
        return self._under_way.pop(stream, None) is not None

    @property
    def are_waiting(self) -> bool:
        """Return whether some stream might want more room."""
        return bool(self._under_way)

    def more(self) -> list[bytes]:
        """Return the frames for which there is room now."""
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
        """Take WINDOW_UPDATE; stream 0 is the connection. One that we have ended needs no more room."""
        if increment == 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a window that grows by nothing")
        if stream == 0:
            self._window = _checked(self._window + increment)
        elif (upload := self._under_way.get(stream)) is not None:
            upload.window = _checked(upload.window + increment)

    def resize_windows(self, initial: int) -> None:
        """Take SETTINGS_INITIAL_WINDOW_SIZE, also for streams under way, whose window may fall below 0."""
        change, self._initial_window = _checked(initial) - self._initial_window, initial
        for upload in self._under_way.values():
            upload.window = _checked(upload.window + change)

    def resize_frames(self, max_frame_bytes: int) -> None:
        """Take SETTINGS_MAX_FRAME_SIZE."""
        if not MAX_FRAME_BYTES <= max_frame_bytes < 2**24:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"frames of {max_frame_bytes:,} bytes")
        self._max_frame_bytes = max_frame_bytes


def _checked(window: int) -> int:
    if window > _MAX_WINDOW_BYTES:
        raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, f"a window of {window:,} bytes")
    return window

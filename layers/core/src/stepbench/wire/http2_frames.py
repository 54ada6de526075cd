"""
HTTP/2 frames, pure: bytes to frames and back, as far as a client of gRPC needs them.

What comes out is clean: padding and priorities are gone, and a block of fields is whole, in however many frames it
came. Frames of types that nobody knows are passed over, as the protocol demands.

Source:
    RFC 9113, HTTP/2 (2022), sections 4, 6 and 7.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

Frame = tuple[int, int, int, bytes, int]
"""Type, flags, stream, payload, and its length (of DATA as flow control counts it, with padding)."""
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM = ACK = 0x1
END_HEADERS, PADDED, PRIORITISED = 0x4, 0x8, 0x20
MAX_FRAME_BYTES = 16_384
"""The protocol's default, which nobody may fall below; we never allow more."""
MAX_STREAM = 2**31 - 1
_MAX_BLOCK_BYTES = 64 * 1024
_USUAL = frozenset({(DATA, 0), (DATA, END_STREAM), (HEADERS, END_HEADERS), (HEADERS, END_HEADERS | END_STREAM)})
"""Types and flags of nearly all frames."""
_HEAD = Struct(">IBI")
_HEAD_BYTES = _HEAD.size
_EXACT_BYTES = {PRIORITY: 5, RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}
_OF_A_STREAM = frozenset({DATA, HEADERS, PRIORITY, RST_STREAM, PUSH_PROMISE, CONTINUATION})
_OF_THE_CONNECTION = frozenset({SETTINGS, PING, GOAWAY})


class ErrorCode(IntEnum):
    """Why a stream or a connection ends; what we do not know is `INTERNAL_ERROR`, as RFC 9113 suggests."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13

    @classmethod
    def _missing_(cls, value: object) -> ErrorCode | None:
        return cls.INTERNAL_ERROR if isinstance(value, int) else None


class Http2Error(Exception):
    """The peer has broken the protocol, so that nothing can be understood from here on."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        self.code = code
        super().__init__(message)


def encode_frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame; the payload is not longer than the peer allows."""
    return _HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def encode_request(stream: int, block: bytes, data: bytes) -> bytes:
    """A whole request: one frame of fields, one of data, and the stream's end."""
    head = _HEAD.pack(len(block) << 8 | HEADERS, END_HEADERS, stream)
    return b"".join((head, block, _HEAD.pack(len(data) << 8, END_STREAM, stream), data))


class _Block(NamedTuple):
    """Fields of which only a part has come."""

    flags: int
    stream: int
    parts: list[bytes]


class FrameReader:
    """Bytes, as they come, to frames."""

    def __init__(self) -> None:
        self._rest = b""
        self._block: _Block | None = None
        self.has_more = False
        """Whether behind the frame that was given last more has come, if only a part of one."""

    def frames(self, data: bytes) -> Iterator[Frame]:
        """
        The frames that are complete now; to be taken to the last before more is given.

        Raises:
            Http2Error: after the frames before it.
        """
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        while end - at >= _HEAD_BYTES:
            word, flags, stream = _HEAD.unpack_from(data, at)
            kind, length = word & 0xFF, word >> 8
            if length > MAX_FRAME_BYTES:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length:,} bytes")
            begin = at + _HEAD_BYTES
            if begin + length > end:
                break
            at = begin + length
            self.has_more = at < end
            if self._block is None and (kind, flags) in _USUAL and stream and stream <= MAX_STREAM:
                yield kind, flags, stream, data[begin:at], length  # there is nothing to check or to clean
                continue
            frame = self._frame(kind, flags, stream & MAX_STREAM, data[begin:at])
            if frame is not None:
                yield frame
        self._rest, self.has_more = data[at:], False

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> Frame | None:
        if self._block is not None:
            return self._continued(self._block, kind, flags, stream, payload)
        if kind == DATA and stream:
            return kind, flags, stream, _unpadded(payload) if flags & PADDED else payload, len(payload)
        if kind == HEADERS and stream:
            if flags & (PADDED | PRIORITISED):
                payload = _without_priority(payload, flags)
            if flags & END_HEADERS:
                return kind, flags, stream, payload, len(payload)
            self._block = _Block(flags, stream, [payload])
            return None
        _check(kind, flags, stream, len(payload))
        return (kind, flags, stream, payload, len(payload)) if kind <= CONTINUATION else None

    def _continued(self, block: _Block, kind: int, flags: int, stream: int, payload: bytes) -> Frame | None:
        """Nothing may come between the parts of a block."""
        if kind != CONTINUATION or stream != block.stream:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "fields that are not continued")
        block.parts.append(payload)
        # Empty parts count, too: else they could come for ever.
        if sum(map(len, block.parts)) + _HEAD_BYTES * len(block.parts) > _MAX_BLOCK_BYTES:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, f"more than {_MAX_BLOCK_BYTES:,} bytes of fields")
        if not flags & END_HEADERS:
            return None
        self._block = None
        payload = b"".join(block.parts)
        return HEADERS, block.flags | END_HEADERS, stream, payload, len(payload)


def _check(kind: int, flags: int, stream: int, length: int) -> None:
    """What the protocol says of a frame's size and stream."""
    if kind == CONTINUATION or (stream == 0 and kind in _OF_A_STREAM) or (stream and kind in _OF_THE_CONNECTION):
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"a frame of type {kind} on stream {stream}")
    fits = length == _EXACT_BYTES.get(kind, length)
    if kind == SETTINGS:
        fits = length == 0 if flags & ACK else length % 6 == 0
    elif kind == GOAWAY:
        fits = length >= 8  # noqa: PLR2004 -- the last stream and the code
    if not fits:
        raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"a frame of type {kind} with {length} bytes")


def _unpadded(payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "more padding than frame")
    return payload[1 : len(payload) - payload[0]]


def _without_priority(payload: bytes, flags: int) -> bytes:
    if flags & PADDED:
        payload = _unpadded(payload)
    if not flags & PRIORITISED:
        return payload
    if len(payload) < _EXACT_BYTES[PRIORITY]:
        raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "a priority that is cut off")
    return payload[_EXACT_BYTES[PRIORITY] :]

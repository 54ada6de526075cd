"""
HTTP/2, and gRPC over it. Here its frames, pure: bytes to frames and back, as far as a client of gRPC needs them.

What comes out is clean: padding and priorities are gone, and a block of fields is whole, in however many frames it
came. Frames of types that nobody knows are passed over, as the protocol demands.

Compressed fields (HPACK) are the library `hpack`'s, so that the usual costs a look into a dict. The peer is asked to
remember nothing (SETTINGS_HEADER_TABLE_SIZE 0), so that a block of fields means the same wherever it comes: a pure
function, with a cache. In the other direction the first request teaches the peer all fields but the path, which is
always sent whole. So no later one changes what the peer remembers, and blocks may be kept, too.

Source:
    RFC 9113, HTTP/2 (2022), sections 4, 6 and 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache
from struct import Struct
from typing import NamedTuple
from urllib.parse import unquote

from hpack import Decoder, Encoder, HPACKError, NeverIndexedHeaderTuple

Http2Frame = tuple[int, int, int, bytes, int]
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
    """Why a stream or a connection ends; what we do not know becomes `INTERNAL_ERROR`, as RFC 9113 suggests."""

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
    """Return one frame's bytes; the payload is not longer than the peer allows."""
    return _HEAD.pack(len(payload) << 8 | kind, flags, stream) + payload


def encode_request(stream: int, block: bytes, data: bytes) -> bytes:
    """Return a whole request: one frame of fields, one of data, and the stream's end."""
    head = _HEAD.pack(len(block) << 8 | HEADERS, END_HEADERS, stream)
    return b"".join((head, block, _HEAD.pack(len(data) << 8, END_STREAM, stream), data))


class _Block(NamedTuple):
    """Fields of which only a part has come."""

    flags: int
    stream: int
    parts: list[bytes]


class Http2FrameReader:
    """Bytes, as they come, to frames."""

    def __init__(self) -> None:
        self._rest = b""
        self._block: _Block | None = None
        self.has_more = False
        """Whether behind the frame that was given last more has come, if only a part of one."""

    def frames(self, data: bytes) -> Iterator[Http2Frame]:
        """
        Yield the frames that are complete now; to be taken to the last before more is given.

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

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> Http2Frame | None:
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

    def _continued(self, block: _Block, kind: int, flags: int, stream: int, payload: bytes) -> Http2Frame | None:
        """Take a part of a block, between which nothing may come; return the frame that it completes."""
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
    """Check a frame's size and stream."""
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


USUAL_TABLE_BYTES = 4_096
_MAX_FIELDS_BYTES = 64 * 1024
_MAX_CODE_DIGITS = 9
"""gRPC's have two; more than 4,300 are too many for `int`."""


class Head(NamedTuple):
    """
    The meaning that fields or trailers of an answer have for gRPC.

    http_status: "" in trailers. grpc_status: None where it is not said, -1 if it is no number. message: with it, for
    people.
    """

    http_status: str
    content_type: str
    grpc_status: int | None
    message: str


@lru_cache(256)
def decode_head(block: bytes) -> Head:
    """
    Decode fields of an answer, from a peer that remembers nothing.

    Raises:
        Http2Error: they cannot be understood.
    """
    decoder = Decoder(_MAX_FIELDS_BYTES)
    decoder.max_allowed_table_size = decoder.header_table_size = 0
    try:
        fields = {str(name): str(value) for name, value in decoder.decode(block)}
    except (HPACKError, UnicodeDecodeError) as error:
        raise Http2Error(ErrorCode.COMPRESSION_ERROR, f"fields that cannot be read: {type(error).__name__}") from error
    status, content_type = fields.get(":status", ""), fields.get("content-type", "")
    code = fields.get("grpc-status")
    grpc_status = None if code is None else _number(code)
    return Head(status, content_type, grpc_status, unquote(fields.get("grpc-message", "")))


def _number(code: str) -> int:
    return int(code) if code.isascii() and code.isdigit() and len(code) <= _MAX_CODE_DIGITS else -1


class RequestFields:
    """
    Fields of the requests over one connection; blocks must be sent in the order in which they are asked for.

    Args:
        scheme: `http` or `https`.
        authority: the server as the client names it, `host:port`.
    """

    def __init__(self, scheme: str, authority: str) -> None:
        self._scheme = scheme
        self._authority = authority
        self._encoder = Encoder()
        self._is_first = True
        self._blocks: dict[str, bytes] = {}

    def limit(self, table_bytes: int) -> None:
        """Limit what the peer remembers. Below the usual, which has room for us, we ask for nothing."""
        self._blocks.clear()
        self._is_first = True
        self._encoder.header_table_size = USUAL_TABLE_BYTES if table_bytes >= USUAL_TABLE_BYTES else 0

    def block(self, path: str) -> bytes:
        """Return the block of one request's fields."""
        block = self._blocks.get(path)
        if block is None:
            block = self._encode(path)
            if not self._is_first:
                self._blocks[path] = block
            self._is_first = False
        return block

    def _encode(self, path: str) -> bytes:
        return self._encoder.encode(
            [
                (":method", "POST"),
                (":scheme", self._scheme),
                NeverIndexedHeaderTuple(":path", path),
                (":authority", self._authority),
                ("content-type", "application/grpc"),
                ("te", "trailers"),
                ("user-agent", "stepbench"),
            ]
        )

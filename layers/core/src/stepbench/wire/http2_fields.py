"""
HTTP/2's compressed fields (HPACK) for gRPC, over the library `hpack`, so that the usual costs a look into a dict.

The peer is told to remember nothing (SETTINGS_HEADER_TABLE_SIZE 0), so that a block of fields means the same wherever
it comes: a pure function, with a cache. In the other direction the first request teaches the peer all fields but the
path, which is always sent whole. So no later one changes what the peer remembers, and blocks may be kept, too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote

from hpack import Decoder, Encoder, HPACKError, NeverIndexedHeaderTuple

from stepbench.wire.http2_frames import ErrorCode, Http2Error

USUAL_TABLE_BYTES = 4_096
_MAX_FIELDS_BYTES = 64 * 1024
_MAX_CODE_DIGITS = 9
"""gRPC's have two; more than 4,300 are too many for `int`."""


class Head(NamedTuple):
    """
    What fields or trailers of an answer say to gRPC.

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
    Fields of an answer, from a peer that remembers nothing.

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
        """The peer will remember no more than that. Below the usual, which has room for us, we ask for nothing."""
        self._blocks.clear()
        self._is_first = True
        self._encoder.header_table_size = USUAL_TABLE_BYTES if table_bytes >= USUAL_TABLE_BYTES else 0

    def block(self, path: str) -> bytes:
        """For one request."""
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

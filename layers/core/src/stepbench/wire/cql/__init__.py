"""
CQL's native protocol, version 4, as far as a client with a handful of statements needs it. Pure.

A frame is a head of nine bytes (version, flags, stream, opcode, length) and a body. Answers carry the stream of their
request and come in any order. Version 4 is what Cassandra since 2.2 and ScyllaDB speak; version 5 adds nothing that is
needed here, and checksums that TCP and TLS have already.

Source:
    Apache Cassandra, doc/native_protocol_v4.spec.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

MAX_FRAME_BYTES = 64 * 1024 * 1024
STREAMS = 32_768
"""A stream is a number from 0 up to this."""
UNPREPARED = "Unprepared"
"""The node's name for a prepared statement that it does not know, or no longer."""
_REQUEST, _ANSWER = 0x04, 0x84
_HEAD = struct.Struct("!BBhBi")
HEAD_BYTES = _HEAD.size
_INT, _SHORT = struct.Struct("!i"), struct.Struct("!H")
_NO_FLAGS, _VALUES, _SKIP_METADATA = 0x00, 0x01, 0x02
_COMPRESSED, _UNASKED, _WARNINGS = 0x01, 0x02 | 0x04, 0x08

_CUT_OFF = "an answer that ends within its warnings"

Values = Sequence[bytes]
"""Values of a statement's placeholders, each as its column's type encodes it in bytes."""


class Opcode(IntEnum):
    """The kinds of frames."""

    ERROR = 0x00
    STARTUP = 0x01
    READY = 0x02
    AUTHENTICATE = 0x03
    OPTIONS = 0x05
    SUPPORTED = 0x06
    QUERY = 0x07
    RESULT = 0x08
    PREPARE = 0x09
    EXECUTE = 0x0A
    AUTH_CHALLENGE = 0x0E
    AUTH_RESPONSE = 0x0F
    AUTH_SUCCESS = 0x10


class Consistency(IntEnum):
    """The numbers of replicas that have to answer."""

    ONE = 0x0001
    ALL = 0x0005
    LOCAL_QUORUM = 0x0006


class MalformedCqlError(ConnectionError):
    """The peer speaks another protocol."""


class CqlRequest(NamedTuple):
    """A request, without its stream."""

    opcode: Opcode
    body: bytes


class CqlFrame(NamedTuple):
    """An answer; `opcode` may be one that is not known here."""

    stream: int
    opcode: int
    body: bytes


class FrameHead(NamedTuple):
    """The header of an answer: its body has `body_bytes` bytes."""

    flags: int
    stream: int
    opcode: int
    body_bytes: int


def encode(request: CqlRequest, stream: int) -> bytes:
    """Return the bytes of a request."""
    return _HEAD.pack(_REQUEST, 0, stream, request.opcode, len(request.body)) + request.body


def encode_execute_head(
    identity: bytes, consistency: Consistency, values: Values, last_bytes: int, stream: int
) -> bytes:
    """Return the bytes of `execute` up to those of its last value, which has so many and is sent apart."""
    parameters = _value_head(consistency, len(values) + 1, _SKIP_METADATA) + _each_value(values) + _INT.pack(last_bytes)
    body = _short_bytes(identity) + parameters
    return _HEAD.pack(_REQUEST, 0, stream, Opcode.EXECUTE, len(body) + last_bytes) + body


def startup() -> CqlRequest:
    """Return the first request on a connection."""
    return CqlRequest(Opcode.STARTUP, _SHORT.pack(1) + _short_bytes(b"CQL_VERSION") + _short_bytes(b"3.0.0"))


def options() -> CqlRequest:
    """Return the request for what the server supports."""
    return CqlRequest(Opcode.OPTIONS, b"")


def plain_credentials(user: str, password: str) -> CqlRequest:
    """Return the answer to AUTHENTICATE: SASL's PLAIN."""
    return CqlRequest(Opcode.AUTH_RESPONSE, _bytes(b"\0" + user.encode() + b"\0" + password.encode()))


def query(statement: str, consistency: Consistency, values: Values = ()) -> CqlRequest:
    """Return the request of a statement that is parsed now; its answer says which columns it has."""
    return CqlRequest(Opcode.QUERY, _bytes(statement.encode()) + _parameters(consistency, values, _NO_FLAGS))


def prepare(statement: str) -> CqlRequest:
    """Return the request to prepare a statement, for any connection to this node; `prepared_id` reads the answer."""
    return CqlRequest(Opcode.PREPARE, _bytes(statement.encode()))


def execute(identity: bytes, consistency: Consistency, values: Values) -> CqlRequest:
    """Return the request to execute a prepared statement; its answer says nothing of the columns."""
    return CqlRequest(Opcode.EXECUTE, _short_bytes(identity) + _parameters(consistency, values, _SKIP_METADATA))


def read_head(data: bytes, at: int = 0) -> FrameHead:
    """
    Return the head that begins there; `HEAD_BYTES` of it are there.

    Raises:
        MalformedCqlError: no answer of version 4, a compressed one, or one that is too long.
    """
    version, flags, stream, opcode, length = _HEAD.unpack_from(data, at)
    if version != _ANSWER or not 0 <= length <= MAX_FRAME_BYTES or flags & _COMPRESSED:
        message = f"a frame of version {version:#04x}, flags {flags:#04x} and {length:,} bytes is none of ours"
        raise MalformedCqlError(message)
    return FrameHead(flags, stream, opcode, length)


class CqlReader:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[CqlFrame]:
        """
        Return the frames that are complete now.

        Raises:
            MalformedCqlError: as `read_head`; the connection is of no use any more.
        """
        data = self._rest + data if self._rest else data
        frames, at = [], 0
        while len(data) - at >= _HEAD.size:
            flags, stream, opcode, length = read_head(data, at)
            end = at + _HEAD.size + length
            if end > len(data):
                break
            frames.append(CqlFrame(stream, opcode, without_warnings(data[at + _HEAD.size : end], flags)))
            at = end
        self._rest = data[at:]
        return frames


def without_warnings(body: bytes, flags: int) -> bytes:
    """Cut off the warnings that a server may put first; a trace's id or a payload comes only if it is asked for."""
    if flags & _UNASKED:
        message = "an answer with a trace or a payload, which nobody asked for"
        raise MalformedCqlError(message)
    if not flags & _WARNINGS:
        return body
    at = _SHORT.size
    for _ in range(_short_at(body, 0)):
        at += _SHORT.size + _short_at(body, at)
    if at > len(body):
        raise MalformedCqlError(_CUT_OFF)
    return body[at:]


def _short_at(body: bytes, at: int) -> int:
    if len(body) < at + _SHORT.size:
        raise MalformedCqlError(_CUT_OFF)
    return int(_SHORT.unpack_from(body, at)[0])


def _parameters(consistency: Consistency, values: Values, flags: int) -> bytes:
    if not values:
        return _SHORT.pack(consistency) + bytes([flags])
    return _value_head(consistency, len(values), flags) + _each_value(values)


def _value_head(consistency: Consistency, count: int, flags: int) -> bytes:
    return _SHORT.pack(consistency) + bytes([flags | _VALUES]) + _SHORT.pack(count)


def _each_value(values: Values) -> bytes:
    return b"".join([_INT.pack(len(value)) + value for value in values])


def _bytes(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


def _short_bytes(data: bytes) -> bytes:
    return _SHORT.pack(len(data)) + data

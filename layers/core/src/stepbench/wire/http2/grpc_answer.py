"""The end of a gRPC call, pure: status codes, messages with a length before them, and answers."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from stepbench.wire.http2 import ErrorCode
from stepbench.wire.http2.streams import StreamEnd

MAX_MESSAGE_BYTES = 64 * 2**20
_PREFIX = Struct(">BI")


class GrpcStatus(IntEnum):
    """
    The ways in which a call ends.

    Source:
        The gRPC specification, "Status codes and their use in gRPC".
    """

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class GrpcAnswer(NamedTuple):
    """
    The end of one call.

    t1_ns: the last statement before its first bytes went to the kernel (if they never did: as `t2_ns`).
    t2_ns: the first statement after the bytes arrived that completed its answer, or the moment of giving up.
    status: the server's, or what gRPC calls an answer's lack; message: in words.
    data: the message, serialised; empty unless the status is OK.
    is_answered: the status is the server's.
    is_untouched: it had certainly no effect: nothing of it has left us, or the server says that it did nothing with it.
    """

    t1_ns: int
    t2_ns: int
    status: GrpcStatus
    message: str = ""
    data: bytes = b""
    is_answered: bool = True
    is_untouched: bool = False


class MalformedMessageError(Exception):
    """An answer's body that is no message, or one that is too long."""


def prefixed(message: bytes) -> bytes:
    """Return a message as it is sent, uncompressed."""
    return _PREFIX.pack(0, len(message)) + message


class MessageReader:
    """Bytes, as they come, to messages."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._wanted = _PREFIX.size

    @property
    def is_at_end(self) -> bool:
        """Return that no message has begun which is not complete."""
        return self._size == 0

    def feed(self, data: bytes) -> list[bytes]:
        """
        Return the messages that are complete now.

        Raises:
            MalformedMessageError: one is compressed, which we do not offer, or longer than 64 MB.
        """
        self._parts.append(data)
        self._size += len(data)
        if self._size < self._wanted:
            return []
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        messages, at = [], 0
        self._wanted = _PREFIX.size
        while len(data) - at >= _PREFIX.size:
            compressed, length = _PREFIX.unpack_from(data, at)
            if compressed or length > MAX_MESSAGE_BYTES:
                message = "a compressed message" if compressed else f"a message of {length:,} bytes"
                raise MalformedMessageError(message)
            end = at + _PREFIX.size + length
            if end > len(data):
                self._wanted = end - at
                break
            messages.append(data[at + _PREFIX.size : end])
            at = end
        self._size = len(data) - at
        self._parts = [data[at:]] if self._size else []
        return messages


def status_from_code(code: int) -> GrpcStatus:
    """Read `grpc-status`; what nobody knows is UNKNOWN, as the specification says."""
    try:
        return GrpcStatus(code)
    except ValueError:
        return GrpcStatus.UNKNOWN


def status_from_http(http_status: str) -> GrpcStatus:
    """
    Translate the status of an answer that is not gRPC's: a proxy's, say.

    Source:
        The gRPC specification, "HTTP to gRPC Status Code Mapping".
    """
    codes = {
        "400": GrpcStatus.INTERNAL,
        "401": GrpcStatus.UNAUTHENTICATED,
        "403": GrpcStatus.PERMISSION_DENIED,
        "404": GrpcStatus.UNIMPLEMENTED,
        "429": GrpcStatus.UNAVAILABLE,
        "502": GrpcStatus.UNAVAILABLE,
        "503": GrpcStatus.UNAVAILABLE,
        "504": GrpcStatus.UNAVAILABLE,
    }
    return codes.get(http_status, GrpcStatus.UNKNOWN)


def status_from_end(ended: StreamEnd) -> GrpcStatus:
    """
    Return the status of a call whose stream was reset, or whose connection is gone.

    Source:
        The gRPC specification, "PROTOCOL-HTTP2", section "Errors".
    """
    match ended.code:
        case None | ErrorCode.REFUSED_STREAM:
            return GrpcStatus.UNAVAILABLE
        case _ if ended.untouched:
            return GrpcStatus.UNAVAILABLE
        case ErrorCode.CANCEL:
            return GrpcStatus.CANCELLED
        case ErrorCode.ENHANCE_YOUR_CALM:
            return GrpcStatus.RESOURCE_EXHAUSTED
        case ErrorCode.INADEQUATE_SECURITY:
            return GrpcStatus.PERMISSION_DENIED
        case _:
            return GrpcStatus.INTERNAL

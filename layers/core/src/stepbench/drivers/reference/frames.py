"""
The reference store's protocol: frames over TCP, as the driver and `calibration.reference_store` speak it. Pure.

A frame is its length (uint32, of all that follows it), its kind (uint8), a number (uint64) and a body; integers are
in network order. The number of a request comes back in its answer; answers may come in any order.

    to the store                              from the store
    CONFIGURE  JSON {tag, target, seed}       DONE     the request's; the body is said below
    WRITE      uint16 key length, key, value  REFUSED  the request's; the body is an error code in ASCII
    WATCH      JSON {tag, after}              CHANGE   a position; the body is the value
    STATUS     JSON {tag}
    READ       the key
    KEYS       JSON {tag}
    REMOVE     JSON {tag}
    VERSION    nothing

DONE's body: WRITE the write's number within its trial, in ASCII; READ one byte (1 there, 0 not) and the value; STATUS
JSON {pending, position}; KEYS JSON, a list of names; VERSION text; the others nothing. After DONE to WATCH, changes
come on the same connection until it ends, those after the position `after` first (null: none that went before).
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

MAX_FRAME_BYTES = 16 * 1024 * 1024
_HEAD = struct.Struct("!IBQ")
_AFTER_LENGTH = _HEAD.size - 4
_KEY_LENGTH = struct.Struct("!H")


class FrameKind(IntEnum):
    """The kind of a frame."""

    CONFIGURE = 1
    WRITE = 2
    WATCH = 3
    STATUS = 4
    READ = 5
    KEYS = 6
    REMOVE = 7
    VERSION = 8
    DONE = 16
    REFUSED = 17
    CHANGE = 18


class MalformedFrameError(ValueError):
    """The peer speaks another protocol."""


class Frame(NamedTuple):
    """One frame; `kind` may be one that is not known here."""

    kind: int
    number: int
    body: bytes


def encode_frame(kind: FrameKind, number: int, body: bytes = b"") -> bytes:
    """Return the bytes of a frame."""
    return _HEAD.pack(_AFTER_LENGTH + len(body), kind, number) + body


def encode_write(number: int, key: bytes, value: bytes) -> bytes:
    """Return the bytes of a WRITE."""
    return encode_frame(FrameKind.WRITE, number, _KEY_LENGTH.pack(len(key)) + key + value)


def decode_write(body: bytes) -> tuple[bytes, bytes]:
    """
    Return key and value of a WRITE's body.

    Raises:
        MalformedFrameError: it is shorter than it says.
    """
    start = _KEY_LENGTH.size
    end = start + _KEY_LENGTH.unpack_from(body)[0] if len(body) >= start else start + 1
    if len(body) < end:
        message = f"a write of {len(body)} bytes is shorter than its key"
        raise MalformedFrameError(message)
    return body[start:end], body[end:]


class FrameReader:
    """A parser of a stream of bytes into frames."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Frame]:
        """
        Return the frames that are complete now.

        Raises:
            MalformedFrameError: a length that no frame has; the connection is of no use any more.
        """
        data = self._rest + data if self._rest else data
        frames, at = [], 0
        while len(data) - at >= _HEAD.size:
            length, kind, number = _HEAD.unpack_from(data, at)
            if not _AFTER_LENGTH <= length <= MAX_FRAME_BYTES:
                message = f"a frame of {length} bytes, where {_AFTER_LENGTH} to {MAX_FRAME_BYTES:,} are allowed"
                raise MalformedFrameError(message)
            end = at + 4 + length
            if end > len(data):
                break
            frames.append(Frame(kind, number, data[at + _HEAD.size : end]))
            at = end
        self._rest = data[at:]
        return frames

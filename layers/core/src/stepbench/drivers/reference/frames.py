"""
The reference store's protocol, frames over TCP, as the driver and `calibration.reference_store` speak it; a socket.

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

The socket has no asyncio transport between the stamp and the system call: uvloop's keep what is written until the
loop's turn is over, so that a time stamped before `write` would be too early by whatever else that turn has to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from stepbench.model.errors import CONNECTION_CLOSED, CONNECTION_RESET, GARBAGE, TIMEOUT
from stepbench.wire.socket import ask_for_stamps, receive_stamped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepbench.clock import Clock

    Arrived = Callable[[int, Sequence["Frame"]], None]
    """Given when the bytes were in hand (ns since the epoch) and the frames that they completed."""

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


CONNECT_LIMIT_S = 5.0
_READ_BYTES = 64 * 1024
"""With 256 KB a small receipt takes 15 µs more: the allocation is a system call then."""
_SECOND_READ_S = 0.1
"""uvloop calls a reader once when a connection is reset, and never again; the reset may lie behind bytes that came."""


class FramedSocket:
    """
    An open connection.

    Args:
        connected: a non-blocking TCP socket; it is closed with this object.
        clock: for `send`'s time and the arrivals'.
        arrived: called on the loop with what came in.
        lost: called once, with a reason, when the peer or the network has ended the connection.
        kernel_stamps: bytes are in hand when the kernel has them, not when this process wakes up to take them; only
            where the clock is the host's own, and the kernel is Linux. It begins a moment after the first socket has
            asked; until then an arrival has the time of its fetching.
    """

    def __init__(
        self,
        connected: socket.socket,
        clock: Clock,
        arrived: Arrived,
        lost: Callable[[str], None],
        *,
        kernel_stamps: bool = False,
    ) -> None:
        self._socket = connected
        self._clock = clock
        self._arrived = arrived
        self._lost = lost
        self._reader = FrameReader()
        self._stamped = kernel_stamps
        if kernel_stamps:
            ask_for_stamps(connected)
        self._unsent = b""
        self._second_read: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(connected.fileno(), self._read)
        self.is_open = True

    @classmethod
    async def connect(
        cls, host: str, port: int, clock: Clock, arrived: Arrived, lost: Callable[[str], None]
    ) -> FramedSocket:
        """
        Connect to a numeric address.

        Raises:
            OSError: nobody is there, or not within `CONNECT_LIMIT_S` (TimeoutError is one).
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        connected = socket.socket(family, socket.SOCK_STREAM)
        try:
            connected.settimeout(0)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(CONNECT_LIMIT_S):
                await asyncio.get_running_loop().sock_connect(connected, (host, port))
            return cls(connected, clock, arrived, lost)
        except BaseException:
            connected.close()
            raise

    def send(self, data: bytes) -> int:
        """
        Hand bytes to the kernel, or what it does not take now as soon as it does.

        Returns:
            The time just before, ns since the epoch.
        """
        now_ns = self._clock.now_ns()
        if self._unsent:
            self._unsent += data
            return now_ns
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._end(_reason(error))
            return now_ns
        if sent < len(data):
            self._unsent = data[sent:]
            self._loop.add_writer(self._socket.fileno(), self._send_rest)
        return now_ns

    def close(self) -> None:
        """Close without a call of `lost`; safe to call twice."""
        if self.is_open:
            self.is_open = False
            if self._second_read is not None:
                self._second_read.cancel()
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()

    def _send_rest(self) -> None:
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(_reason(error))
            return
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            self._loop.remove_writer(self._socket.fileno())

    def _read_again(self) -> None:
        self._second_read = None
        self._read()

    def _read(self) -> None:
        try:
            data, now_ns = self._receive_stamped() if self._stamped else self._receive()
        except BlockingIOError:
            return
        except OSError as error:
            self._end(_reason(error))
            return
        if not data:
            self._end(CONNECTION_CLOSED)
            return
        if self._second_read is None:
            self._second_read = self._loop.call_later(_SECOND_READ_S, self._read_again)
        try:
            frames = self._reader.feed(data)
        except MalformedFrameError:
            self._end(GARBAGE)
            return
        self._arrived(now_ns, frames)

    def _receive(self) -> tuple[bytes, int]:
        data = self._socket.recv(_READ_BYTES)
        return data, self._clock.now_ns()

    def _receive_stamped(self) -> tuple[bytes, int]:
        data, stamp_ns = receive_stamped(self._socket, _READ_BYTES)
        return data, stamp_ns or self._clock.now_ns()

    def _end(self, reason: str) -> None:
        if self.is_open:
            with contextlib.suppress(OSError):
                self.close()
            self._lost(reason)


def _reason(error: OSError) -> str:
    if isinstance(error, (ConnectionResetError, BrokenPipeError)):
        return CONNECTION_RESET
    return TIMEOUT if isinstance(error, TimeoutError) else type(error).__name__

"""
A client's socket for bytes, plain or with TLS, without an asyncio transport between the stamps and the system calls.

The send is the statement after the stamp, and the stamp the statement after the receipt. Of TLS, the encryption comes
before the former and the decryption after the latter.

uvloop calls a reader once when a connection is reset, and never again: libuv's poll handle stops at EPOLLERR. What the
reset has left to be read, and the reset itself behind it, are found by a second look a little later.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import weakref
from collections import deque
from typing import TYPE_CHECKING

from stepbench.model.errors import CONNECTION_CLOSED, CONNECTION_RESET

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.wire.connect import TlsSession

    OnArrival = Callable[[int, bytes], None]
    """Given when the bytes were in hand (ns since the epoch) and the bytes, decrypted."""


_SO_TIMESTAMPNS = 35
"""Python has no name for it; the number is the same on every architecture of Lambda and Fargate."""
_TIMESPEC = struct.Struct("@ll")
_STAMP_SPACE = socket.CMSG_SPACE(_TIMESPEC.size)


def ask_for_stamps(of: socket.socket) -> None:
    """Have what comes in stamped; what a listening socket accepts has that from it."""
    of.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def receive_stamped(connected: socket.socket, most_bytes: int) -> tuple[bytes, int | None]:
    """
    Receive, and return when the last of the bytes came in, ns since the epoch by CLOCK_REALTIME, if the kernel says.

    Source:
        Linux, Documentation/networking/timestamping.rst, section 1.1 (SO_TIMESTAMPNS; for TCP, of the last byte read).
    """
    data, ancillary, _, _ = connected.recvmsg(most_bytes, _STAMP_SPACE)
    for level, kind, stamp in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
            seconds, nanoseconds = _TIMESPEC.unpack_from(stamp)
            return data, int(seconds * 1_000_000_000 + nanoseconds)
    return data, None


_READ_BYTES = 64 * 1024  # with 256 KB a small receipt takes 15 µs more: the allocation is a system call then
_SECOND_READ_S = 0.1


class OutgoingBytes:
    """
    Bytes that are sent as one, and when.

    t1_ns: the last statement before the kernel took the first of them, ns since the epoch; 0: it never has.
    """

    __slots__ = ("t1_ns",)

    def __init__(self) -> None:
        self.t1_ns = 0


class ByteSocket:
    """
    An open connection.

    Args:
        connected: a non-blocking TCP socket; it is closed with this object.
        clock: for the times of sends and arrivals.
        arrived: called on the loop with what came in.
        lost: called with a reason when the connection has ended, not by `close`, and again whenever something is
            sent after that; all that came before has been given to `arrived`.
        tls: after its handshake over this socket, if it is to be spoken.
    """

    def __init__(
        self,
        connected: socket.socket,
        clock: Clock,
        arrived: OnArrival,
        lost: Callable[[str], None],
        tls: TlsSession | None = None,
    ) -> None:
        self._socket = connected
        self._now_ns = clock.now_ns  # bound once: each is looked up twice an operation
        self._arrived = arrived
        self._lost = lost
        self._tls = tls
        self._waiting: deque[tuple[memoryview, OutgoingBytes]] = deque()
        self._refused = ""
        self._end_reason = CONNECTION_CLOSED
        self._second_read: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(connected.fileno(), self._read)
        self.is_open = True
        if tls is not None:  # what came with the handshake's last bytes
            self._loop.call_soon(self._take, b"")

    @property
    def is_sending(self) -> bool:
        """Return whether the kernel has not taken everything yet."""
        return bool(self._waiting)

    def send(self, data: bytes, outgoing: OutgoingBytes) -> None:
        """
        Hand bytes to the kernel; what it does not take now, as soon as it does, in order.

        On a connection that has ended they go nowhere, and `outgoing.t1_ns` stays 0.
        """
        if not self.is_open:
            self._lost(self._end_reason)
            return
        if self._tls is not None:
            try:
                data = self._tls.encrypt(data)
            except ssl.SSLError as error:
                self._refuse(error)
                return
        if self._waiting:
            self._waiting.append((memoryview(data), outgoing))
            return
        outgoing.t1_ns = self._now_ns()
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            outgoing.t1_ns = sent = 0
        except OSError as error:
            outgoing.t1_ns = 0
            self._refuse(error)
            return
        if sent < len(data):
            self._waiting.append((memoryview(data)[sent:], outgoing))
            self._loop.add_writer(self._socket.fileno(), self._send_waiting)

    def withdraw(self, outgoing: OutgoingBytes) -> bool:
        """
        Take back what waits for the kernel; True: that was so, and it never leaves.

        One that is encrypted cannot: the peer would miss a record, and end the connection.
        """
        if outgoing.t1_ns or self._tls is not None:
            return False
        for place, (_, waiting) in enumerate(self._waiting):
            if waiting is outgoing:
                del self._waiting[place]
                return True
        return False

    def close(self) -> None:
        """
        Close without a word to `lost`; safe to call twice.

        Its owner is held no longer: the two would be garbage that only the collector finds, which is off under load.
        """
        if self.is_open:
            self._let_go()
            self._socket.close()

    def detach(self) -> tuple[socket.socket, TlsSession | None]:
        """Give the connection away, on which nothing is under way; this object is of no use any more."""
        tls = self._tls
        self._let_go()
        return self._socket, tls

    def end(self, reason: str) -> None:
        """Close, and call `lost`, unless that has been done."""
        if self.is_open:
            self._end_reason, lost = reason, self._lost
            with contextlib.suppress(OSError):
                self.close()
            lost(reason)

    def _let_go(self) -> None:
        self.is_open = False
        self._arrived, self._lost, self._tls = _pass_over, _weakly(self._lost), None
        self._waiting.clear()
        if self._second_read is not None:
            self._second_read.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())

    def _send_waiting(self) -> None:
        while self._waiting:
            data, outgoing = self._waiting[0]
            is_first = outgoing.t1_ns == 0
            if is_first:
                outgoing.t1_ns = self._now_ns()
            try:
                sent = self._socket.send(data)
            except OSError as error:
                if is_first:
                    outgoing.t1_ns = 0
                if not isinstance(error, BlockingIOError):
                    self._refuse(error)
                return
            if sent < len(data):
                self._waiting[0] = data[sent:], outgoing
                return
            self._waiting.popleft()
        self._loop.remove_writer(self._socket.fileno())

    def _refuse(self, error: OSError) -> None:
        """Note that the kernel takes no more; what the peer said before it went may still have to be read."""
        self._loop.remove_writer(self._socket.fileno())
        if not self._refused:
            self._refused = loss_reason(error)
            self._loop.call_soon(self._read_rest)

    def _read_rest(self) -> None:
        while self.is_open and self._read():
            pass
        self.end(self._refused)

    def _read_again(self) -> None:
        self._second_read = None
        self._read()

    def _read(self) -> bool:
        """Receive once; return whether there may be more."""
        if not self.is_open:
            return False
        try:
            data = self._socket.recv(_READ_BYTES)
            now_ns = self._now_ns()
        except BlockingIOError:
            return False
        except OSError as error:
            self.end(loss_reason(error))
            return False
        if len(data) == _READ_BYTES:
            self._loop.call_soon(self._read)
        elif self._second_read is None:
            self._second_read = self._loop.call_later(_SECOND_READ_S, self._read_again)
        if not data:
            self.end(self._refused or CONNECTION_CLOSED)
        elif self._tls is None:
            self._arrived(now_ns, data)
        else:
            self._take(data, now_ns)
        return True

    def _take(self, data: bytes, now_ns: int = 0) -> None:
        """Decrypt and pass on."""
        tls = self._tls
        if tls is None:
            return
        try:
            plain = tls.decrypt(data)
        except ssl.SSLError as error:
            self.end(loss_reason(error))
            return
        if plain:
            self._arrived(now_ns or self._now_ns(), plain)
        if tls.is_over:
            self.end(CONNECTION_CLOSED)
        elif tls.must_answer and self.is_open:
            self.send(b"", OutgoingBytes())


def _pass_over(_now_ns: int, _data: bytes) -> None:
    """Stand for `arrived` once the connection is closed."""


def _weakly(lost: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that calls `lost` for as long as the object lives whose method it is."""
    if not hasattr(lost, "__self__"):
        return lost
    method = weakref.WeakMethod(lost)

    def call_lost(reason: str) -> None:
        bound = method()
        if bound is not None:
            bound(reason)

    return call_lost


def loss_reason(error: OSError) -> str:
    """Return why a connection is lost, as one of `model.errors` where there is one."""
    if isinstance(error, ssl.SSLError):
        return f"tls: {error.reason}"
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return CONNECTION_RESET
    return type(error).__name__

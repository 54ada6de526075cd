"""
A client's socket for bytes, plain or with TLS, without an asyncio transport between the stamps and the system calls.

As `wire.framed_socket`: the send is the statement after the stamp, and the stamp the statement after the receipt. Of
TLS, the encryption comes before the former and the decryption after the latter.

uvloop calls a reader once when a connection is reset, and never again: libuv's poll handle stops at EPOLLERR. What the
reset has left to be read, and the reset itself behind it, are found by a second look a little later.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import weakref
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.wire.tls_session import TlsSession

    Arrived = Callable[[int, bytes], None]
    """Given when the bytes were in hand (ns since the epoch) and the bytes, decrypted."""

_READ_BYTES = 64 * 1024  # with 256 KB a small receipt takes 15 µs more: the allocation is a system call then
_SECOND_LOOK_S = 0.1


class Shipment:
    """
    Bytes that are sent as one.

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
        clock: for shipments and arrivals.
        arrived: called on the loop with what came in.
        lost: called with a reason when the connection has ended, not by `close`, and again whenever something is
            sent after that; all that came before has been given to `arrived`.
        tls: after its handshake over this socket, if it is to be spoken.
    """

    def __init__(
        self,
        connected: socket.socket,
        clock: Clock,
        arrived: Arrived,
        lost: Callable[[str], None],
        tls: TlsSession | None = None,
    ) -> None:
        self._socket = connected
        self._now_ns = clock.now_ns  # bound once: each is looked up twice an operation
        self._arrived = arrived
        self._lost = lost
        self._tls = tls
        self._waiting: deque[tuple[memoryview, Shipment]] = deque()
        self._refused = ""
        self._end_reason = "connection-closed"
        self._second_look: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(connected.fileno(), self._read)
        self.is_open = True
        if tls is not None:  # what came with the handshake's last bytes
            self._loop.call_soon(self._take, b"")

    @property
    def is_sending(self) -> bool:
        """Whether the kernel has not taken everything yet."""
        return bool(self._waiting)

    def send(self, data: bytes, shipment: Shipment) -> None:
        """
        Hand bytes to the kernel; what it does not take now, as soon as it does, in order.

        On a connection that has ended they go nowhere, and the shipment's time stays 0.
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
            self._waiting.append((memoryview(data), shipment))
            return
        shipment.t1_ns = self._now_ns()
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            shipment.t1_ns = sent = 0
        except OSError as error:
            shipment.t1_ns = 0
            self._refuse(error)
            return
        if sent < len(data):
            self._waiting.append((memoryview(data)[sent:], shipment))
            self._loop.add_writer(self._socket.fileno(), self._send_waiting)

    def withdraw(self, shipment: Shipment) -> bool:
        """
        Whether a shipment that waits for the kernel could be taken back: then it never leaves.

        One that is encrypted cannot: the peer would miss a record, and end the connection.
        """
        if shipment.t1_ns or self._tls is not None:
            return False
        for place, (_, waiting) in enumerate(self._waiting):
            if waiting is shipment:
                del self._waiting[place]
                return True
        return False

    def close(self) -> None:
        """
        Close without a word to `lost`; safe to call twice.

        Its owner is held no longer: the two would be garbage that only the collector finds, which is off under load.
        """
        if self.is_open:
            self.is_open = False
            self._arrived, self._lost, self._tls = _pass_over, _weakly(self._lost), None
            self._waiting.clear()
            if self._second_look is not None:
                self._second_look.cancel()
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()

    def end(self, reason: str) -> None:
        """Close, and tell `lost`, unless that has been done."""
        if self.is_open:
            self._end_reason, lost = reason, self._lost
            with contextlib.suppress(OSError):
                self.close()
            lost(reason)

    def _send_waiting(self) -> None:
        while self._waiting:
            data, shipment = self._waiting[0]
            is_first = shipment.t1_ns == 0
            if is_first:
                shipment.t1_ns = self._now_ns()
            try:
                sent = self._socket.send(data)
            except OSError as error:
                if is_first:
                    shipment.t1_ns = 0
                if not isinstance(error, BlockingIOError):
                    self._refuse(error)
                return
            if sent < len(data):
                self._waiting[0] = data[sent:], shipment
                return
            self._waiting.popleft()
        self._loop.remove_writer(self._socket.fileno())

    def _refuse(self, error: OSError) -> None:
        """The kernel takes no more; what the peer said before it went may still have to be read."""
        self._loop.remove_writer(self._socket.fileno())
        if not self._refused:
            self._refused = _reason(error)
            self._loop.call_soon(self._read_rest)

    def _read_rest(self) -> None:
        while self.is_open and self._read():
            pass
        self.end(self._refused)

    def _look_again(self) -> None:
        self._second_look = None
        self._read()

    def _read(self) -> bool:
        """Whether there may be more."""
        if not self.is_open:
            return False
        try:
            data = self._socket.recv(_READ_BYTES)
            now_ns = self._now_ns()
        except BlockingIOError:
            return False
        except OSError as error:
            self.end(_reason(error))
            return False
        if len(data) == _READ_BYTES:
            self._loop.call_soon(self._read)
        elif self._second_look is None:
            self._second_look = self._loop.call_later(_SECOND_LOOK_S, self._look_again)
        if not data:
            self.end(self._refused or "connection-closed")
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
            self.end(f"tls: {error.reason}")
            return
        if plain:
            self._arrived(now_ns or self._now_ns(), plain)
        if tls.is_over:
            self.end("connection-closed")
        elif tls.must_answer and self.is_open:
            self.send(b"", Shipment())


def _pass_over(_now_ns: int, _data: bytes) -> None:
    """For nobody."""


def _weakly(lost: Callable[[str], None]) -> Callable[[str], None]:
    """The same for as long as the object lives whose method it is."""
    if not hasattr(lost, "__self__"):
        return lost
    method = weakref.WeakMethod(lost)

    def tell(reason: str) -> None:
        owned = method()
        if owned is not None:
            owned(reason)

    return tell


def _reason(error: OSError) -> str:
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return "connection-reset"
    return type(error).__name__

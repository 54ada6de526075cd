"""
A connection for payloads that are too large to be joined or copied: sent from where they lie, received where they go.

The connections of `wire.socket` hand each piece that arrives to a callback, which is the shortest way for answers of a
few KB. Here one coroutine at a time sends, and awaits what it asks for; of a payload the kernel writes every byte to
its place. TLS has to copy once more.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import TYPE_CHECKING

from stepbench.model.errors import CONNECTION_CLOSED, TIMEOUT
from stepbench.wire.socket import loss_reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.wire.connect import TlsSession

    Piece = bytes | bytearray | memoryview

STALL_S = 10.0
"""The default: how long a peer may neither take nor send a byte."""
_HEAD_BYTES = 4_096
"""What is asked for at a time while an answer's head is awaited; some of it may be the payload's begin."""
_AT_ONCE_BYTES = 2**20
_SECURE_BYTES = 128 * 1024
"""TLS encrypts, or awaits, so much at a time: its records have 16 KB, and one by one they take longer."""
_WOKEN_BYTES = 256 * 1024
"""Fewer bytes do not wake us: on a fast network each packet of a payload would."""
_RECORD_SLACK_BYTES = 32 * 1024
"""What TLS may hold of a payload already: that will not come from the socket, so it must not be waited for."""
_TURN_BYTES = 4 * 2**20
"""After so many bytes without a wait, others on the loop have their turn."""


class StreamEndedError(ConnectionError):
    """
    The connection has ended; `reason` is one of `model.errors`.

    sent: whether the kernel got any byte since the stream was taken into use.
    """

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent = sent


class ByteStream:
    """
    An open connection. All that waits raises StreamEndedError when it has ended, or stands still for too long.

    received: what has come and was not taken; of a payload nothing but its begin. has_sent: see `StreamEndedError`.

    Args:
        connected: a non-blocking TCP socket; it is closed with this object.
        tls: after its handshake over this socket, if it is to be spoken.
        stall_s: see `STALL_S`.
    """

    def __init__(self, connected: socket.socket, tls: TlsSession | None = None, *, stall_s: float = STALL_S) -> None:
        self.received = b""
        self.has_sent = False
        self.is_open = True
        self._socket = connected
        self._tls = tls
        self._stall_s = stall_s
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Future[str] | None = None
        self._scratch = memoryview(bytearray(_SECURE_BYTES if tls else 0))
        self._least_bytes = 1
        self._unbroken_bytes = 0
        self._has_just_sent = self._awaits_bytes = self._is_watched = False

    async def send(self, *pieces: Piece, attentive: bool = False) -> bool:
        """
        Hand pieces to the kernel, in order.

        Args:
            pieces: of bytes, which must not change meanwhile.
            attentive: stop when the peer speaks before it has taken all: it refuses.

        Returns:
            Whether all was taken; if not, `received` is what the peer said.
        """
        for views in self._batches(pieces):
            while views:
                if not self.is_open:
                    raise self.end(CONNECTION_CLOSED)
                try:
                    self._note_sent(views, self._socket.sendmsg(views))
                except BlockingIOError:
                    if attentive and self._take_in():
                        return False
                    await self._wait(to_send=True, to_receive=attentive)
                except OSError as error:
                    if attentive and self._take_in():
                        return False
                    raise self.end(loss_reason(error)) from error
                if self._unbroken_bytes >= _TURN_BYTES:
                    await self._give_turn()
        self._has_just_sent = self._tls is None  # which may hold what is next; the kernel cannot tell
        return True

    async def receive(self) -> None:
        """Wait for more, and add it to `received`."""
        if self._has_just_sent:  # to look would nearly always be in vain
            self._has_just_sent = False
            await self._wait()
        while not self._take_in():
            await self._wait()

    async def take(self, count: int) -> bytes:
        """Take so many bytes, of something small."""
        while len(self.received) < count:
            await self.receive()
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    async def fill(self, view: memoryview) -> None:
        """Take as many bytes as the memory has, and put them there."""
        at = min(len(view), len(self.received))
        view[:at], self.received = self.received[:at], self.received[at:]
        try:
            while at < len(view):
                count = self._receive_into(view[at:])
                at += count
                self._unbroken_bytes += count
                if not count:
                    self._await_bytes(len(view) - at)
                    await self._wait()
                elif self._unbroken_bytes >= _TURN_BYTES:
                    await self._give_turn()
        finally:
            self._await_bytes(1)

    def is_usable(self) -> bool:
        """Return whether the next request can be sent: the peer has not ended it, nor said what nobody asked for."""
        if not self.is_open:
            return False
        with contextlib.suppress(StreamEndedError):
            if not self.received and not self._take_in():
                return True
        self.close()
        return False

    def end(self, reason: str) -> StreamEndedError:
        """Close, and return the error to raise."""
        self.close()
        return StreamEndedError(reason, sent=self.has_sent)

    def close(self) -> None:
        """Close; whoever waits for the peer goes on with an error. Safe to call twice."""
        if self.is_open:
            self.is_open = False
            if self._waiting is not None:
                _wake(self._waiting, CONNECTION_CLOSED)
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()

    def _batches(self, pieces: tuple[Piece, ...]) -> Iterator[list[memoryview]]:
        """Yield what is handed over at a time: all, or of TLS as much as is encrypted together."""
        if self._tls is None:
            yield [memoryview(piece) for piece in pieces]
            return
        batch: list[memoryview] = []
        for piece in pieces:
            view = memoryview(piece)
            for at in range(0, len(view), _SECURE_BYTES):
                batch.append(memoryview(self._tls.encrypt(view[at : at + _SECURE_BYTES])))
                if len(batch[-1]) >= _SECURE_BYTES:
                    yield batch
                    batch = []
        yield batch

    def _note_sent(self, views: list[memoryview], count: int) -> None:
        """Remove so many bytes from the list, of which the kernel has taken them."""
        self.has_sent = True
        self._unbroken_bytes += count
        while views and count >= len(views[0]):
            count -= len(views.pop(0))
        if count:
            views[0] = views[0][count:]

    def _take_in(self) -> bool:
        """Add to `received` what is there now; return whether anything was."""
        if not self.is_open:
            raise self.end(CONNECTION_CLOSED)
        plain = self._decrypt(b"")
        if not plain:
            try:
                data = self._socket.recv(_HEAD_BYTES)
            except BlockingIOError:
                return False
            except OSError as error:
                raise self.end(loss_reason(error)) from error
            if not data:
                raise self.end(CONNECTION_CLOSED)
            plain = self._decrypt(data)
        self.received += plain
        return bool(plain)

    def _decrypt(self, data: bytes) -> bytes:
        """Return what bytes of the socket say, with what came before."""
        if self._tls is None:
            return data
        try:
            plain = self._tls.decrypt(data)
        except ssl.SSLError as error:
            raise self.end(loss_reason(error)) from error
        if self._tls.is_over and not plain:
            raise self.end(CONNECTION_CLOSED)
        return plain

    def _receive_into(self, view: memoryview) -> int:
        """Put what is there now into the memory, from its begin; return how many bytes, 0 for none."""
        tls = self._tls
        try:
            if tls is None:
                count = self._socket.recv_into(view[:_AT_ONCE_BYTES])
            elif held := tls.decrypt_into(view):
                return held
            else:
                count = self._socket.recv_into(self._scratch)
                held = tls.decrypt_into(view, self._scratch[:count])
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self.end(loss_reason(error)) from error
        if not count or (tls is not None and tls.is_over and not held):
            raise self.end(CONNECTION_CLOSED)
        return count if tls is None else held

    def _await_bytes(self, count: int) -> None:
        """Have the kernel wake us when so many bytes are there, or as many as are worth it; or the connection ends."""
        if self._tls is not None:
            count = max(1, min(count - _RECORD_SLACK_BYTES, _SECURE_BYTES))
        count = min(count, _WOKEN_BYTES)
        if count != self._least_bytes and self.is_open:
            self._least_bytes = count
            with contextlib.suppress(OSError):  # it saves wake-ups, and no more
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)

    async def _give_turn(self) -> None:
        self._unbroken_bytes = 0
        await asyncio.sleep(0)

    async def _wait(self, *, to_send: bool = False, to_receive: bool = True) -> None:
        """Wait until the kernel has something for us, or takes something, or the time is up."""
        if not self.is_open:
            raise self.end(CONNECTION_CLOSED)
        self._unbroken_bytes = 0
        waiting = self._waiting = self._loop.create_future()
        self._awaits_bytes = to_receive
        if to_receive and not self._is_watched:
            self._loop.add_reader(self._socket.fileno(), self._note_readable)
            self._is_watched = True
        if to_send:
            self._loop.add_writer(self._socket.fileno(), _wake, waiting, "")
        timer = self._loop.call_later(self._stall_s, _wake, waiting, TIMEOUT)
        try:
            reason = await waiting
        finally:
            self._waiting, self._awaits_bytes = None, False
            timer.cancel()
            if to_send and self.is_open:
                self._loop.remove_writer(self._socket.fileno())
        if reason:
            raise self.end(reason)

    def _note_readable(self) -> None:
        """
        Wake whoever waits for it; where nobody does, ask for no more events until somebody will.

        The loop goes on watching from one wait to the next: to begin and to end that are ten system calls of uvloop's.
        """
        if self._waiting is not None and self._awaits_bytes:
            _wake(self._waiting, "")
        else:
            self._loop.remove_reader(self._socket.fileno())
            self._is_watched = False


def _wake(waiting: asyncio.Future[str], reason: str) -> None:
    if not waiting.done():
        waiting.set_result(reason)

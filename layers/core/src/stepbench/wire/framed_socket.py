"""
A client's socket for frames, without an asyncio transport between the stamp and the system call.

uvloop's transports keep what is written until the loop's turn is over, so that a time stamped before `write` would be
too early by whatever else that turn has to do. Here the send is the statement after the stamp.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import TYPE_CHECKING

from stepbench.wire.frames import Frame, FrameReader, MalformedFrameError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepbench.clock import Clock

    Arrived = Callable[[int, Sequence[Frame]], None]
    """Given when the bytes were in hand (ns since the epoch) and the frames that they completed."""

CONNECT_LIMIT_S = 5.0
_READ_BYTES = 256 * 1024


class FramedSocket:
    """
    An open connection.

    Args:
        connected: a non-blocking TCP socket; it is closed with this object.
        clock: for `send`'s time and the arrivals'.
        arrived: called on the loop with what came in.
        lost: called once, with a reason, when the peer or the network has ended the connection.
    """

    def __init__(self, connected: socket.socket, clock: Clock, arrived: Arrived, lost: Callable[[str], None]) -> None:
        self._socket = connected
        self._clock = clock
        self._arrived = arrived
        self._lost = lost
        self._reader = FrameReader()
        self._unsent = b""
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
            self._end(type(error).__name__)
            return now_ns
        if sent < len(data):
            self._unsent = data[sent:]
            self._loop.add_writer(self._socket.fileno(), self._send_rest)
        return now_ns

    def close(self) -> None:
        """Close without a word to `lost`; safe to call twice."""
        if self.is_open:
            self.is_open = False
            self._loop.remove_reader(self._socket.fileno())
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()

    def _send_rest(self) -> None:
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(type(error).__name__)
            return
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            self._loop.remove_writer(self._socket.fileno())

    def _read(self) -> None:
        try:
            data = self._socket.recv(_READ_BYTES)
            now_ns = self._clock.now_ns()
        except BlockingIOError:
            return
        except OSError as error:
            self._end(type(error).__name__)
            return
        if not data:
            self._end("connection-closed")
            return
        try:
            frames = self._reader.feed(data)
        except MalformedFrameError as error:
            self._end(f"garbage-answer: {error}")
            return
        self._arrived(now_ns, frames)

    def _end(self, reason: str) -> None:
        if self.is_open:
            with contextlib.suppress(OSError):
                self.close()
            self._lost(reason)

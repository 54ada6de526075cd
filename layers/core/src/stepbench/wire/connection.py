"""One HTTP/1.1 connection: one request in flight, never a second one before the answer to the first is complete."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from stepbench.wire.byte_socket import ByteSocket, Shipment
from stepbench.wire.http1 import MAX_ANSWER_BYTES, Answer, MalformedAnswerError, parse_answer

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.wire.tls_session import TlsSession

    Changed = Callable[["Connection"], None]
    """Told when the connection can take a request again, and when it never will: see `usable`."""

ABANDONED = "abandoned"
"""The error of an exchange whose answer nobody awaits any longer."""


class Exchange(NamedTuple):
    """
    What came of one request.

    t1_ns: the last statement before the kernel took the first of its bytes (if it never did: as `t2_ns`).
    t2_ns: the first statement after the bytes arrived that completed the answer, or the moment of giving up.
    answer: None if there is none; `error` says why then.
    sent: False: the kernel never got any of it, so the request certainly had no effect.
    """

    t1_ns: int
    t2_ns: int
    answer: Answer | None
    error: str = ""
    sent: bool = True


class Sending(Shipment):
    """
    A request on its way, for one use; what is to be done with its answer is a subclass's.

    data: the request. connection: by which it went, as long as its answer is awaited.
    """

    __slots__ = ("connection", "data")

    def __init__(self, data: bytes) -> None:
        self.t1_ns = 0
        self.data = data
        self.connection: Connection | None = None

    def ended(self, t2_ns: int, answer: Answer | None, error: str) -> None:
        """Called once, on the loop, with what came of it; what they are, see `Exchange`."""
        raise NotImplementedError

    def exchange(self, t2_ns: int, answer: Answer | None, error: str) -> Exchange:
        """All of it."""
        return Exchange(self.t1_ns or t2_ns, t2_ns, answer, error, self.t1_ns != 0)


class _Awaited(Sending):
    """One whose answer a coroutine awaits."""

    __slots__ = ("_future",)

    def __init__(self, data: bytes, future: asyncio.Future[Exchange]) -> None:
        super().__init__(data)
        self._future = future

    def ended(self, t2_ns: int, answer: Answer | None, error: str) -> None:
        """See `Sending`."""
        if not self._future.done():
            self._future.set_result(self.exchange(t2_ns, answer, error))


async def awaited(data: bytes, send: Callable[[Sending], None], abandon: Callable[[Sending], None]) -> Exchange:
    """What comes of a request, for who has time to wait; abandoned when its task is cancelled."""
    future: asyncio.Future[Exchange] = asyncio.get_running_loop().create_future()
    sending = _Awaited(data, future)
    send(sending)
    try:
        return await future
    finally:
        if not future.done() or future.cancelled():
            abandon(sending)


class Connection:
    """
    An open connection; `usable` says whether a request can be sent now.

    Whatever irregular happens ends it: an answer that comes late, or bytes that nobody asked for, could otherwise be
    taken for the answer to the next request.

    Args:
        connected: a non-blocking TCP socket; it is closed with this object.
        clock: for the times.
        tls: after its handshake over this socket, if it is to be spoken.
        answer_s: the longest wait for an answer.
        most_bytes: of an answer.
        changed: see `Changed`.
    """

    def __init__(  # noqa: PLR0913 -- all but two have defaults
        self,
        connected: socket.socket,
        clock: Clock,
        tls: TlsSession | None = None,
        *,
        answer_s: float = 10.0,
        most_bytes: int = MAX_ANSWER_BYTES,
        changed: Changed | None = None,
    ) -> None:
        self._clock = clock
        self._answer_s = answer_s
        self._most_bytes = most_bytes
        self._changed = changed
        self._pending: Sending | None = None
        self._received = b""
        self._alarm: asyncio.TimerHandle | None = None
        self._stuck: Sending | None = None
        self._socket = ByteSocket(connected, clock, self._arrived, self._lost, tls)
        self._loop = asyncio.get_running_loop()
        self.idle_since_ns = clock.now_ns()
        self.usable = True

    def send(self, sending: Sending) -> None:
        """
        Send a request now. Only while `usable`.

        Raises:
            RuntimeError: it is not.
        """
        if not self.usable:
            message = "a connection carries one request at a time, and none after its end"
            raise RuntimeError(message)
        self.usable = False
        self._pending = sending
        sending.connection = self
        if self._alarm is None:
            self._alarm = self._loop.call_later(self._answer_s, self._look)
        self._socket.send(sending.data, sending)

    async def exchange(self, request: bytes) -> Exchange:
        """Send a request and wait for its answer. Only while `usable`."""
        return await awaited(request, self.send, self.abandon)

    def abandon(self, sending: Sending) -> None:
        """Await an answer no longer: it may still come, so the connection ends."""
        if self._pending is sending:
            self._socket.end(ABANDONED)

    def abort(self) -> None:
        """End the connection at once; a request in flight ends as unknown."""
        self._received = b""  # our end is not the end of an answer without a length
        self._socket.end("connection-closed")

    def _look(self) -> None:
        """One alarm for all the requests, one after the other, that it lives through: setting one costs as a send."""
        self._alarm = None
        pending = self._pending
        if pending is None:
            return
        if pending.t1_ns:
            left_s = self._answer_s - (self._clock.now_ns() - pending.t1_ns) / 1e9
        else:  # the kernel has taken nothing of it yet: that long at most once more
            left_s = 0 if pending is self._stuck else self._answer_s
            self._stuck = pending
        if left_s > 0:
            self._alarm = self._loop.call_later(left_s, self._look)
        else:
            self._socket.end("timeout")

    def _arrived(self, now_ns: int, data: bytes) -> None:
        pending = self._pending
        if pending is None or not pending.t1_ns:
            self._socket.end("unasked-answer")
            return
        if self._received:
            data = self._received + data
        try:
            answer = parse_answer(data, most_bytes=self._most_bytes)
        except MalformedAnswerError as error:
            self._socket.end(error.code)
            return
        if answer is None:
            self._received = data
            return
        # The next request goes out before this one's answer is looked at: it has waited longer.
        self._received = b""
        self._pending = pending.connection = None
        self.idle_since_ns = now_ns
        # A peer may refuse a request before it has read all of it; the rest would be taken for the next one.
        if answer.reusable and not self._socket.is_sending:
            self.usable = True
        else:
            self._close()
        if self._changed is not None:
            self._changed(self)
        pending.ended(now_ns, answer, "")

    def _lost(self, reason: str) -> None:
        """The end; an answer without a length ends here, too."""
        now_ns = self._clock.now_ns()
        pending, received, self._pending, self._received = self._pending, self._received, None, b""
        self.usable = False
        self._close()
        if self._changed is not None:
            self._changed(self)
        if pending is None:
            return
        pending.connection = None
        answer = None
        if reason == "connection-closed" and pending.t1_ns:
            try:
                answer = parse_answer(received, closed=True, most_bytes=self._most_bytes)
            except MalformedAnswerError as error:
                reason = error.code
        pending.ended(now_ns, answer, "" if answer else reason)

    def _close(self) -> None:
        self._socket.close()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

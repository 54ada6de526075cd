"""Answers that are awaited: one timer for the time limits of all, and connections on which they come in order."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

from stepbench.model.errors import CONNECTION_CLOSED, TIMEOUT
from stepbench.model.request import Outcome
from stepbench.wire.socket import ByteSocket, OutgoingBytes

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.wire.connect import TlsSession
    from stepbench.wire.socket import OutgoingBytes


NEVER_NS = 2**63


class DeadlineTimer(ABC):
    """
    One timer, set to the earliest deadline of many requests: setting one for each would cost as much as a send.

    due_ns: when it goes off, ns since the epoch; `NEVER_NS` while it is not set, 0 once it has been stopped.
    is_set: whether it need not be set for one more request.
    """

    __slots__ = ("_clock", "_loop", "_timer", "due_ns", "is_set")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.due_ns = NEVER_NS
        self.is_set = False

    def set(self, due_ns: int) -> None:
        """Have the timer go off at this moment, in place of a later one."""
        if self._timer is not None:
            self._timer.cancel()
        self.due_ns, self.is_set = due_ns, True
        self._timer = self._loop.call_later((due_ns - self._clock.now_ns()) / 1e9, self._go_off)

    def stop(self) -> None:
        """Stop it for good; safe to call twice."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.due_ns, self.is_set = 0, True

    @abstractmethod
    def _check(self, now_ns: int) -> int:
        """End what is late; return the next deadline, or `NEVER_NS`."""

    def _go_off(self) -> None:
        self._timer, self.due_ns, self.is_set = None, NEVER_NS, False
        next_ns = self._check(self._clock.now_ns())
        if next_ns < self.due_ns:
            self.set(next_ns)


class AnswerDeadline(DeadlineTimer):
    """
    Ends a connection whose oldest request has waited too long for its answer.

    The wait begins at t1. What the kernel has not taken yet may wait as long once more: there is nothing to answer.

    Args:
        limit_s: the longest wait for an answer.
        clock: the one of the requests' t1.
        find_oldest: returns the request that has been under way longest, or None.
        end: is called with the reason.
    """

    __slots__ = ("_end", "_find_oldest", "_limit_ns", "_stuck")

    def __init__(
        self, limit_s: float, clock: Clock, find_oldest: Callable[[], OutgoingBytes | None], end: Callable[[str], None]
    ) -> None:
        super().__init__(clock)
        self._limit_ns = int(limit_s * 1e9)
        self._find_oldest = find_oldest
        self._end = end
        self._stuck: OutgoingBytes | None = None

    def start(self) -> None:
        """Set the timer for a request that is sent now; call it unless `is_set`."""
        self.set(self._clock.now_ns() + self._limit_ns)

    def stop(self) -> None:
        """Stop it for good; it no longer holds its owner, which would else be left to the garbage collector."""
        super().stop()
        self._find_oldest, self._stuck = _find_nothing, None
        self._end = _end_nothing

    def _check(self, now_ns: int) -> int:
        oldest = self._find_oldest()
        if oldest is None:
            return NEVER_NS
        if oldest.t1_ns:
            due_ns = oldest.t1_ns + self._limit_ns
        else:
            due_ns = now_ns if oldest is self._stuck else now_ns + self._limit_ns
            self._stuck = oldest
        if due_ns > now_ns:
            return due_ns
        self._end(TIMEOUT)
        return NEVER_NS


def _find_nothing() -> None:
    """Stand for `find_oldest` once the timer has been stopped."""


def _end_nothing(_reason: str) -> None:
    """Stand for `end` once the timer has been stopped."""


AnswerT = TypeVar("AnswerT")
TimedT = TypeVar("TimedT")
if TYPE_CHECKING:
    OnAnswer = Callable[[int, AnswerT | None, str], None]
    """Called with t2, the answer, and the error: why there is no answer, else ""."""
    Judge = Callable[[AnswerT], tuple[Outcome, str, str]]
    """Returns what an answer means: the outcome, the store's token for the change, and its code of an error."""


class AwaitingConnection(ABC):
    """
    An open connection, over which requests await their answers.

    Whatever irregular happens ends it: a time-out, an answer that nobody asked for, bytes that are no answer. Every
    request in flight then ends without an answer, and whether it had an effect is unknown.

    Args:
        connected: a non-blocking TCP socket; it is closed with this object.
        clock: for the times.
        answer_s: the longest wait for an answer, of each request.
        tls: after its handshake over this socket, if it is to be spoken.
    """

    def __init__(
        self, connected: socket.socket, clock: Clock, *, answer_s: float = 10.0, tls: TlsSession | None = None
    ) -> None:
        self._clock = clock
        self._socket = ByteSocket(connected, clock, self._arrived, self._lost, tls)
        self._deadline = AnswerDeadline(answer_s, clock, self._find_oldest, self._socket.end)

    @property
    def is_open(self) -> bool:
        """Return whether requests can be sent."""
        return self._socket.is_open

    def close(self) -> None:
        """Close; requests in flight end without an answer. Safe to call twice."""
        self._socket.end(CONNECTION_CLOSED)

    def detach(self) -> tuple[socket.socket, TlsSession | None]:
        """See `ByteSocket.detach`."""
        self._deadline.stop()
        return self._socket.detach()

    @abstractmethod
    def _arrived(self, now_ns: int, data: bytes) -> None:
        """Take what came in."""

    @abstractmethod
    def _lost(self, reason: str) -> None:
        """End all requests in flight, and stop the deadline."""

    @abstractmethod
    def _find_oldest(self) -> OutgoingBytes | None:
        """Return the request that has been under way longest, if there is one."""


class InOrderConnection(AwaitingConnection, Generic[AnswerT]):
    """One whose answers come in the order of their requests; arguments as `AwaitingConnection`'s."""

    def __init__(
        self, connected: socket.socket, clock: Clock, *, answer_s: float = 10.0, tls: TlsSession | None = None
    ) -> None:
        self._in_flight: deque[tuple[OutgoingBytes, OnAnswer[AnswerT]]] = deque()
        super().__init__(connected, clock, answer_s=answer_s, tls=tls)

    @property
    def in_flight(self) -> int:
        """Return how many requests await their answer."""
        return len(self._in_flight)

    def send(self, request: bytes, outgoing: OutgoingBytes, done: OnAnswer[AnswerT]) -> None:
        """
        Send a request now; it is one that is answered once.

        done: called on the loop in the turn in which the answer came, so that the next request can be sent at once;
            before this returns only if nothing was sent, which `outgoing.t1_ns` of 0 says.
        """
        self._in_flight.append((outgoing, done))
        if not self._deadline.is_set:
            self._deadline.start()
        self._socket.send(request, outgoing)

    def withdraw(self, outgoing: OutgoingBytes) -> bool:
        """Take a request back of which the kernel has got nothing; True: that was so, and its `done` is not called."""
        if not self._socket.withdraw(outgoing):
            return False
        index = next(index for index, (each, _) in enumerate(self._in_flight) if each is outgoing)
        del self._in_flight[index]
        return True

    def _find_oldest(self) -> OutgoingBytes | None:
        return self._in_flight[0][0] if self._in_flight else None

    def _lost(self, reason: str) -> None:
        now_ns = self._clock.now_ns()
        self._deadline.stop()
        while self._in_flight:
            self._in_flight.popleft()[1](now_ns, None, reason)


def settle(  # noqa: PLR0913, PLR0917 -- what `OnAnswer` is given, and what to make of it
    future: asyncio.Future[TimedT],
    build: Callable[[int, int, AnswerT, str, bool], TimedT],
    outgoing: OutgoingBytes,
    t2_ns: int,
    answer: AnswerT,
    error: str,
) -> None:
    """Give a future what came of a request, unless its caller was cancelled."""
    if not future.done():
        t1_ns = outgoing.t1_ns
        future.set_result(build(t1_ns or t2_ns, t2_ns, answer, error, t1_ns != 0))

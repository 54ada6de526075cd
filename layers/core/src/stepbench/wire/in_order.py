"""
Connections on which each request gets one answer, in the order in which the requests were sent.

A protocol that is no more than that needs only a function which cuts answers off the front of what has arrived: see
`ParsedConnection`. RESP, which has replies that answer nothing, has a connection of its own on the same ground.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from stepbench.errors import StepbenchError
from stepbench.model.errors import CONNECTION_CLOSED, GARBAGE, UNASKED, WITHDRAWN, connect_error
from stepbench.model.request import ConnectionParts, Outcome, Result, WithdrawnError
from stepbench.wire.connect import dial
from stepbench.wire.deadline import AnswerDeadline
from stepbench.wire.socket import ByteSocket, OutgoingBytes

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from stepbench.clock import Clock
    from stepbench.wire.connect import Dialled, ServerAddress, TlsSession

AnswerT = TypeVar("AnswerT")
TimedT = TypeVar("TimedT")
if TYPE_CHECKING:
    OnAnswer = Callable[[int, AnswerT | None, str], None]
    """Called with t2, the answer, and the error: why there is no answer, else ""."""
    Parse = Callable[[bytes], tuple[AnswerT, int] | None]
    """Returns the answer at the front of the bytes and its length; None: more has to come. ValueError: no answer."""
    Judge = Callable[[AnswerT], tuple[Outcome, str, str]]
    """Returns what an answer means: the outcome, the store's token for the change, and its code of an error."""

OVERSIZED = "oversized-answer"
MOST_ANSWER_BYTES = 1024 * 1024
"""The default limit, unless a driver asks for more."""


class InOrderConnection(ABC, Generic[AnswerT]):
    """
    An open connection.

    Whatever irregular happens ends it: a time-out, an answer that nobody asked for, bytes that are no answer. Every
    request in flight then ends without an answer, and whether it had an effect is unknown.

    Args:
        connected: a non-blocking TCP socket; it is closed with this object.
        clock: for the times.
        answer_s: the longest wait for an answer.
        tls: after its handshake over this socket, if it is to be spoken.
    """

    def __init__(
        self, connected: socket.socket, clock: Clock, *, answer_s: float = 10.0, tls: TlsSession | None = None
    ) -> None:
        self._clock = clock
        self._in_flight: deque[tuple[OutgoingBytes, OnAnswer[AnswerT]]] = deque()
        self._socket = ByteSocket(connected, clock, self._arrived, self._lost, tls)
        self._deadline = AnswerDeadline(answer_s, clock, self._find_oldest, self._socket.end)

    @property
    def is_open(self) -> bool:
        """Return whether requests can be sent."""
        return self._socket.is_open

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

    def _find_oldest(self) -> OutgoingBytes | None:
        return self._in_flight[0][0] if self._in_flight else None

    def _lost(self, reason: str) -> None:
        now_ns = self._clock.now_ns()
        self._deadline.stop()
        while self._in_flight:
            self._in_flight.popleft()[1](now_ns, None, reason)


class TimedAnswer(NamedTuple, Generic[AnswerT]):
    """
    The end of one request.

    t1_ns: the last statement before its bytes went to the kernel (if they never did: as `t2_ns`).
    t2_ns: the first statement after the bytes arrived that completed its answer, or the moment of giving up.
    answer: None where there is an `error`.
    error: why there is no answer ("timeout", "connection-closed", "connection-reset", "garbage-answer", …), else "".
    sent: False: the kernel never got any of it, so the request certainly had no effect.
    """

    t1_ns: int
    t2_ns: int
    answer: AnswerT | None
    error: str = ""
    sent: bool = True


class ParsedConnection(InOrderConnection[AnswerT]):
    """
    A connection whose protocol is one function.

    Args:
        connected, clock, answer_s, tls: as `InOrderConnection`.
        parse: finds the answer at the front of what has arrived.
        answer_bytes: the longest answer; what arrives is parsed anew until an answer is complete.
    """

    def __init__(  # noqa: PLR0913 -- half have defaults
        self,
        connected: socket.socket,
        clock: Clock,
        parse: Parse[AnswerT],
        *,
        answer_s: float = 10.0,
        answer_bytes: int = MOST_ANSWER_BYTES,
        tls: TlsSession | None = None,
    ) -> None:
        super().__init__(connected, clock, answer_s=answer_s, tls=tls)
        self._parse = parse
        self._answer_bytes = answer_bytes
        self._rest = b""

    def call(self, request: bytes) -> asyncio.Future[TimedAnswer[AnswerT]]:
        """Send a request now; its future never raises for the server's or the network's doings."""
        outgoing = OutgoingBytes()
        future: asyncio.Future[TimedAnswer[AnswerT]] = asyncio.get_running_loop().create_future()
        self.send(request, outgoing, partial(settle, future, TimedAnswer[AnswerT], outgoing))
        return future

    def _arrived(self, now_ns: int, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        due = len(self._in_flight)  # what is sent from within `done` has had no time to be answered
        reason = ""
        while data and not reason:
            try:
                parsed = self._parse(data)
            except ValueError:
                reason = GARBAGE
                break
            if parsed is None:
                reason = OVERSIZED if len(data) > self._answer_bytes else ""
                break
            answer, size = parsed
            data = data[size:]
            if not due or not self._in_flight or not self._in_flight[0][0].t1_ns:
                reason = UNASKED
            else:
                due -= 1
                self._in_flight.popleft()[1](now_ns, answer, "")
        self._rest = data
        if reason:
            self._socket.end(reason)


def parse_line(data: bytes) -> tuple[bytes, int] | None:
    """Return the first line without its end (LF or CR LF) and its length with it; None: it is not complete."""
    end = data.find(b"\n") + 1
    return (data[:end].rstrip(b"\r\n"), end) if end else None


async def dial_parsed(  # noqa: PLR0913 -- half have defaults
    server: ServerAddress,
    clock: Clock,
    parse: Parse[AnswerT],
    *,
    connect_s: float = 5.0,
    answer_s: float = 10.0,
    answer_bytes: int = MOST_ANSWER_BYTES,
) -> Dialled[ParsedConnection[AnswerT]]:
    """
    Connect, with TLS where the address asks for it; arguments as `ParsedConnection`'s.

    Raises:
        OSError: nobody is there, or nobody whom we trust, or not in time (TimeoutError and ssl.SSLError are kinds of
            it).
    """

    def build(connected: socket.socket, tls: TlsSession | None) -> ParsedConnection[AnswerT]:
        return ParsedConnection(connected, clock, parse, answer_s=answer_s, answer_bytes=answer_bytes, tls=tls)

    async with asyncio.timeout(connect_s):
        return await dial(server, clock, build)


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


async def exchange_once(
    find: Callable[[], Awaitable[object]],
    dial: Callable[[], Awaitable[Dialled[ParsedConnection[AnswerT]]]],
    data: bytes,
    judge: Judge[AnswerT],
    clock: Clock,
) -> Result:
    """
    Perform a request over a connection of its own, timed in parts; never raises for what server or network do.

    Args:
        find: looks the server's address up, before t1.
        dial: connects to it, after t1.
        data: the request as it is sent.
        judge: see `Judge`.
        clock: for the times.
    """
    t1_ns = clock.now_ns()
    try:
        await find()
        t1_ns = clock.now_ns()
        dialled = await dial()
    except (OSError, StepbenchError) as error:
        return Result(t1_ns, clock.now_ns(), Outcome.FAILED, error=connect_error(error))
    except asyncio.CancelledError:
        raise WithdrawnError(Result(t1_ns, clock.now_ns(), Outcome.FAILED, error=WITHDRAWN)) from None
    try:
        answered = await dialled.connection.call(data)
    finally:
        dialled.connection.close()
    parts = ConnectionParts(*dialled.times(dialled.secure_ns), answered.t2_ns - dialled.secure_ns)
    if answered.answer is None:
        outcome = Outcome.UNKNOWN if answered.sent else Outcome.FAILED
        return Result(t1_ns, answered.t2_ns, outcome, error=answered.error, connecting=parts)
    outcome, token, reason = judge(answered.answer)
    return Result(t1_ns, answered.t2_ns, outcome, token, reason, connecting=parts)

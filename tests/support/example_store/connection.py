"""
A connection whose protocol is one function, which cuts answers off the front of what has come; requests over one.

It is what a driver of a store with so simple a protocol takes along into its room.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from stepbench.errors import StepbenchError
from stepbench.model.errors import GARBAGE, UNASKED, WITHDRAWN, connect_error
from stepbench.model.pending import WithdrawnError
from stepbench.model.request import ConnectionParts, Outcome, Result
from stepbench.wire.answers import InOrderConnection, settle
from stepbench.wire.connect import dial
from stepbench.wire.socket import OutgoingBytes

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from stepbench.clock import Clock
    from stepbench.wire.answers import Judge
    from stepbench.wire.connect import Dialled, ServerAddress, TlsSession

AnswerT = TypeVar("AnswerT")
if TYPE_CHECKING:
    Parse = Callable[[bytes], tuple[AnswerT, int] | None]
    """Returns the answer at the front of the bytes and its length; None: more has to come. ValueError: no answer."""

OVERSIZED = "oversized-answer"
MOST_ANSWER_BYTES = 1024 * 1024
"""The default limit, unless a driver asks for more."""


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

"""
Operations on stores that speak PostgreSQL's protocol: sessions kept or made anew, and retries after conflicts.

With reuse, an operation has one of at most `cap` prepared sessions to itself; where one has to be made for it, that is
before t1. Without, it makes its own, and t1 is before that. Names are resolved, credentials read and tokens signed
before t1 in either case.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, NamedTuple

from stepbench.drivers.operations.sql_connect import connect
from stepbench.drivers.operations.sql_execution import CONFLICTS, SqlExecution
from stepbench.drivers.operations.sql_session import Session
from stepbench.drivers.postgresql.execution import Ways
from stepbench.drivers.postgresql.lanes import Lanes
from stepbench.drivers.protocol import WITHDRAWN, Connecting, Operated, Outcome, WithdrawnError
from stepbench.drivers.tasked import Tasked
from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from stepbench.clock import Clock
    from stepbench.drivers.operations.sql_connect import Connected
    from stepbench.drivers.operations.sql_session import Ran
    from stepbench.drivers.operations.sql_statements import Statement, Statements
    from stepbench.drivers.protocol import Made, Operation

CANNOT_CONNECT = "08001"
"""sqlclient_unable_to_establish_sqlconnection: the error of an operation that never left, for want of a session."""
_REFUSALS = {
    "rate exceeded": "53400",
    "too many": "53300",
    "remaining connection slots": "53300",
}
"""Of connections: too many new ones (DSQL), and too many at all, in the words of DSQL and PostgreSQL."""
MOST_RETRIES = 10
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.005, 0.5
_AT_ONCE = 16
"""Sessions that are being made at a time: a server that forks for each must not time out for being asked too much."""


class Limits(NamedTuple):
    """
    How long things may take, and how many there may be.

    connect_s: for a session. answer_s: for each statement's answer. sessions: kept at a time, at most. warm: of them
    made before the load. queue: whether operations wait for a session where the server lets us have no more; otherwise
    they fail, so that fewer clients than the plan asks for are never taken for as many.
    """

    connect_s: float
    answer_s: float
    sessions: int
    warm: int
    queue: bool


class SqlOperator:
    """
    Executes operations.

    Args:
        conninfo: where, and as whom; asked for each session, so that a token in it may be a fresh one.
        statements: what each kind executes, the same list for as long as the sessions live.
        clock: for the stamps and the pauses.
        reuse: whether sessions are kept.
        limits: see there.
    """

    def __init__(
        self,
        conninfo: Callable[[], Awaitable[bytes]],
        statements: Statements,
        clock: Clock,
        limits: Limits,
        *,
        reuse: bool,
    ) -> None:
        self._conninfo = conninfo
        self._statements = statements
        self._all = tuple({each.name: each for run in statements.values() for each in run}.values())
        self._clock = clock
        self._limits = limits
        self._reuse = reuse
        self._sessions: Lanes[Session] = Lanes(self._make, limits.sessions, insist=not limits.queue)
        self._ways = Ways(self._sessions, self._on_kept, clock)
        self._random = random.Random()  # noqa: S311 -- clients that have met must not meet again

    async def look_up(self) -> None:
        """
        Address and credentials, without a connection.

        Raises:
            TargetUnavailableError: there are none.
        """
        await self._conninfo()

    async def warm_up(self) -> None:
        """
        Have `warm` sessions, or without reuse have seen that one can be made. The server may refuse some of them.

        Raises:
            TargetUnavailableError: not even one could be opened.
        """
        if not self._reuse:
            (await self._make()).close()
            return
        for count in range(_AT_ONCE, self._limits.warm + _AT_ONCE, _AT_ONCE):
            await self._sessions.warm_up(min(count, self._limits.warm))

    def close(self) -> None:
        """Close all sessions; operations under way end as lost."""
        self._sessions.close()

    def make(self, operation: Operation) -> Made[Operated]:
        """
        See `PromptOperable`. What is not one statement on a kept session is a task.

        No session means FAILED with `CANNOT_CONNECT`: nothing has been sent.
        """
        wanted = self._statements[operation.kind]
        if not self._reuse:
            return Tasked(lambda: self._on_its_own(operation), self._clock)
        if len(wanted) > 1:
            return Tasked(lambda: self._on_kept(operation), self._clock)
        statement = wanted[0]
        return SqlExecution(self._ways, operation, statement.name, statement.arguments(operation), self._go_on)

    async def _on_kept(self, operation: Operation) -> Operated:
        began_ns = self._clock.now_ns()
        try:
            session = await self._sessions.acquire()
        except TargetUnavailableError as error:
            return self._not_sent(self._clock.now_ns(), error)
        except asyncio.CancelledError:
            raise self._withdrawn(began_ns) from None
        try:
            refused = await session.prepare(self._statements[operation.kind])
            if refused is not None:  # nothing has happened, whatever went wrong
                return Operated(refused.t1_ns, refused.t2_ns, Outcome.FAILED, error=refused.error)
            return await self._insist(session, operation)
        finally:
            self._sessions.release(session)

    async def _on_its_own(self, operation: Operation) -> Operated:
        try:
            conninfo = await self._conninfo()
        except TargetUnavailableError as error:
            return self._not_sent(self._clock.now_ns(), error)
        began_ns = self._clock.now_ns()
        try:
            made = await connect(conninfo, self._clock, self._limits.connect_s)
        except TargetUnavailableError as error:
            return self._not_sent(began_ns, error)
        except asyncio.CancelledError:
            raise self._withdrawn(began_ns) from None
        session = Session(made.pgconn, self._clock, self._limits.answer_s)
        try:
            return _on_its_own(await self._insist(session, operation), made)
        except WithdrawnError as withdrawn:
            raise WithdrawnError(_on_its_own(Operated(*withdrawn.answer), made)) from None
        finally:
            session.close()

    async def _insist(self, session: Session, operation: Operation) -> Operated:
        """All of it again after a conflict, after pauses that grow at random."""
        wanted = self._statements[operation.kind]
        ran = await session.run(wanted, operation)
        if ran.error not in CONFLICTS:
            return Operated(*ran[:3], error=ran.error)
        return await self._retry(session, wanted, operation, ran)

    async def _go_on(self, session: Session, operation: Operation, conflict: Ran) -> Operated:
        """After its first attempt."""
        return await self._retry(session, self._statements[operation.kind], operation, conflict)

    async def _retry(
        self, session: Session, wanted: tuple[Statement, ...], operation: Operation, first: Ran
    ) -> Operated:
        ran, retries = first, 0
        while ran.error in CONFLICTS and retries < MOST_RETRIES:
            try:
                await self._clock.sleep_async(pause_s(retries, self._random.random()))
            except asyncio.CancelledError:
                raise WithdrawnError(_in_all(first, ran, retries)) from None
            if session.broken:  # what was refused last is all that has happened
                break
            retries += 1
            ran = await session.run(wanted, operation)
        return _in_all(first, ran, retries)

    async def _make(self) -> Session:
        made = await connect(await self._conninfo(), self._clock, self._limits.connect_s)
        session = Session(made.pgconn, self._clock, self._limits.answer_s)
        await session.prepare(self._all if self._reuse else ())  # in vain without a table; the first use tries again
        return session

    def _not_sent(self, began_ns: int, refusal: TargetUnavailableError) -> Operated:
        return Operated(began_ns, self._clock.now_ns(), Outcome.FAILED, error=code_of_refusal(str(refusal)))

    def _withdrawn(self, began_ns: int) -> WithdrawnError:
        return WithdrawnError(Operated(began_ns, self._clock.now_ns(), Outcome.FAILED, error=WITHDRAWN))


def _in_all(first: Ran, last: Ran, retries: int) -> Operated:
    return Operated(first.t1_ns, last.t2_ns, last.outcome, error=last.error, retries=retries)


def _on_its_own(operated: Operated, made: Connected) -> Operated:
    """With the making of its session in its times."""
    parts = Connecting(
        connect_ns=made.connected_ns - made.began_ns,
        tls_ns=made.secured_ns - made.connected_ns,
        authenticate_ns=made.ready_ns - made.secured_ns,
        operate_ns=operated.t2_ns - made.ready_ns,
    )
    return operated._replace(t1_ns=made.began_ns, connecting=parts)


def code_of_refusal(message: str) -> str:
    """What was the matter, where the server has said: libpq hands on the text of a refused login, not its code."""
    return next((code for part, code in _REFUSALS.items() if part in message), CANNOT_CONNECT)


def pause_s(retries: int, uniform: float) -> float:
    """
    How long to wait before a retry that `retries` others have preceded: half of it fixed, half by `uniform` in [0, 1).

    Source:
        Brooker (2015), Exponential Backoff And Jitter, AWS Architecture Blog ("equal jitter").
    """
    whole: float = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**retries)
    return whole * (1 + uniform) / 2

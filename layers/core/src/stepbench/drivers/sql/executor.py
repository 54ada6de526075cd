"""
Requests as statements: sessions kept or made anew, and retries after conflicts.

With reuse, a request has one of at most `sessions` prepared sessions to itself; where one has to be made for it, that
is before t1. Without, it makes its own, and t1 is before that. Names are resolved, credentials read and tokens signed
before t1 in either case.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, NamedTuple

from stepbench.drivers.sql.access import CONNECT_LIMIT_S
from stepbench.drivers.sql.connection import connect, refusal_error
from stepbench.drivers.sql.pool import ExecutionContext, PreparedExecution, SessionLostError, SessionPool
from stepbench.drivers.sql.session import SqlSession
from stepbench.errors import TargetUnavailableError
from stepbench.model.errors import TIMEOUT, WITHDRAWN
from stepbench.model.pending import CoroutineRequest, WithdrawnError
from stepbench.model.request import Outcome, Result

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from collections.abc import Set as AbstractSet

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialPlan
    from stepbench.drivers.sql import Statements
    from stepbench.drivers.sql.connection import TimedConnection
    from stepbench.model.request import PendingRequest, Request

CONFLICTS = frozenset({"40001"})
"""serialization_failure: what the store asks to be tried again (DSQL: every conflict, since it locks nothing)."""
MOST_RETRIES = 10
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.005, 0.5
FIRST_SESSIONS = 8
"""Sessions that are made ahead of an open loop; more are made as requests overlap."""
_CONNECTING_AT_ONCE = 16
"""Sessions that are made at a time: a server that forks for each must not time out for being asked too much."""


class SessionLimits(NamedTuple):
    """
    How long things may take, and how many there may be.

    answer_s: for each statement's answer. sessions: kept at a time, at most. warm: of them made before the load.
    queue: whether requests wait for a session where the server lets us have no more; otherwise they fail, so that
    fewer clients than the plan asks for are never taken for as many.
    """

    answer_s: float
    sessions: int
    warm: int
    queue: bool


class SqlExecutor:
    """
    Executes requests.

    Args:
        conninfo: where, and as whom; asked for each session, so that a token in it may be a fresh one.
        statements: what each kind executes, the same list for as long as the sessions live.
        clock: for the stamps and the pauses.
        limits: see there.
        reuse: whether sessions are kept.
        conflicts: the SQLSTATEs after which a request is tried again.
    """

    def __init__(  # noqa: PLR0913 -- where, what, how
        self,
        conninfo: Callable[[], Awaitable[bytes]],
        statements: Statements,
        clock: Clock,
        limits: SessionLimits,
        *,
        reuse: bool = True,
        conflicts: AbstractSet[str] = CONFLICTS,
    ) -> None:
        self._conninfo = conninfo
        self._statements = statements
        self._prepared = {each.name: each for run in statements.values() for each in run} if reuse else {}
        self._clock = clock
        self._limits = limits
        self._reuse = reuse
        self.sessions = SessionPool(self._open_session, limits.sessions, queue=limits.queue)
        self._context = ExecutionContext(self.sessions, self._execute, self._retry, conflicts, clock)
        self.connections = 0
        """How many sessions were made to be kept."""
        self._random = random.Random()  # noqa: S311 -- clients that have met must not meet again

    async def warm_up(self) -> None:
        """
        Have `warm` sessions, or without reuse have seen that one can be made. The server may refuse some of them.

        Raises:
            TargetUnavailableError: not even one could be opened.
        """
        if not self._reuse:
            (await self._open_session()).close()
            return
        for count in range(_CONNECTING_AT_ONCE, self._limits.warm + _CONNECTING_AT_ONCE, _CONNECTING_AT_ONCE):
            await self.sessions.warm_up(min(count, self._limits.warm))

    def close(self) -> None:
        """Close all sessions; requests under way end as closed."""
        self.sessions.close()

    def prepare_request(self, request: Request) -> PendingRequest:
        """
        See `Driver`. What is not one statement on a kept session is a coroutine.

        No session means FAILED with `refusal_error`: nothing has been sent.
        """
        if not self._reuse:
            return CoroutineRequest(lambda: self._execute_on_own_connection(request), self._clock)
        statements = self._statements[request.kind]
        if len(statements) > 1:
            return CoroutineRequest(lambda: self._execute(request), self._clock)
        return PreparedExecution(self._context, request, statements[0])

    async def _execute(self, request: Request) -> Result:
        """Execute a request on a kept session, which may have to be opened or waited for, and prepared."""
        started_ns = self._clock.now_ns()
        try:
            session = await self.sessions.acquire()
        except TargetUnavailableError as error:
            return self._failed(self._clock.now_ns(), refusal_error(error))
        except asyncio.CancelledError:
            raise WithdrawnError(self._failed(started_ns, WITHDRAWN)) from None
        try:
            refused = await session.prepare(self._statements[request.kind])
            if refused is not None:  # nothing has happened, whatever went wrong
                return Result(refused.t1_ns, refused.t2_ns, Outcome.FAILED, error=refused.error)
            return await self._attempt_all(session, request)
        finally:
            self.sessions.release(session)

    async def _execute_on_own_connection(self, request: Request) -> Result:
        try:
            conninfo = await self._conninfo()
        except TargetUnavailableError as error:
            return self._failed(self._clock.now_ns(), refusal_error(error))
        started_ns = self._clock.now_ns()
        try:
            connection = await connect(conninfo, self._clock, CONNECT_LIMIT_S)
        except TargetUnavailableError as error:
            return self._failed(started_ns, refusal_error(error))
        except asyncio.CancelledError:
            raise WithdrawnError(self._failed(started_ns, WITHDRAWN)) from None
        session = SqlSession(connection.pgconn, self._clock, self._limits.answer_s)
        try:
            return _with_connecting(await self._attempt_all(session, request), connection)
        except WithdrawnError as withdrawn:
            raise WithdrawnError(_with_connecting(withdrawn.result, connection)) from None
        finally:
            session.close()

    async def _attempt_all(self, session: SqlSession, request: Request) -> Result:
        return await self._retry(session, request, await self._attempt(session, request))

    async def _attempt(self, session: SqlSession, request: Request) -> Result:
        """Execute the request's statements in order, up to the first that fails."""
        t1_ns = 0
        for statement in self._statements[request.kind]:
            answer = await session.execute(statement, statement.arguments(request))
            t1_ns = t1_ns or answer.t1_ns
            if answer.outcome is not Outcome.OK:
                return Result(t1_ns, answer.t2_ns, answer.outcome, error=answer.error)
            error = "" if answer.result is None else statement.judge(request, answer.result)
            if error:
                return Result(t1_ns, answer.t2_ns, Outcome.FAILED, error=error)
        return Result(t1_ns, answer.t2_ns, Outcome.OK)

    async def _retry(self, session: SqlSession, request: Request, first: Result) -> Result:
        """Execute all of it again after a conflict, after pauses that grow at random; return what came of it in all."""
        last, retries = first, 0
        while last.error in self._context.conflicts and retries < MOST_RETRIES:
            try:
                await self._clock.sleep_async(pause_s(retries, self._random.random()))
            except asyncio.CancelledError:
                raise WithdrawnError(last._replace(t1_ns=first.t1_ns, retries=retries)) from None
            if session.broken:  # what was refused last is all that has happened
                break
            retries += 1
            last = await self._attempt(session, request)
        return last._replace(t1_ns=first.t1_ns, retries=retries)

    async def _open_session(self) -> SqlSession:
        connection = await connect(await self._conninfo(), self._clock, CONNECT_LIMIT_S)
        self.connections += 1
        session = SqlSession(connection.pgconn, self._clock, self._limits.answer_s)
        refused = await session.prepare(self._prepared.values())
        if refused is not None and session.broken:
            session.close()
            message = f"a new session does not answer its first statement: {refused.error}"
            cause = TimeoutError if refused.error == TIMEOUT else ConnectionResetError
            raise SessionLostError(message) from cause(refused.error)
        return session  # refused for want of a table, it prepares again at its first use

    def _failed(self, t1_ns: int, error: str) -> Result:
        return Result(t1_ns, self._clock.now_ns(), Outcome.FAILED, error=error)


def _with_connecting(result: Result, connection: TimedConnection) -> Result:
    """Return the result with the making of its connection in its times."""
    return result._replace(t1_ns=connection.started_ns, connecting=connection.parts(result.t2_ns))


def pause_s(retries: int, uniform: float) -> float:
    """
    Return how long to wait before a retry that `retries` others have preceded: a half, and a half by `uniform`.

    Args:
        retries: >= 0.
        uniform: in [0, 1), at random.

    Source:
        Brooker (2015), Exponential Backoff And Jitter, AWS Architecture Blog ("equal jitter").
    """
    whole: float = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**retries)
    return whole * (1 + uniform) / 2


def limits_of(plan: TrialPlan, answer_limit_s: float) -> SessionLimits:
    """
    Return the limits of one writer of operations: a session per client, all before the load.

    In open loop there are up to the plan's cap, and a few to begin with.
    """
    clients = plan.clients_of_writer
    if not any(phase.is_open for phase in plan.phases):
        return SessionLimits(answer_limit_s, clients, clients, queue=False)
    most = max(clients, plan.max_in_flight)
    return SessionLimits(answer_limit_s, most, min(most, FIRST_SESSIONS), queue=True)

"""Sessions of one writer: some from the start, more on demand up to a cap, a queue beyond it; requests on them."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from stepbench.errors import TargetUnavailableError
from stepbench.model.errors import WITHDRAWN
from stepbench.model.pending import CoroutineRequest
from stepbench.model.request import Outcome, Result

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from collections.abc import Set as AbstractSet
    from typing import Any

    from psycopg.pq.abc import PGconn, PGresult

    from stepbench.clock import Clock
    from stepbench.drivers.sql import Statement
    from stepbench.drivers.sql.session import SqlSession
    from stepbench.model.request import PendingRequest, Request


class SessionLostError(TargetUnavailableError):
    """A session broke before its first use; others may still be had. The pool raises what it is a kind of instead."""


class SessionPool:
    """
    Hands out idle sessions, the one used last first (its backend is warm).

    Where the server lets us have no more, those that we have are the cap from then on; unless `queue` is False: then
    `acquire` raises for want of another, and may be called again.
    """

    def __init__(self, connect: Callable[[], Awaitable[SqlSession]], cap: int, *, queue: bool = True) -> None:
        self._connect = connect
        self._cap = cap
        self._may_queue = queue
        self._sessions: set[SqlSession] = set()
        self._opening = 0
        self._idle: list[SqlSession] = []
        self._queue: deque[asyncio.Future[SqlSession | None]] = deque()

    async def warm_up(self, count: int) -> None:
        """
        Have so many sessions (at most the cap) open and idle; those that the server has ended meanwhile are replaced.

        Raises:
            TargetUnavailableError: not even one could be opened.
        """
        for broken in [each for each in self._idle if each.broken]:
            self._idle.remove(broken)
            self._discard(broken)
        wanted = min(count, self._cap) - len(self._sessions)
        opened = await asyncio.gather(*(self._open() for _ in range(wanted)), return_exceptions=True)
        for session in opened:
            if not isinstance(session, BaseException):
                self.release(session)
        failures = [session for session in opened if isinstance(session, BaseException)]
        if failures and not self._sessions:
            if isinstance(failures[0], SessionLostError):
                raise TargetUnavailableError(*failures[0].args) from failures[0].__cause__
            raise failures[0]

    def take(self) -> SqlSession | None:
        """Return an idle session, if there is one now."""
        while self._idle:
            session = self._idle.pop()
            if not session.broken:
                return session
            self._discard(session)
        return None

    async def acquire(self) -> SqlSession:
        """
        Return an idle session, sooner or later.

        Raises:
            TargetUnavailableError: there is none, and none can be opened.
        """
        while True:
            session = self.take()
            if session is not None:
                return session
            if len(self._sessions) + self._opening < self._cap:
                try:
                    return await self._open()
                except SessionLostError as lost:  # which says nothing of how many the server has room for
                    self._wake_next()
                    raise TargetUnavailableError(*lost.args) from lost.__cause__
                except TargetUnavailableError:
                    if not self._may_queue or not self._sessions:
                        self._wake_next()
                        raise
                    self._cap = len(self._sessions)
            session = await self._wait()
            if session is not None:
                return session

    def release(self, session: SqlSession) -> None:
        """Give a session back, to the longest wait in the queue. A broken one is closed, and its place is free."""
        if session.broken:
            self._discard(session)
            self._wake_next()
            return
        while self._queue:
            waiting = self._queue.popleft()
            if not waiting.done():
                waiting.set_result(session)
                return
        self._idle.append(session)

    def close(self) -> None:
        """Close every session; exchanges under way end as closed."""
        for session in list(self._sessions):
            self._discard(session)
        self._idle.clear()

    async def _open(self) -> SqlSession:
        self._opening += 1
        try:
            session = await self._connect()
        finally:
            self._opening -= 1
        self._sessions.add(session)
        return session

    async def _wait(self) -> SqlSession | None:
        waiting: asyncio.Future[SqlSession | None] = asyncio.get_running_loop().create_future()
        self._queue.append(waiting)
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and (session := waiting.result()) is not None:
                self.release(session)
            raise

    def _wake_next(self) -> None:
        """Let the longest wait in the queue open a session: there is none to give, but a place for one."""
        while self._queue:
            waiting = self._queue.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return

    def _discard(self, session: SqlSession) -> None:
        self._sessions.discard(session)
        session.close()


_OK, _FAILED = Outcome.OK, Outcome.FAILED


class ExecutionContext(NamedTuple):
    """
    What the executions of one driver share.

    execute: performs a request where no idle session has its statement prepared; it opens one, or waits. retry:
    performs the attempts after the first, whose result it is given, in the same session. conflicts: the errors after
    which there are any. clock: for coroutines that are abandoned.
    """

    sessions: SessionPool
    execute: Callable[[Request], Coroutine[Any, Any, Result]]
    retry: Callable[[SqlSession, Request, Result], Coroutine[Any, Any, Result]]
    conflicts: AbstractSet[str]
    clock: Clock


class PreparedExecution:
    """`PendingRequest` of one statement; it goes on as a coroutine where it has to wait or to be retried."""

    __slots__ = (
        "_conflict",
        "_context",
        "_coroutine",
        "_done",
        "_formats",
        "_judge",
        "_name",
        "_request",
        "_session",
        "_values",
    )

    def __init__(self, context: ExecutionContext, request: Request, statement: Statement) -> None:
        self._context = context
        self._request = request
        self._name = statement.name
        self._judge = statement.judge
        self._values = values = statement.arguments(request)
        self._formats = (1,) * len(values)
        self._session: SqlSession | None = None
        self._done: Callable[[Result], None] | None = None
        self._coroutine: PendingRequest | None = None
        self._conflict: Result | None = None

    def send(self, done: Callable[[Result], None]) -> None:
        """See `PendingRequest`."""
        sessions = self._context.sessions
        session = sessions.take()
        if session is not None:
            if self._name in session.prepared:
                self._session, self._done = session, done
                session.start(self._hand_over, self._receive)
                return
            sessions.release(session)
        context, request = self._context, self._request
        self._continue(lambda: context.execute(request), done)

    def abandon(self) -> None:
        """See `PendingRequest`."""
        if self._coroutine is not None:
            self._coroutine.abandon()
        elif self._session is not None:
            self._session.give_up()

    def _continue(self, perform: Callable[[], Coroutine[Any, Any, Result]], done: Callable[[Result], None]) -> None:
        self._coroutine = CoroutineRequest(perform, self._context.clock)
        self._coroutine.send(done)

    def _hand_over(self, pgconn: PGconn) -> None:
        pgconn.send_query_prepared(self._name, self._values, self._formats)

    def _receive(self, t1_ns: int, t2_ns: int, outcome: Outcome, error: str, result: PGresult | None) -> None:
        if outcome is _OK:
            error = "" if result is None else self._judge(self._request, result)
            outcome = _FAILED if error else _OK
        elif error in self._context.conflicts:
            self._retry(Result(t1_ns, t2_ns, outcome, "", error))
            return
        self._finish(Result(t1_ns, t2_ns, outcome, "", error))

    def _retry(self, conflict: Result) -> None:
        session, request, retry = self._session, self._request, self._context.retry
        if session is not None:
            self._conflict = conflict
            self._continue(lambda: retry(session, request, conflict), self._receive_retried)

    def _receive_retried(self, result: Result) -> None:
        conflict = self._conflict
        if conflict is None:
            return
        if result.error == WITHDRAWN:  # before the first pause began: the refusal is all that has happened
            result = conflict
        self._finish(result._replace(t1_ns=conflict.t1_ns))

    def _finish(self, result: Result) -> None:
        session, done = self._session, self._done
        self._session = self._done = None
        if session is not None and done is not None:
            self._context.sessions.release(session)  # before `done`, which may send the next at once
            done(result)

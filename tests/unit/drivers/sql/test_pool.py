"""Which sessions of a pool are handed out, to whom, and what becomes of broken ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest
from tests.support.fake_clock import FakeClock

from stepbench.contracts.workload import Kind
from stepbench.drivers.sql import Statement
from stepbench.drivers.sql.executor import CONFLICTS
from stepbench.drivers.sql.pool import ExecutionContext, PreparedExecution, SessionLostError, SessionPool
from stepbench.errors import TargetUnavailableError
from stepbench.model.request import Outcome, Request, Result

if TYPE_CHECKING:
    from stepbench.drivers.sql.session import OnAnswer, SqlSession


class _Session:
    """Stands in for a session."""

    def __init__(self) -> None:
        self.broken = False
        self.closed = False

    def close(self) -> None:
        self.closed = True


class _Server:
    """Makes sessions, until `refuse_from` of them exist."""

    def __init__(self, refuse_from: int = 1_000, error: type[TargetUnavailableError] = TargetUnavailableError) -> None:
        self.made: list[_Session] = []
        self.refuse_from = refuse_from
        self._error = error

    async def make(self) -> SqlSession:
        await asyncio.sleep(0)
        if len(self.made) >= self.refuse_from:
            message = "no session"
            raise self._error(message)
        self.made.append(_Session())
        return cast("SqlSession", self.made[-1])


def _pool(server: _Server, cap: int) -> SessionPool:
    return SessionPool(server.make, cap)


async def _tick() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_cap_holds_also_while_sessions_are_being_opened() -> None:
    """Ten writes that start together must not open ten connections where the plan allows three."""
    server = _Server()
    pool = _pool(server, cap=3)
    waiting = [asyncio.create_task(pool.acquire()) for _ in range(10)]
    await _tick()
    assert len(server.made) == 3
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_the_longest_wait_is_served_first() -> None:
    """Requests queue in order; another order would move delay from one event to the next."""
    pool = _pool(_Server(), cap=1)
    session = await pool.acquire()
    served: list[int] = []

    async def write(number: int) -> None:
        held = await pool.acquire()
        served.append(number)
        pool.release(held)

    waiting = [asyncio.create_task(write(number)) for number in range(5)]
    await _tick()
    pool.release(session)
    await asyncio.gather(*waiting)
    assert served == [0, 1, 2, 3, 4]


async def test_a_broken_session_is_closed_and_replaced() -> None:
    """A connection that is lost must cost one write, not the writer."""
    server = _Server()
    pool = _pool(server, cap=1)
    session = await pool.acquire()
    next_one = asyncio.create_task(pool.acquire())
    await _tick()
    session.broken = True
    pool.release(session)
    replacement: object = await next_one
    assert replacement is server.made[1]
    assert server.made[0].closed


async def test_a_session_that_broke_while_idle_is_not_handed_out() -> None:
    """The server may end sessions that nobody uses at the moment."""
    server = _Server()
    pool = _pool(server, cap=2)
    await pool.warm_up(1)
    server.made[0].broken = True
    acquired: object = await pool.acquire()
    assert acquired is server.made[1]


async def test_a_server_that_is_full_lowers_the_cap() -> None:
    """With 100 sessions allowed and 64 wanted by each of two writers, the rest has to queue and not to fail."""
    server = _Server(refuse_from=1)
    pool = _pool(server, cap=2)
    session = await pool.acquire()
    second = asyncio.create_task(pool.acquire())
    await _tick()
    assert not second.done()
    pool.release(session)
    assert await second is session


async def test_a_session_that_is_lost_in_prepare_leaves_the_cap_as_it_is() -> None:
    """The server has room for it: with a lower cap, the writer would go on with fewer sessions than the plan allows."""
    server = _Server(refuse_from=1, error=SessionLostError)
    pool = _pool(server, cap=2)
    held = await pool.acquire()
    with pytest.raises(TargetUnavailableError, match="no session") as lost:
        await asyncio.wait_for(pool.acquire(), 1)
    server.refuse_from = 2
    assert type(lost.value) is TargetUnavailableError  # the pool's own error says nothing to its callers
    assert await asyncio.wait_for(pool.acquire(), 1) is not held


@pytest.mark.parametrize("error", [TargetUnavailableError, SessionLostError])
async def test_without_any_session_the_refusal_reaches_everyone(error: type[TargetUnavailableError]) -> None:
    """Nobody is left to wait for a session that will never come."""
    pool = _pool(_Server(refuse_from=0, error=error), cap=1)
    outcomes = await asyncio.gather(*(pool.acquire() for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [TargetUnavailableError] * 3
    with pytest.raises(TargetUnavailableError):
        await pool.warm_up(4)


async def test_a_session_given_to_somebody_who_has_gone_is_not_lost() -> None:
    """A cancelled write at the wrong moment would otherwise shrink the pool for good."""
    pool = _pool(_Server(), cap=1)
    session = await pool.acquire()
    gone = asyncio.create_task(pool.acquire())
    await _tick()
    pool.release(session)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    assert await asyncio.wait_for(pool.acquire(), 1) is session


async def test_closing_closes_every_session() -> None:
    """A stage that ends leaves no session on the server."""
    server = _Server()
    pool = _pool(server, cap=4)
    await pool.warm_up(8)
    pool.close()
    pool.close()
    assert [session.closed for session in server.made] == [True] * 4


async def test_without_a_queue_the_refusal_is_raised() -> None:
    """Ten clients on three connections would be measured as three: they have to see the refusal."""
    server = _Server(refuse_from=1)
    pool = SessionPool(server.make, cap=3, queue=False)
    held = await pool.acquire()
    with pytest.raises(TargetUnavailableError):
        await pool.acquire()
    server.refuse_from = 2
    assert await pool.acquire() is not held


READ = Statement(b"stepbench_read", b"", lambda request: [request.key.encode()])
OPERATION = Request(Kind.READ, "key")
INSTEAD = Result(5, 6, Outcome.OK)
AGAIN = Result(3, 9, Outcome.OK, retries=1)
REFUSED = (1, 2, Outcome.FAILED, "40001", None)


class _AnsweringSession:
    """Stands in for a session; the test answers."""

    broken = False

    def __init__(self, prepared: set[bytes]) -> None:
        self.prepared = prepared
        self.answers: list[OnAnswer] = []
        self.given_up = 0

    def start(self, _send: object, done: OnAnswer) -> None:
        """Keep what to call with the answer."""
        self.answers.append(done)

    def give_up(self) -> None:
        """Count."""
        self.given_up += 1

    def close(self) -> None:
        """Nothing to close."""


class _Subject:
    """One session in its pool, and the executions on it."""

    def __init__(self, *, prepared: bool = True) -> None:
        self.session = _AnsweringSession({READ.name} if prepared else set())
        self.pool = SessionPool(self._never, cap=1)
        self.pool.release(cast("SqlSession", self.session))
        self.done: list[Result] = []

    def execution(self) -> PreparedExecution:
        """Return an execution of one read."""
        context = ExecutionContext(self.pool, self._execute, self._retry, CONFLICTS, FakeClock())
        return PreparedExecution(context, OPERATION, READ)

    async def _never(self) -> SqlSession:
        raise NotImplementedError

    async def _execute(self, _operation: Request) -> Result:
        return INSTEAD

    async def _retry(self, _session: SqlSession, _operation: Request, _conflict: Result) -> Result:
        return AGAIN


async def test_the_session_is_free_before_the_callback() -> None:
    """The callback may send the next at once, on the session that is warm."""
    subject = _Subject()
    idle: list[object] = []
    subject.execution().send(lambda _: idle.append(subject.pool.take()))
    assert subject.pool.take() is None
    subject.session.answers[0](1, 2, Outcome.OK, "", None)
    assert idle == [subject.session]


async def test_without_an_idle_session_a_task_gets_one() -> None:
    """It waits for one or makes one; nobody else waits with it."""
    subject = _Subject()
    subject.execution().send(subject.done.append)
    subject.execution().send(subject.done.append)
    assert subject.done == []
    await _tick()
    assert subject.done == [INSTEAD]


async def test_a_statement_that_was_refused_before_is_prepared_by_a_task() -> None:
    """The table may be there by now. The session is not lost on the way."""
    subject = _Subject(prepared=False)
    subject.execution().send(subject.done.append)
    assert subject.pool.take() is cast("SqlSession", subject.session)
    await _tick()
    assert subject.done == [INSTEAD]


async def test_a_conflict_is_tried_again_in_the_operations_time() -> None:
    """It began with the first attempt; the session is kept for the others."""
    subject = _Subject()
    subject.execution().send(subject.done.append)
    subject.session.answers[0](*REFUSED)
    assert subject.pool.take() is None
    await _tick()
    assert subject.done == [AGAIN._replace(t1_ns=1)]
    assert subject.pool.take() is cast("SqlSession", subject.session)


async def test_a_request_that_is_abandoned_before_the_first_pause_was_refused() -> None:
    """It has left us and was answered: withdrawn it is not, and unknown neither."""
    subject = _Subject()
    execution = subject.execution()
    execution.send(subject.done.append)
    subject.session.answers[0](*REFUSED)
    execution.abandon()
    await _tick()
    assert subject.done == [Result(1, 2, Outcome.FAILED, error="40001")]
    assert subject.pool.take() is cast("SqlSession", subject.session)


async def test_what_is_answered_cannot_be_abandoned() -> None:
    """Its session has the next operation by then, which would be given up in its place."""
    subject = _Subject()
    first = subject.execution()
    first.send(subject.done.append)
    subject.session.answers[0](1, 2, Outcome.OK, "", None)
    subject.execution().send(subject.done.append)
    first.abandon()
    assert subject.session.given_up == 0
    assert subject.done == [Result(1, 2, Outcome.OK)]

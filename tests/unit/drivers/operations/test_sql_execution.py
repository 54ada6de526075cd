"""An operation that is one statement, without a server: which session it takes, and when it gives it back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from stepbench.contracts.workload import Kind
from stepbench.drivers.operations.sql_execution import SqlExecution
from stepbench.drivers.postgresql.execution import Ways
from stepbench.drivers.postgresql.lanes import Lanes
from stepbench.drivers.protocol import Operated, Operation, Outcome
from stepbench.testing.fake_clock import FakeClock

if TYPE_CHECKING:
    from stepbench.drivers.operations.sql_session import Ran, Session
    from stepbench.drivers.postgresql.conversation import Tell

STATEMENT = b"stepbench_read"
OPERATION = Operation(Kind.READ, "key")
INSTEAD = Operated(5, 6, Outcome.OK)
AGAIN = Operated(3, 9, Outcome.OK, retries=1)
REFUSED = (1, 2, Outcome.FAILED, "40001", None)


class _Conversation:
    """As much of one as an execution needs; the test answers."""

    def __init__(self, prepared: set[bytes]) -> None:
        self.prepared = prepared
        self.told: list[Tell] = []
        self.given_up = 0

    def start(self, _send: object, tell: Tell) -> None:
        """Keeps whom to tell."""
        self.told.append(tell)

    def give_up(self) -> None:
        """Counts."""
        self.given_up += 1


class _Session:
    """With a conversation of the test's."""

    broken = False

    def __init__(self, prepared: set[bytes]) -> None:
        self.conversation = _Conversation(prepared)

    def close(self) -> None:
        """Nothing to close."""


class _Subject:
    """One session in its keeper, and the executions on it."""

    def __init__(self, *, prepared: bool = True) -> None:
        self.session = _Session({STATEMENT} if prepared else set())
        self.lanes: Lanes[Session] = Lanes(self._never, cap=1)
        self.lanes.release(cast("Session", self.session))
        self.done: list[Operated] = []

    def execution(self) -> SqlExecution:
        """Of one read."""
        ways = Ways(self.lanes, self._instead, FakeClock())
        return SqlExecution(ways, OPERATION, STATEMENT, [b"key"], self._go_on)

    async def _never(self) -> Session:
        raise NotImplementedError

    async def _instead(self, _operation: Operation) -> Operated:
        return INSTEAD

    async def _go_on(self, _session: Session, _operation: Operation, _conflict: Ran) -> Operated:
        return AGAIN


async def _turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_session_is_free_before_the_answer_is_told() -> None:
    """Whoever is told may send the next at once, on the session that is warm."""
    subject = _Subject()
    idle: list[object] = []
    subject.execution().send(lambda _: idle.append(subject.lanes.take()))
    assert subject.lanes.take() is None
    subject.session.conversation.told[0](1, 2, Outcome.OK, "", None)
    assert idle == [subject.session]


async def test_without_an_idle_session_a_task_gets_one() -> None:
    """It waits for one or makes one; nobody else waits with it."""
    subject = _Subject()
    subject.execution().send(subject.done.append)
    subject.execution().send(subject.done.append)
    assert subject.done == []
    await _turns()
    assert subject.done == [INSTEAD]


async def test_a_statement_that_was_refused_before_is_prepared_by_a_task() -> None:
    """The table may be there by now. The session is not lost on the way."""
    subject = _Subject(prepared=False)
    subject.execution().send(subject.done.append)
    assert subject.lanes.take() is cast("Session", subject.session)
    await _turns()
    assert subject.done == [INSTEAD]


async def test_a_conflict_is_tried_again_in_the_operations_time() -> None:
    """It began with the first attempt; the session is kept for the others."""
    subject = _Subject()
    subject.execution().send(subject.done.append)
    subject.session.conversation.told[0](*REFUSED)
    assert subject.lanes.take() is None
    await _turns()
    assert subject.done == [AGAIN._replace(t1_ns=1)]
    assert subject.lanes.take() is cast("Session", subject.session)


async def test_who_is_abandoned_before_the_first_pause_was_refused() -> None:
    """It has left us and was answered: withdrawn it is not, and unknown neither."""
    subject = _Subject()
    execution = subject.execution()
    execution.send(subject.done.append)
    subject.session.conversation.told[0](*REFUSED)
    execution.abandon()
    await _turns()
    assert subject.done == [Operated(1, 2, Outcome.FAILED, error="40001")]
    assert subject.lanes.take() is cast("Session", subject.session)


async def test_what_is_answered_cannot_be_abandoned() -> None:
    """Its session has the next operation by then, which would be given up in its place."""
    subject = _Subject()
    first = subject.execution()
    first.send(subject.done.append)
    subject.session.conversation.told[0](1, 2, Outcome.OK, "", None)
    subject.execution().send(subject.done.append)
    first.abandon()
    assert subject.session.conversation.given_up == 0
    assert subject.done == [Operated(1, 2, Outcome.OK)]

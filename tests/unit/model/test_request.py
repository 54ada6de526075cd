from __future__ import annotations

import asyncio
import gc
import pickle
from typing import TYPE_CHECKING

import pytest
from tests.support.fake_clock import START_NS, FakeClock
from tests.support.memory_driver import MemoryDriver

from stepbench.contracts.workload import Kind
from stepbench.load.process import gc_paused
from stepbench.model.errors import NO_ANSWER, WITHDRAWN, driver_error
from stepbench.model.pending import CoroutineRequest, WithdrawnError, perform, result_of
from stepbench.model.request import FailedRequest, Outcome, Request, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

BROKEN_REQUESTS = 200
OK = Result(1, 2, Outcome.OK)
NEVER_SENT = Result(3, 4, Outcome.FAILED, error=WITHDRAWN)
SENT = Result(1, 3, Outcome.UNKNOWN, error="no answer")
BROKEN = Result(START_NS, START_NS, Outcome.UNKNOWN, error="KeyError in the driver")


async def answer() -> Result:
    """Answer at once."""
    return OK


async def hang() -> Result:
    """Never answer."""
    await asyncio.Event().wait()
    return OK


async def withdraw() -> Result:
    """Wait for a connection, of which nothing has left when it is cancelled."""
    try:
        return await hang()
    except asyncio.CancelledError:
        raise WithdrawnError(NEVER_SENT) from None


async def break_down() -> Result:
    """Break the contract."""
    raise KeyError


@pytest.mark.parametrize(
    ("start", "abandoned_after", "expected"),
    [
        pytest.param(answer, None, OK, id="answered"),
        pytest.param(answer, 2, OK, id="abandoned when it is over, which does nothing"),
        pytest.param(
            hang,
            1,
            Result(START_NS, START_NS, Outcome.UNKNOWN, error=NO_ANSWER),
            id="abandoned under way: it may have happened",
        ),
        pytest.param(
            answer,
            0,
            Result(START_NS, START_NS, Outcome.FAILED, error=WITHDRAWN),
            id="abandoned before its task's first step",
        ),
        pytest.param(withdraw, 1, NEVER_SENT, id="abandoned, and the driver knows more"),
        pytest.param(break_down, None, BROKEN, id="broken against its contract"),
    ],
)
def test_the_result_is_told_once(
    start: Callable[[], Coroutine[None, None, Result]], abandoned_after: int | None, expected: Result
) -> None:
    """Each event has one row, however often it is abandoned; and what has not begun then never does."""
    clock, told, began = FakeClock(), list[Result](), list[bool]()

    async def note_and_start() -> Result:
        began.append(True)
        return await start()

    async def run() -> None:
        made = CoroutineRequest(note_and_start, clock)
        await asyncio.sleep(0)
        assert began == []
        made.send(told.append)
        for turn in range(3):
            if turn == abandoned_after:
                made.abandon()
            await asyncio.sleep(0)
        if abandoned_after is not None:
            made.abandon()
            await asyncio.sleep(0)

    clock.run(run())
    assert (told, began) == ([expected], [True] * (abandoned_after != 0))


def test_a_coroutine_takes_a_task() -> None:
    """A coroutine is all that a simple driver must have."""
    clock, told = FakeClock(), list[Result]()
    driver = MemoryDriver(clock)
    made = (
        driver.prepare_request(Request(Kind.INSERT, "key", b"value")),
        driver.prepare_request(Request(Kind.READ, "k")),
    )
    assert [type(each) for each in made] == [CoroutineRequest, CoroutineRequest]

    async def run() -> None:
        for each in made:
            each.send(told.append)
        await clock.sleep_async(1)

    clock.run(run())
    assert [each.outcome for each in told] == [Outcome.OK, Outcome.OK]


def test_what_could_not_be_made_is_unknown_and_says_why() -> None:
    """A driver that breaks its contract costs one record."""
    told: list[Result] = []
    broken = FailedRequest(KeyError("x"), FakeClock())
    broken.send(told.append)
    broken.abandon()
    assert told == [BROKEN]


def test_a_broken_driver_s_exception_is_raised_for_who_waits() -> None:
    """Nobody would read the result of a request that is not measured."""
    clock = FakeClock()
    with pytest.raises(KeyError, match="number 0 breaks"):
        clock.run(perform(MemoryDriver(clock, raising={0}), Request(Kind.READ, "k")))


async def test_a_broken_driver_leaves_nothing_to_the_garbage_collector() -> None:
    """It is off under load, so a driver that breaks at each request would fill the writer's memory."""
    errors: list[str] = []
    with gc_paused():
        for _ in range(BROKEN_REQUESTS):
            CoroutineRequest(break_down, FakeClock()).send(lambda result: errors.append(str(result.error)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert gc.collect() < BROKEN_REQUESTS
    assert errors == [BROKEN.error] * BROKEN_REQUESTS


def test_a_broken_driver_s_exception_says_where_it_was_raised() -> None:
    """Its traceback is gone."""
    clock = FakeClock()
    with pytest.raises(KeyError) as caught:
        clock.run(perform(MemoryDriver(clock, raising={0}), Request(Kind.READ, "k")))
    assert "memory_driver.py:" in caught.value.__notes__[0]


def test_between_processes_a_broken_driver_s_error_is_text() -> None:
    """Writers hand their errors over, and not every exception can be pickled."""
    copy = pickle.loads(pickle.dumps(driver_error(KeyError())))  # noqa: S301 -- our own
    assert (type(copy), copy) == (str, "KeyError in the driver")


class Scripted:
    """`PendingRequest` that says what it is told to when it is abandoned; until then, nothing or `answer`."""

    def __init__(self, abandoned: Result, answer: Result | None = None) -> None:
        self._abandoned = abandoned
        self._answer = answer
        self._done: Callable[[Result], None] | None = None

    def send(self, done: Callable[[Result], None]) -> None:
        """See `PendingRequest`."""
        self._done = done
        if self._answer is not None:
            asyncio.get_running_loop().call_soon(done, self._answer)

    def abandon(self) -> None:
        """See `PendingRequest`."""
        if self._done is not None:
            self._done(self._abandoned)


async def test_the_answer_is_what_was_said() -> None:
    """`write` is the same as `make`, for who waits."""
    assert await result_of(Scripted(SENT, OK)) == OK


async def test_a_cancelled_task_learns_that_nothing_was_sent() -> None:
    """Then the event is FAILED for certain, and not one of those of which nobody knows."""
    waiting = asyncio.create_task(result_of(Scripted(NEVER_SENT)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(WithdrawnError) as caught:
        await waiting
    assert caught.value.result == NEVER_SENT


async def test_a_cancelled_task_whose_write_was_sent_knows_nothing() -> None:
    """An ordinary cancellation: it may have happened."""
    waiting = asyncio.create_task(result_of(Scripted(SENT)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await waiting
    assert not isinstance(caught.value, WithdrawnError)

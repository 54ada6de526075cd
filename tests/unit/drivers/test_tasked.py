from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stepbench.drivers.protocol import WITHDRAWN, Operated, Outcome, WithdrawnError
from stepbench.drivers.tasked import NO_ANSWER, Tasked
from stepbench.testing.fake_clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

OK = Operated(1, 2, Outcome.OK)


def answers_of(
    start: Callable[[], Awaitable[Operated]], *, turns: int = 3, abandoned_after: int | None = None
) -> list[Operated]:
    """What `done` is told within some turns of the loop."""
    clock, told = FakeClock(), list[Operated]()

    async def run() -> None:
        made = Tasked(start, clock)
        made.send(told.append)
        for turn in range(turns):
            if turn == abandoned_after:
                made.abandon()
            await asyncio.sleep(0)
        if abandoned_after is not None:
            made.abandon()
            await asyncio.sleep(0)

    clock.run(run())
    return told


def test_the_answer_is_told_once() -> None:
    """Each event has one row."""

    async def answer() -> Operated:
        return OK

    assert answers_of(answer) == [OK]


def test_nothing_begins_before_it_is_sent() -> None:
    """It is made ahead of its time."""
    began = []

    async def answer() -> Operated:
        began.append(True)
        return OK

    async def run() -> None:
        Tasked(answer, FakeClock())
        await asyncio.sleep(0)

    asyncio.run(run())
    assert began == []


def test_what_is_abandoned_under_way_is_unknown() -> None:
    """It may have happened."""

    async def hang() -> Operated:
        await asyncio.Event().wait()
        return OK

    told = answers_of(hang, abandoned_after=1)
    assert [(each.outcome, each.error) for each in told] == [(Outcome.UNKNOWN, NO_ANSWER)]


def test_what_is_abandoned_before_it_began_has_not_happened() -> None:
    """Its task takes its first step in the loop's next turn, which never comes."""
    began = []

    async def answer() -> Operated:
        began.append(True)
        return OK

    told = answers_of(answer, abandoned_after=0)
    assert [(each.outcome, each.error) for each in told] == [(Outcome.FAILED, WITHDRAWN)]
    assert began == []


def test_a_driver_may_know_more_of_what_is_abandoned() -> None:
    """It waited for a connection, and nothing has left."""

    async def withdrawn() -> Operated:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise WithdrawnError(Operated(3, 4, Outcome.FAILED, error=WITHDRAWN)) from None
        return OK

    told = answers_of(withdrawn, abandoned_after=1)
    assert told == [Operated(3, 4, Outcome.FAILED, error=WITHDRAWN)]


def test_a_driver_that_breaks_is_unknown() -> None:
    """Against its contract; the other records are kept."""

    async def broken() -> Operated:
        raise KeyError

    assert [(each.outcome, each.error) for each in answers_of(broken)] == [(Outcome.UNKNOWN, "KeyError in the driver")]


def test_an_answer_that_was_told_is_not_taken_back() -> None:
    """To abandon what is over is to do nothing."""

    async def answer() -> Operated:
        return OK

    assert answers_of(answer, abandoned_after=2) == [OK]

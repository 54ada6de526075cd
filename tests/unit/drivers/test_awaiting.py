"""What was made, awaited: its answer, or when the awaiting task is cancelled what is known of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from stepbench.drivers.awaiting import answer_of
from stepbench.drivers.protocol import WITHDRAWN, Outcome, WithdrawnError, Written

if TYPE_CHECKING:
    from collections.abc import Callable

OK = Written(1, 2, Outcome.OK)
NEVER_SENT = Written(3, 3, Outcome.FAILED, error=WITHDRAWN)
SENT = Written(1, 3, Outcome.UNKNOWN, error="no answer")


class Scripted:
    """`Made` that says what it is told to when it is abandoned; until then, nothing or `answer`."""

    def __init__(self, abandoned: Written, answer: Written | None = None) -> None:
        self._abandoned = abandoned
        self._answer = answer
        self._done: Callable[[Written], None] | None = None

    def send(self, done: Callable[[Written], None]) -> None:
        """See `Made`."""
        self._done = done
        if self._answer is not None:
            asyncio.get_running_loop().call_soon(done, self._answer)

    def abandon(self) -> None:
        """See `Made`."""
        if self._done is not None:
            self._done(self._abandoned)


async def test_the_answer_is_what_was_said() -> None:
    """`write` is the same as `make`, for who waits."""
    assert await answer_of(Scripted(SENT, OK)) == OK


async def test_a_cancelled_task_learns_that_nothing_was_sent() -> None:
    """Then the event is FAILED for certain, and not one of those of which nobody knows."""
    waiting = asyncio.create_task(answer_of(Scripted(NEVER_SENT)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(WithdrawnError) as caught:
        await waiting
    assert caught.value.answer == NEVER_SENT


async def test_a_cancelled_task_whose_write_was_sent_knows_nothing() -> None:
    """An ordinary cancellation: it may have happened."""
    waiting = asyncio.create_task(answer_of(Scripted(SENT)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await waiting
    assert not isinstance(caught.value, WithdrawnError)

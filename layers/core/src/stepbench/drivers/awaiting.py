"""What was made as something to wait for: the reverse of `Tasked`."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from stepbench.drivers.protocol import AnswerT, Outcome, WithdrawnError

if TYPE_CHECKING:
    from stepbench.drivers.protocol import Made


async def answer_of(made: Made[AnswerT]) -> AnswerT:
    """
    Send it, and wait for what comes of it. When it is cancelled, it is abandoned.

    Raises:
        WithdrawnError: it was cancelled, and it is known what has come of it: nothing of it had left us, or all that
            had was answered.
    """
    answered: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
    made.send(partial(_settle, answered))
    try:
        return await asyncio.shield(answered)
    except asyncio.CancelledError:
        made.abandon()
        answer = await answered  # in one of the loop's next turns, if it has not been said yet
        if answer.outcome is Outcome.UNKNOWN:
            raise
        raise WithdrawnError(answer) from None


def _settle(answered: asyncio.Future[AnswerT], answer: AnswerT) -> None:
    if not answered.done():
        answered.set_result(answer)

"""A write or an operation as a task: for those of several steps, and for drivers that know no other way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic

from stepbench.drivers.protocol import WITHDRAWN, AnswerT, Operated, Outcome, WithdrawnError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from stepbench.clock import Clock

NO_ANSWER = "no answer before the drain limit"


class Tasked(Generic[AnswerT]):
    """
    `Made` of a coroutine function that offers it.

    What a driver raises against its contract must not cost the other records: it is UNKNOWN.
    """

    __slots__ = ("_began_ns", "_clock", "_done", "_start", "_task")

    def __init__(self, start: Callable[[], Awaitable[AnswerT]], clock: Clock) -> None:
        self._start = start
        self._clock = clock
        self._began_ns = 0
        self._done: Callable[[AnswerT | Operated], None] | None = None
        self._task: asyncio.Task[None] | None = None

    def send(self, done: Callable[[AnswerT | Operated], None]) -> None:
        """See `Made`."""
        self._done = done
        self._task = asyncio.get_running_loop().create_task(self._run())

    def abandon(self) -> None:
        """See `Made`."""
        if self._task is None or self._task.done():
            return
        self._task.cancel()
        if not self._began_ns:  # it is never going to begin
            now_ns = self._clock.now_ns()
            self._tell(Operated(now_ns, now_ns, Outcome.FAILED, error=WITHDRAWN))

    async def _run(self) -> None:
        self._began_ns = self._clock.now_ns()
        answer: AnswerT | Operated
        try:
            answer = await self._start()
        except WithdrawnError as withdrawn:
            answer = Operated(*withdrawn.answer)
        except asyncio.CancelledError:
            answer = self._unknown(NO_ANSWER)
        except Exception as error:  # noqa: BLE001 -- see the class
            answer = self._unknown(f"{type(error).__name__} in the driver")
        self._tell(answer)

    def _unknown(self, error: str) -> Operated:
        return Operated(self._began_ns, self._clock.now_ns(), Outcome.UNKNOWN, error=error)

    def _tell(self, answer: AnswerT | Operated) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(answer)

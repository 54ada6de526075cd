"""
What is awaited: requests that a coroutine performs, the result of any, and work that cannot be cancelled.

What only reads records needs none of it, nor asyncio (`model.request`).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from stepbench.model.errors import NO_ANSWER, WITHDRAWN, DriverError, driver_error
from stepbench.model.request import Outcome, PendingRequest, Request, Result

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any

    from stepbench.clock import Clock

ResultT = TypeVar("ResultT")


class PreparesRequests(Protocol):
    """The part of a driver that offers requests."""

    def prepare_request(self, request: Request) -> PendingRequest:
        """Return the request with all done but the sending."""
        ...


class WithdrawnError(asyncio.CancelledError):
    """
    The task of a request was cancelled at a moment when its result was known.

    Nothing of it had left us, or all that had was answered. It is still a cancellation, so that the task ends; any
    other one leaves it open whether the store has done something.
    """

    def __init__(self, result: Result) -> None:
        super().__init__()
        self.result = result


class CoroutineRequest:
    """
    `PendingRequest` of a coroutine function that performs it, in a task of its own.

    What a driver raises against its contract must not cost the other records: the result is UNKNOWN.
    """

    __slots__ = ("_clock", "_done", "_start", "_started_ns", "_task")

    def __init__(self, start: Callable[[], Coroutine[Any, Any, Result]], clock: Clock) -> None:
        self._start = start
        self._clock = clock
        self._started_ns = 0
        self._done: Callable[[Result], None] | None = None
        self._task: asyncio.Task[None] | None = None

    def send(self, done: Callable[[Result], None]) -> None:
        """See `PendingRequest`."""
        self._done = done
        self._task = asyncio.get_running_loop().create_task(self._run())

    def abandon(self) -> None:
        """See `PendingRequest`."""
        if self._task is None or self._task.done():
            return
        self._task.cancel()
        if not self._started_ns:  # it is never going to start
            now_ns = self._clock.now_ns()
            self._finish(Result(now_ns, now_ns, Outcome.FAILED, error=WITHDRAWN))

    async def _run(self) -> None:
        self._started_ns = self._clock.now_ns()
        try:
            result = await self._start()
        except WithdrawnError as withdrawn:
            result = withdrawn.result
        except asyncio.CancelledError:
            result = self._unknown(NO_ANSWER)
        except Exception as error:  # noqa: BLE001 -- see the class
            result = self._unknown(driver_error(error))
        self._finish(result)

    def _unknown(self, error: str) -> Result:
        return Result(self._started_ns, self._clock.now_ns(), Outcome.UNKNOWN, error=error)

    def _finish(self, result: Result) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(result)


async def perform(driver: PreparesRequests, request: Request) -> Result:
    """
    Prepare and send a request that is not measured, and wait for its result.

    Raises:
        Exception: the driver itself broke. The result of a measured request would say so; here nobody would read it.
        WithdrawnError: as `result_of`.
    """
    result = await result_of(driver.prepare_request(request))
    if isinstance(result.error, DriverError):
        raise result.error.cause
    return result


async def result_of(pending: PendingRequest) -> Result:
    """
    Send a request, and wait for its result. When the waiting is cancelled, the request is abandoned.

    Raises:
        WithdrawnError: it was cancelled, and its result is known: nothing of it had left us, or all that had was
            answered.
    """
    answered: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
    pending.send(partial(_settle, answered))
    try:
        return await asyncio.shield(answered)
    except asyncio.CancelledError:
        pending.abandon()
        result = await answered  # in one of the loop's next turns, if it is not there yet
        if result.outcome is Outcome.UNKNOWN:
            raise
        raise WithdrawnError(result) from None


def _settle(answered: asyncio.Future[Result], result: Result) -> None:
    if not answered.done():
        answered.set_result(result)


async def uncancellable(work: Awaitable[ResultT]) -> ResultT:
    """
    Return what the work returns, or raise what it raises; a cancellation meanwhile takes effect at its end.

    It is for work that a cancellation would only stop watching: a call in a thread goes on all the same, and so does
    what a server has been sent. Give it nothing without a time limit of its own.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # nobody will ask for it, and asyncio would complain
    raise cancelled

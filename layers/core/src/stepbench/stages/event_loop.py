"""The event loop of the stages that measure, and what goes on beside them. Imports no boto3: tasks start without it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")


def run_measuring(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run on `measuring_runner`'s loop."""
    with measuring_runner() as runner:
        return runner.run(coroutine)


def measuring_runner() -> asyncio.Runner:
    """Return a runner of uvloop's loop, or of asyncio's own where uvloop is not installed."""
    try:
        import uvloop  # noqa: PLC0415 -- present where the stores' layer is

        factory: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
    except ImportError:
        factory = None
    return asyncio.Runner(loop_factory=factory)


async def repeat(every_s: float, action: Callable[[], Coroutine[Any, Any, None]], done: asyncio.Event) -> None:
    """Act now and at every interval until `done`, and never in the middle of an action."""
    loop = asyncio.get_running_loop()
    while not done.is_set():
        due_s = loop.time() + every_s
        await action()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), max(0.0, due_s - loop.time()))

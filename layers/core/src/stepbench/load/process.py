"""
The process while something is measured: its event loop, garbage collection paused, its share of the CPU.

Where a writer uses all of it under load, the writer is what limits. Imports no boto3: tasks start without it.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

T = TypeVar("T")
SWITCH_INTERVAL_S = 0.0001
"""How long a thread on the side may keep the interpreter; the default is 5 ms, which would be lateness."""
WHOLE_CORE_MB = 1_769
"""A function with so much memory has one vCPU, with less the same share of one."""
_CHANGING = threading.Lock()
_FOUND: list[tuple[bool, float]] = []
"""What the first of the pauses that last has found: whether garbage is collected, and the length of threads' turns."""


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
        with suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), max(0.0, due_s - loop.time()))


@contextmanager
def gc_paused(*, collect: bool = True) -> Iterator[None]:
    """
    Pause garbage collection and give other threads short turns; the last of those that overlap restores both.

    collect: what there is by then, which takes some 30 ms; an invocation of one operation leaves little.

    Nothing is frozen: that would spare only collections, of which there are none, and `gc.unfreeze` would also give
    back to the collector what the process had frozen before.
    """
    with _CHANGING:
        if not _FOUND:
            found = gc.isenabled(), sys.getswitchinterval()
            if collect:
                gc.collect()
            gc.disable()
            sys.setswitchinterval(SWITCH_INTERVAL_S)
        _FOUND.append(_FOUND[0] if _FOUND else found)
    try:
        yield
    finally:
        with _CHANGING:
            was_enabled, was_interval = _FOUND.pop()
            if not _FOUND:
                sys.setswitchinterval(was_interval)
                if was_enabled:
                    gc.enable()


def cores_of(memory_mb: int, *, emulated: bool) -> float:
    """
    Return how many cores one thread of Python can keep busy: one, or less in a function with little memory.

    memory_mb: 0 where it is unknown. An emulator gives a size, too, and does not hold its functions to it.

    Source:
        AWS Lambda, developer guide, "Configure Lambda function memory": one vCPU at 1,769 MB, in proportion.
    """
    return 1.0 if emulated or memory_mb <= 0 else min(1.0, memory_mb / WHOLE_CORE_MB)


def cpu_share(used_s: float, took_s: float, cores: float) -> float | None:
    """
    Return the CPU used in so much time as a share of what one thread could get; None if there was no time.

    Above 1 where threads of a library did some of the work.
    """
    return used_s / (took_s * cores) if took_s > 0 else None

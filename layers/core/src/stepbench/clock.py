"""
Clocks as arguments: integer nanoseconds since the epoch.

`asyncio` is imported where it is awaited: it would be half of what a receiver imports, which only reads the time.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable


class Clock(Protocol):
    """A clock returns the time and can wait."""

    def now_ns(self) -> int:
        """Return nanoseconds since the epoch."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block for so long."""
        ...

    async def sleep_async(self, seconds: float) -> None:
        """Yield to the event loop for so long."""
        ...


class SystemClock:
    """CLOCK_REALTIME: what receivers and control stages use (a sandbox freezes between invocations)."""

    def now_ns(self) -> int:
        """Return CLOCK_REALTIME in nanoseconds."""
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        """Block by `time.sleep`."""
        time.sleep(max(0.0, seconds))

    async def sleep_async(self, seconds: float) -> None:
        """Yield by `asyncio.sleep`."""
        import asyncio  # noqa: PLC0415 -- see above

        await asyncio.sleep(max(0.0, seconds))


class AnchoredClock(SystemClock):
    """
    CLOCK_REALTIME read once, then CLOCK_MONOTONIC counted from there: what a writer uses for one slice.

    A step of the real-time clock in the middle of a slice therefore does not tear a latency apart; `drift_ns` at
    the end says how far the two clocks have moved against each other since the anchor.
    """

    def __init__(self) -> None:
        self._offset_ns = real_minus_monotonic_ns()

    def now_ns(self) -> int:
        """Return the anchor plus monotonic time since, in nanoseconds."""
        return time.monotonic_ns() + self._offset_ns

    def drift_ns(self) -> int:
        """Return CLOCK_REALTIME minus this clock, in nanoseconds."""
        return real_minus_monotonic_ns() - self._offset_ns


STEP_NS = 10_000_000
"""A clock that differs by more between two comparisons was set: no oscillator or slewing moves it so far."""
_COMPARISONS = 5
"""A process that is interrupted during a comparison sees the clocks apart by half of the interruption."""


def real_minus_monotonic_ns() -> int:
    """Return the difference of both clocks in the shortest of some comparisons."""
    looks = []
    for _ in range(_COMPARISONS):
        before, real, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        looks.append((after - before, real - (before + after) // 2))
    return min(looks)[1]


Time = TypeVar("Time", int, float)


def covered(spans: Iterable[tuple[Time, Time]]) -> Time | int:
    """Return how much time spans cover together: where they overlap it counts once. 0 if there are none."""
    total: Time | int = 0
    reached: Time | None = None
    for begin, end in sorted(spans):
        first = begin if reached is None else max(begin, reached)
        total += max(0, end - first)
        reached = end if reached is None else max(end, reached)
    return total

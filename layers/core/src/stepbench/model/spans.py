"""Spans of time: each a begin and an end, in whatever unit, which may overlap."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

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

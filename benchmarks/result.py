"""
What a benchmark has found, as it is kept in `benchmarks/results/` and shown in `docs/performance.md`. Pure.

Ours and its peer take turns, round by round, on one machine; a ratio is taken within a round, so that what else the
machine does falls on both. The interval is that of the rounds' median ratio by order statistics, without assumptions.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

from pydantic import AwareDatetime, Field

from stepbench.contracts.base import Contract

LEVEL = 0.95


class Goal(Contract):
    """What was aimed at: of the ratio to the peer, or of our own value where there is none to compare with."""

    of: Literal["ratio", "value"] = "ratio"
    at_most: float | None = None
    at_least: float | None = None

    def met(self, value: float) -> bool:
        """Whether a value is within it."""
        return (self.at_most is None or value <= self.at_most) and (self.at_least is None or value >= self.at_least)


class Figure(Contract):
    """One number of one case, once a round; `peer` is empty where nothing is compared."""

    name: str
    unit: str
    ours: tuple[float, ...] = Field(min_length=1)
    peer: tuple[float, ...] = ()
    goal: Goal | None = None

    @property
    def ratios(self) -> tuple[float, ...]:
        """Ours by the peer's, round by round."""
        return tuple(own / other for own, other in zip(self.ours, self.peer, strict=True)) if self.peer else ()

    @property
    def ratio(self) -> float | None:
        """Their median."""
        return statistics.median(self.ratios) if self.peer else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the median ratio, 95 %; None under six rounds, for which there is none."""
        return median_interval(self.ratios)

    @property
    def met(self) -> bool | None:
        """Whether the goal is met by the median; None without a goal."""
        if self.goal is None:
            return None
        value = self.ratio if self.goal.of == "ratio" else statistics.median(self.ours)
        return None if value is None else self.goal.met(value)

    @property
    def sure(self) -> bool:
        """Whether all of the interval says the same of the goal; where there is none, the verdict stands as it is."""
        if self.goal is None or self.goal.of != "ratio" or self.interval is None:
            return True
        return len({self.goal.met(bound) for bound in self.interval}) == 1


class Case(Contract):
    """One setting of a benchmark, such as "SET, 100 clients"."""

    name: str
    peer: str = Field(default="", description="With version; empty where nothing is compared.")
    figures: tuple[Figure, ...]


class Machine(Contract):
    """Where it ran. load_average: of the last minute, at the beginning and at the end."""

    cpu: str
    cores: int
    memory_gb: float
    system: str
    python: str
    load_average: tuple[float, float]


class Result(Contract):
    """One benchmark. question: what it answers. notes: what a reader has to know, one sentence or two each."""

    benchmark: str
    question: str
    taken_at: AwareDatetime
    commit: str
    machine: Machine
    rounds: int
    cases: tuple[Case, ...]
    notes: tuple[str, ...] = ()


class Measure(NamedTuple):
    """What a column of figures is: its name, its unit, what is aimed at."""

    name: str
    unit: str
    goal: Goal | None = None


def figures_of(
    measures: Sequence[Measure], pairs: Sequence[tuple[tuple[float, ...], tuple[float, ...]]]
) -> tuple[Figure, ...]:
    """Rounds of ours and the peer's, a tuple each with a number for each measure, as figures."""
    ours, peer = (tuple(zip(*side, strict=True)) for side in zip(*pairs, strict=True))
    return tuple(
        Figure(name=each.name, unit=each.unit, ours=own, peer=other, goal=each.goal)
        for each, own, other in zip(measures, ours, peer, strict=True)
    )


def median_interval(values: tuple[float, ...]) -> tuple[float, float] | None:
    """
    Distribution-free interval of the median by order statistics, 95 % at least; None for fewer than six values.

    Source:
        Conover, Practical Nonparametric Statistics (1999), section 3.2.
    """
    n, ordered = len(values), sorted(values)
    below = 0.0
    for k in range(n // 2):
        below += math.comb(n, k) / 2**n
        if 2 * below > 1 - LEVEL:
            return (ordered[k - 1], ordered[n - k]) if k else None
    k = n // 2
    return (ordered[k - 1], ordered[n - k]) if k else None

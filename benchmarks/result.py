"""What a benchmark has found, as it is kept in `benchmarks/results/`."""

from __future__ import annotations

import math
import statistics
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import AwareDatetime, Field

from stepbench.contracts.base import Contract

if TYPE_CHECKING:
    from collections.abc import Sequence


LEVEL = 0.95


class Goal(Contract):
    """What was aimed at: of the ratio to the peer, or of our own value where there is none to compare with."""

    of: Literal["ratio", "value"] = "ratio"
    at_most: float | None = None
    at_least: float | None = None

    def met(self, value: float) -> bool:
        """Tell whether a value is within the goal."""
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
        """Return ours by the peer's, round by round; nothing where the peer has a 0."""
        if not self.peer or not all(self.peer):
            return ()
        return tuple(own / other for own, other in zip(self.ours, self.peer, strict=True))

    @property
    def ratio(self) -> float | None:
        """Return the median ratio."""
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval of the median ratio; None for fewer than six rounds, which have none."""
        return median_interval(self.ratios)

    @property
    def met(self) -> bool | None:
        """Tell whether the median meets the goal; None without a goal."""
        if self.goal is None:
            return None
        value = self.ratio if self.goal.of == "ratio" else statistics.median(self.ours)
        return None if value is None else self.goal.met(value)

    @property
    def sure(self) -> bool:
        """Tell whether all of the interval says the same of the goal; without an interval the verdict stands."""
        if self.goal is None or self.goal.of != "ratio" or self.interval is None:
            return True
        return len({self.goal.met(bound) for bound in self.interval}) == 1


class Case(Contract):
    """One setting of a benchmark, such as "SET, 100 clients"."""

    name: str
    peer: str = Field(default="", description="With version; empty where nothing is compared.")
    figures: tuple[Figure, ...]

    @property
    def title(self) -> str:
        """Return the case's name, and what it is beside."""
        return f"{self.name}, beside {self.peer}" if self.peer else self.name


class Machine(Contract):
    """The machine that it ran on. load_average: over a minute, at the beginning and at the end."""

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
    """The name, unit and goal of one of the numbers that every round gives."""

    name: str
    unit: str
    goal: Goal | None = None


def figures_of(measures: Sequence[Measure], pairs: Sequence[Sequence[Sequence[float]]]) -> tuple[Figure, ...]:
    """
    Return a figure of each measure, from rounds of ours and the peer's numbers in the measures' order.

    The peer may have fewer numbers, or none: what only ours has comes last.
    """
    ours, peer = (tuple(zip(*side, strict=True)) for side in zip(*pairs, strict=True))
    return tuple(
        Figure(name=each.name, unit=each.unit, ours=own, peer=other, goal=each.goal)
        for each, (own, other) in zip(measures, zip_longest(ours, peer, fillvalue=()), strict=True)
    )


def median_interval(values: tuple[float, ...]) -> tuple[float, float] | None:
    """
    Return the distribution-free interval of the median, 95 % at least; None for fewer than six values.

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

"""Whether the generator stood still at a load step: bins without a send around it, and what is said of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench.report import digits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.drawn import RateBins

AROUND_S = 5.0


@dataclass(frozen=True)
class StepGap:
    """
    The longest run of bins without a send within `AROUND_S` of a step.

    `bins` is its length (0: every bin has one), `due` how many events were due in it; `bin_s` the width of a bin.
    """

    step_s: float
    bins: int
    due: int
    bin_s: float

    @property
    def gap_s(self) -> float:
        """Seconds."""
        return self.bins * self.bin_s

    def __str__(self) -> str:
        """In words, without a full stop."""
        around = f"within {AROUND_S:g} s of the step at {self.step_s:g} s"
        width = digits.latency(self.bin_s * 1000)
        if self.bins == 0:
            return f"no {width} bin without a send {around}"
        due = "no event was due in it" if self.due == 0 else f"{digits.count(self.due)} events were due in it"
        if self.due == 1:
            due = "1 event was due in it"
        bins = "1 bin" if self.bins == 1 else f"{self.bins} bins"
        gap = digits.latency(self.gap_s * 1000)
        return f"the longest time without a send {around} is {gap} or somewhat more ({bins} of {width}); {due}"


def step_gap(bins: RateBins, step_s: float) -> StepGap:
    """Around a step at so many seconds of the phase; bins after the last event due do not count."""
    first, last = bins_around(bins, step_s)
    best: list[int] = []
    for run in _runs(bins.sent[first:last]):
        places = [first + place for place in run]
        if len(places) > len(best):
            best = places
    return StepGap(step_s, len(best), sum(bins.offered[place] for place in best), bins.bin_s)


def bins_around(bins: RateBins, step_s: float) -> tuple[int, int]:
    """The first bin within `AROUND_S` of the step, and the one after the last, within the time that has load."""
    loaded = max((place + 1 for place, due in enumerate(bins.offered) if due), default=0)
    first = math.floor((step_s - AROUND_S) / bins.bin_s + 1e-6)
    last = math.ceil((step_s + AROUND_S) / bins.bin_s - 1e-6)
    return max(0, first), min(loaded, len(bins.sent), last)


def _runs(sent: Sequence[int]) -> list[list[int]]:
    """The places of each run of empty bins."""
    runs: list[list[int]] = []
    for place, number in enumerate(sent):
        if number:
            continue
        if runs and runs[-1][-1] == place - 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs

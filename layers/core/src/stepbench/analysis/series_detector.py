"""
One series of runs, run by run: whether its level has changed, and whether that is to be reported.

Nothing is reported before `MIN_RUNS` runs lie on the new level, of which one came after a change was suspected.
Evidence for an improvement has to be stronger, since a store that is slow every other month is no news when it is fast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from stepbench.stats.level_shift import (
    NONE,
    Evidence,
    Noise,
    estimate_change,
    find_evidence,
    location,
    scale,
    weigh_levels,
)
from stepbench.stats.over_runs import MIN_RUNS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.stats.level_shift import Shape

MIN_HISTORY = 10
"""Runs of which the noise is learned before anything is said."""
STEPS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25)
RAMPS = (8, 12, 16, 20, 25)
"""Lengths of the windows in which a shift, or a drift, is looked for."""
THRESHOLD = 4.6
SUSPICION = 1.5
IMPROVEMENT_PENALTY, RAMP_PENALTY, FEW_RUNS_PENALTY = 4.0, 0.5, 35.0
"""Added to the threshold; the last as the square of its ratio to the number of runs that the noise is learned from."""
MORE_FOR_LONGER, LONGEST = 3.0, 6
"""
The first is added with the logarithm of a window's length over `MIN_RUNS`, up to the second. Three runs are what shows
soonest, so most of the false alarms that are allowed are left to them; a slower mode lasts for four or five as well.
"""
SHOWN_CORRELATION, MORE_FOR_CORRELATION, MOST_FOR_CORRELATION = 2.3, 20.0, 8.0
"""
From so many standard errors on, so much a unit is added, and so much at most: the autocorrelation, too, is estimated.
What independent runs show by chance adds nothing.
"""
BACK = 3.0
"""The evidence from which on the last runs are taken to lie on the accepted level again."""
SPIKE = 3.5
_SCREENED = {"step": 0.4, "ramp": 0.2}
"""Shares of the least change: a mean closer to the level cannot show it, and is looked at no further."""
_CLIPPED = 4.0


class Window(NamedTuple):
    """The last runs, and what they show against those before them."""

    runs: int
    shape: Shape
    evidence: Evidence
    noise: Noise
    level: float
    before: int


class Known(NamedTuple):
    """The level before a place, the noise about it, and how many runs the level is taken from."""

    level: float
    noise: Noise
    runs: int


class Change(NamedTuple):
    """A change of level that is reported, or that leads back. `at`: place of the first run of the new level."""

    at: int
    reported_at: int
    kind: Literal["worse", "better", "back"]
    window: Window
    change: float


@dataclass
class SeriesDetector:
    """
    Logarithms go in one by one, worse ones above better ones.

    Args:
        smallest: change that is of interest, a logarithm above 0.
        threshold: see `threshold_for`.
        suspicion: the evidence from which on a change is suspected; see `suspicion_for`.
        baseline_runs: how many runs the level is taken from at most.
        rolling: whether it is taken from the last of them, or from the first.
    """

    smallest: float
    threshold: float = THRESHOLD
    suspicion: float = SUSPICION
    baseline_runs: int = 100
    rolling: bool = True
    values: list[float] = field(default_factory=list)
    counted: list[bool] = field(default_factory=list)
    start: int = 0
    accepted: float | None = None
    changes: list[Change] = field(default_factory=list)
    best: Window | None = None
    suspected: bool = False
    _accepted_start: int = 0
    _free: int = 0
    _pool: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    _known: dict[int, Known | None] = field(default_factory=dict)

    def begin_level(self) -> None:
        """Accept the level that begins with the next run, whatever it is; the noise stays known."""
        self._close_level(len(self.values))
        self.accepted = None

    def add(self, value: float, *, counts: bool = True) -> Change | None:
        """Take the next run; return the change that it confirms. `counts`: it may be a part of the baseline."""
        self.values.append(value)
        self.counted.append(counts)
        back = self._find_back()
        if back is not None:
            return back
        before, windows = self.suspected, self._windows()
        self.best = max(windows, key=lambda each: -self._lacking(each), default=None)
        self.suspected = self.best is not None and self.best.evidence.weight > self.suspicion
        enough = [each for each in windows if each.runs >= MIN_RUNS and self._lacking(each) <= 0]
        for window in sorted(enough, key=self._lacking) if before else ():
            found = self._change_level(window)
            if found is not None:
                return found
        return None

    def baseline(self, end: int) -> NDArray[np.float64]:
        """Return the runs that the level before a place is taken from."""
        places = [at for at in range(self.start, end) if self.counted[at]]
        places = places[-self.baseline_runs :] if self.rolling else places[: self.baseline_runs]
        return np.array([self.values[at] for at in places])

    def noise(self, baseline: NDArray[np.float64]) -> Noise:
        """Return the noise about a baseline's level, of earlier levels' runs too where those are few."""
        return Noise(self._residuals(baseline))

    def needed_weight(self, noise: Noise, runs: int) -> float:
        """Return the evidence from which on a shift for the worse is reported, in a window of so many runs."""
        beyond = max(0.0, noise.correlation - SHOWN_CORRELATION / math.sqrt(noise.runs))
        correlated = min(MORE_FOR_CORRELATION * beyond, MOST_FOR_CORRELATION)
        longer = MORE_FOR_LONGER * math.log(min(max(runs, MIN_RUNS), LONGEST) / MIN_RUNS)
        return self.threshold + (FEW_RUNS_PENALTY / noise.runs) ** 2 + correlated + longer

    def _residuals(self, baseline: NDArray[np.float64], level: float | None = None) -> NDArray[np.float64]:
        own = baseline - (location(baseline) if level is None else level) if baseline.size else baseline
        earlier = self._pool[max(0, self._pool.size - max(0, self.baseline_runs - own.size)) :]
        return np.concatenate([earlier, own])

    def _lacking(self, window: Window) -> float:
        """Return how much evidence is missing until the change is reported."""
        needed = self.needed_weight(window.noise, window.runs)
        needed += IMPROVEMENT_PENALTY if window.evidence.change < 0 else 0
        needed += RAMP_PENALTY if window.shape == "ramp" else 0
        return needed - window.evidence.weight

    def _windows(self) -> list[Window]:
        """Return the windows that show anything."""
        whole = self.baseline(len(self.values))
        known = self._residuals(whole)
        if whole.size < MIN_RUNS or known.size < MIN_HISTORY:
            return []
        middle, width = float(np.median(whole)), scale(known)
        begin = max(self.start, self._free)
        clipped = max(_CLIPPED, self.smallest / width)  # where there is little noise, the least change is many scales
        recent = np.clip((np.array(self.values[begin:]) - middle) / width, -clipped, clipped)[::-1]
        means = np.cumsum(recent) / np.arange(1, recent.size + 1)
        return [
            window
            for shape, lengths in (("step", STEPS), ("ramp", RAMPS))
            for runs in lengths
            if runs <= recent.size
            if abs(means[runs - 1]) >= _SCREENED[shape] * max(self.smallest / width, 4.5 / math.sqrt(runs))
            if (window := self._look(runs, shape)) is not None  # type: ignore[arg-type]
        ]

    def _look(self, runs: int, shape: Shape) -> Window | None:
        known = self._know(len(self.values) - runs)
        if known is None:
            return None
        after = np.array(self.values[-runs:])
        evidence = find_evidence(after, known.level, known.runs, known.noise, self.smallest, shape)
        return Window(runs, shape, evidence, known.noise, known.level, known.runs) if evidence != NONE else None

    def _know(self, end: int) -> Known | None:
        """Return what the runs before a place tell, kept from one run to the next; None where they are too few."""
        if end not in self._known:
            baseline = self.baseline(end)
            level = location(baseline) if baseline.size else 0.0
            residuals = self._residuals(baseline, level)
            few = baseline.size < MIN_RUNS or residuals.size < MIN_HISTORY
            self._known[end] = None if few else Known(level, Noise(residuals), baseline.size)
        return self._known[end]

    def _change_level(self, window: Window) -> Change | None:
        after = np.array(self.values[-window.runs :])
        change = estimate_change(after, window.level, window.noise)
        end = change if window.shape == "step" else location(ramp_end(after)) - window.level
        if abs(end) < self.smallest:
            return None
        at = len(self.values) - window.runs
        reference = window.level if self.accepted is None else self.accepted
        level = window.level + change
        kind: Literal["worse", "better", "back"] = "worse" if level > reference else "better"
        if self.accepted is not None and abs(level - reference) < self.smallest:
            kind = "back"
        found = Change(at, len(self.values) - 1, kind, window, change)
        if self.accepted is None:
            self._accepted_start = self.start
        self._close_level(at)
        self.accepted = reference if kind == "worse" else None
        self.changes.append(found)
        self.suspected = False
        return found

    def _find_back(self) -> Change | None:
        """
        Return to the accepted level if the last runs lie there again.

        What was back within a few runs was noise, which is to be expected again; longer ones belong to no baseline.
        """
        at = len(self.values) - MIN_RUNS
        if self.accepted is None or at < self.start + MIN_RUNS:
            return None
        worse = self.baseline(at)
        last = np.array(self.values[at:])
        if worse.size == 0 or abs(location(last) - self.accepted) >= self.smallest:
            return None
        noise, level = self.noise(worse), location(worse)
        if weigh_levels(last, self.accepted, level, noise) < BACK:
            return None
        window = Window(MIN_RUNS, "step", NONE, noise, level, worse.size)
        found = Change(at, len(self.values) - 1, "back", window, self.accepted - level)
        first = next(each.at for each in self.changes if each.at >= self._accepted_start and each.kind == "worse")
        if at - first >= MIN_HISTORY:
            self.counted[first:at] = [False] * (at - first)
        self.start, self._free, self.accepted = self._accepted_start, at, None
        self.best, self.suspected = None, False
        self._known.clear()
        self.changes.append(found)
        return found

    def _close_level(self, end: int) -> None:
        """Begin a level; what was learned of the noise is kept."""
        closed = self.baseline(end)
        self._pool = self._residuals(closed) if closed.size >= MIN_RUNS else self._pool
        self.start = end
        self._known.clear()


def ramp_end(after: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return those of the runs of a ramp that tell how far it has come."""
    return after[-max(MIN_RUNS, after.size // 3) :]


def threshold_for(comparisons: int, false_alarms_per_100_runs: float) -> float:
    """
    Return the weight of evidence from which on a change is reported, corrected for the number of series.

    It was set where one series has 0.1 false alarms per 100 runs at most (`benchmarks/regressions.py`); how often a
    likelihood ratio exceeds a threshold falls with its exponential.
    """
    return max(THRESHOLD + math.log(comparisons * 0.1 / false_alarms_per_100_runs), SUSPICION)


def suspicion_for(comparisons: int, threshold: float) -> float:
    """Return the evidence from which on a change is suspected: one run is made to confirm all series of a plan."""
    return min(SUSPICION + math.log(comparisons), threshold)

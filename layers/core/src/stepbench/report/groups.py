"""Repeats of one trial as one row: how many runs, the median of their medians, and its range."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepbench import digits
from stepbench.analysis.comparability import format_value, shorten_path
from stepbench.report.boxes import BEYOND
from stepbench.report.labels import trial_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.across_trials import GroupWindow
    from stepbench.contracts.measures import Estimate, WindowResult
    from stepbench.contracts.result import RunSummary, TrialSummary


@dataclass(frozen=True)
class GroupRun:
    """It is one window of one run of a group."""

    trial: TrialSummary
    label: str
    window: WindowResult


@dataclass(frozen=True)
class QuantileOverRuns:
    """
    It sums up one quantile over the runs of a group, in ms.

    `median` is that of the runs' own values, `low` and `high` their range: no confidence interval; None beyond the
    drain limit, where `beyond` runs lie. No run is left out: where one has no value at all, all three are None, and
    `note` says so; it also says how many runs were too short for an interval of their own. Of a single run, `single` is
    its own estimate, with its own interval.
    """

    median: float | None
    low: float | None
    high: float | None
    note: str
    single: Estimate | None
    beyond: int = 0

    @property
    def shown(self) -> digits.Shown:
        """Return the quantile as it is printed."""
        if self.single is not None:
            return digits.shown(self.single)
        if self.median is None or self.low is None:
            return digits.Shown("", "", "", f"{BEYOND} in {self.beyond} runs" if self.beyond else self.note)
        unit = digits.unit_for(self.median)
        value, low = (digits.rounded(each * unit.per_ms) for each in (self.median, self.low))
        high = BEYOND if self.high is None else digits.rounded(self.high * unit.per_ms)
        return digits.Shown(value, unit.name, f"{low} to {high}", self.note)


@dataclass(frozen=True)
class TrialGroup:
    """It holds all runs of one trial, or of one point of a matrix, in one window."""

    name: str
    window: str
    phase: str
    point: dict[str, Any]
    runs: tuple[GroupRun, ...]

    @property
    def trial(self) -> TrialSummary:
        """Return the first of its trials."""
        return self.runs[0].trial

    @property
    def repeated(self) -> bool:
        """Tell whether there are several runs of it."""
        return len(self.runs) > 1

    @property
    def operations(self) -> bool:
        """Tell whether its trials are of operations, of which nothing has to arrive."""
        return self.trial.experiment == "operations"

    @property
    def label(self) -> str:
        """Return its name, with its window's where the trial has several."""
        return f"{self.name} · {self.window}" if len(self.trial.windows) > 1 else self.name

    def quantile_over_runs(self, quantile: str) -> QuantileOverRuns:
        """Return a quantile of latency (`p50`, `p90`, …) over the runs."""
        estimates: list[Estimate] = [getattr(run.window.latency_ms, quantile) for run in self.runs]
        single = estimates[0] if len(estimates) == 1 else None
        values = [_value(each) for each in estimates]
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            note = f"{len(values) - len(known)} of {len(values)} runs have none"
            return QuantileOverRuns(None, None, None, note, single)
        short = sum(each.value is not None and each.low is None for each in estimates)
        note = f"{short} of {len(values)} runs too short" if short else ""
        found = (statistics.median(known), min(known), max(known))
        median, low, high = (each if math.isfinite(each) else None for each in found)
        return QuantileOverRuns(median, low, high, note, single, known.count(math.inf))


def _value(estimate: Estimate) -> float | None:
    """Return the value; `inf` beyond the drain limit, since leaving a slow run out would make its group fast."""
    beyond = estimate.value is None and (estimate.reason or "").startswith(BEYOND)
    return math.inf if beyond else estimate.value


def groups(trials: Sequence[TrialSummary]) -> tuple[TrialGroup, ...]:
    """Return all groups in the order of their first trials; none where nothing is repeated and nothing varied."""
    names = [trial.group or label for trial, label in zip(trials, trial_labels(trials), strict=True)]
    repeated = {name for name, number in Counter(names).items() if number > 1}
    found: dict[tuple[str, str, str], list[GroupRun]] = {}
    for trial, name, label in zip(trials, names, trial_labels(trials), strict=True):
        if (name in repeated or trial.point) and not trial.incomplete:
            for window in trial.windows:
                found.setdefault((name, window.phase, window.name), []).append(GroupRun(trial, label, window))
    return tuple(
        TrialGroup(name, window, phase, dict(runs[0].trial.point), tuple(runs))
        for (name, phase, window), runs in found.items()
    )


def over_runs(summary: RunSummary) -> dict[tuple[str, str, str], GroupWindow]:
    """Return what the summary says of each group's windows, by group, phase and window."""
    return {(group.name, each.phase, each.window): each for group in summary.groups for each in group.windows}


def unmeasured(trials: Sequence[TrialSummary]) -> tuple[str, ...]:
    """Name the groups' trials that measured nothing or not all: they are in no row."""
    labels = zip(trials, trial_labels(trials), strict=True)
    names = Counter(trial.group for trial in trials if trial.group)
    return tuple(
        label
        for trial, label in labels
        if (trial.incomplete or not trial.windows) and (trial.point or names.get(trial.group, 0) > 1)
    )


def format_point(point: dict[str, Any]) -> str:
    """Format a point of a matrix: `batch_size = 100, rate_per_s = 2,000`."""
    return ", ".join(f"{shorten_path(path, list(point))} = {format_value(value)}" for path, value in point.items())

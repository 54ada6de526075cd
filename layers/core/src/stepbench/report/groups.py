"""Repeats of one trial as one row: how many runs, the mean of their quantiles with its interval, and their range."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepbench import digits
from stepbench.analysis.comparability import format_value, shorten_path
from stepbench.analysis.judged import judged_over_runs
from stepbench.contracts.experiment import QUANTILES, measure_of
from stepbench.contracts.measures import Estimate
from stepbench.report import document as doc
from stepbench.report import numbers
from stepbench.report.numbers import BEYOND
from stepbench.report.run import trial_labels
from stepbench.stats.over_runs import mean_over_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.result import TrialSummary
    from stepbench.contracts.thresholds import Judge


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

    `mean` is the geometric mean of the runs' own values, as verdicts have it, with its interval where there are runs
    enough; of a single run it is that run's own estimate. No run is left out: where one has no value, or lies beyond
    the drain limit, there is no mean. `least` and `greatest` are of the runs; None of a single one.
    """

    mean: Estimate
    least: float | None = None
    greatest: float | None = None
    short: str = ""
    """How many runs have no interval of their own."""

    @property
    def shown(self) -> digits.Shown:
        """Return it as it is printed: its note has the range of the runs."""
        found = digits.shown(self.mean)
        if not found.value or self.least is None or self.greatest is None:
            return found
        unit = digits.unit_for(self.mean.value or 0)
        least, greatest = (digits.rounded(each * unit.per_ms) for each in (self.least, self.greatest))
        span = f"runs {least} to {greatest}"
        span = f"{found.note}; {span}" if found.note == digits.NOT_KNOWN else span
        return digits.Shown(found.value, found.unit, found.interval, f"{span}; {self.short}" if self.short else span)


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
        """Return whether there are several runs of it."""
        return len(self.runs) > 1

    @property
    def operations(self) -> bool:
        """Return whether its trials are of operations, of which nothing has to arrive."""
        return not measure_of(self.trial.experiment).arrives

    @property
    def label(self) -> str:
        """Return its name, with its window's where the trial has several."""
        return f"{self.name} · {self.window}" if len(self.trial.windows) > 1 else self.name

    def quantile_over_runs(self, quantile: str) -> QuantileOverRuns:
        """Return a quantile of latency (`p50`, `p90`, …) over the runs."""
        estimates: list[Estimate] = [getattr(run.window.latency_ms, quantile) for run in self.runs]
        if len(estimates) == 1:
            return QuantileOverRuns(estimates[0])
        beyond = sum(each.value is None and (each.reason or "").startswith(BEYOND) for each in estimates)
        values = [each.value for each in estimates if each.value is not None]
        if len(values) < len(estimates):
            of = f"{len(estimates) - len(values)} of {len(estimates)} runs"
            return QuantileOverRuns(Estimate(value=None, reason=f"{BEYOND} in {of}" if beyond else f"{of} have none"))
        short = sum(each.low is None for each in estimates)
        note = f"{short} of {len(values)} runs without an interval" if short else ""
        return QuantileOverRuns(mean_over_runs(estimates), min(values), max(values), note)

    def judged(self, judge: Judge) -> Estimate:
        """Return what the group is judged by; of latency's quantiles none where a run has no value."""
        if judge.time == "latency" and judge.statistic in QUANTILES:
            return self.quantile_over_runs(judge.statistic).mean
        return judged_over_runs(judge, [(run.trial, run.window) for run in self.runs])


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


def groups_nodes(
    found: Sequence[TrialGroup], trials: Sequence[TrialSummary], latency_title: str, judge: Judge | None = None
) -> Iterator[doc.Node]:
    """Yield the table of all groups, what they are judged by first, and which trials are in no row of it."""
    caption = (
        f"{latency_title} over the runs of each trial",
        doc.Span(
            f": the geometric mean of the runs' own quantiles, with its {doc.NINETY_FIVE} interval where there are "
            f"three runs or more, and their range; of a single run its quantile with its {doc.NINETY_FIVE} interval.",
            "more",
        ),
    )
    names = (doc.more(name) if name == "p90" else name for name in _quantiles(judge))
    columns = doc.columns("Trial", "Runs", *((judge.title,) if judge else ()), *names)
    yield doc.Table("groups", caption, columns, doc.body(_row(group, judge) for group in found), phone=True)
    if missing := unmeasured(trials):
        yield doc.Sentence(f"Not in this table, since they measured nothing: {', '.join(missing)}.")


def _quantiles(judge: Judge | None) -> tuple[str, ...]:
    """Return the quantiles that have columns of their own."""
    return tuple(name for name in ("p50", "p90", "p99") if judge is None or judge.name != name)


def _judged(group: TrialGroup, judge: Judge) -> doc.Cell:
    found = judged_over_runs(judge, [(run.trial, run.window) for run in group.runs])
    return numbers.estimate("over_runs.judged", found, numbers.raw_unit(judge.statistic), judge=judge.name)


def _row(group: TrialGroup, judge: Judge | None) -> doc.Row:
    point = doc.Span(format_point(group.point), "provider") if group.point else ""
    name = (group.label, " " if group.trial.emulated else "", doc.EMULATED if group.trial.emulated else "", point)
    cells = (
        numbers.value("runs", len(group.runs), str(len(group.runs))),
        *((_judged(group, judge),) if judge else ()),
        *(_over_runs(quantile, group.quantile_over_runs(quantile)) for quantile in _quantiles(judge)),
    )
    data: doc.Data = {"group": group.name, "phase": group.phase, "window": group.window, "runs": len(group.runs)}
    return doc.Row(doc.Cell(name), cells, data)


def _over_runs(quantile: str, over: QuantileOverRuns) -> doc.Cell:
    metric = f"over_runs.{quantile}"
    if over.least is None:
        return numbers.estimate(metric, over.mean)
    return numbers.estimate(metric, over.mean, shown=over.shown, least=over.least, greatest=over.greatest)

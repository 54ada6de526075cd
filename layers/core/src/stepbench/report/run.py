"""
A run as its report's sections are given it: labels that are unique in it, states, and each trial with its drawn data.

Data sets are columns, which take a third of the bytes of rows.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from stepbench import digits
from stepbench.contracts.experiment import TRIGGER_LATENCY, measure_of, traits_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.documents import Manifest
    from stepbench.contracts.experiment import ExperimentName, LatencyDefinition
    from stepbench.contracts.measures import Estimate, Latency, WindowResult
    from stepbench.contracts.result import Caveat, RunSummary, TrialResult, TrialSummary
    from stepbench.contracts.thresholds import Judge


Value = float | int | str | None
Row = tuple[Value, ...]
Columns = dict[str, list[Value]]


@dataclass(frozen=True)
class WindowRow:
    """It names one window of one trial uniquely in the report."""

    trial: TrialSummary
    window: WindowResult
    window_label: str
    label: str
    place: int
    """Its place among the trial's windows."""
    judge: Judge | None = None
    """What the run is judged by."""

    @property
    def trial_label(self) -> str:
        """Return its trial's name, unique in the report."""
        return self.label if len(self.trial.windows) == 1 else self.label.removesuffix(f" · {self.window_label}")

    @property
    def lost(self) -> int | None:
        """Return how many acknowledged events did not arrive; of older summaries the trial's, if it has one window."""
        accounting = self.trial.accounting
        if self.window.lost is not None or len(self.trial.windows) > 1 or accounting is None:
            return self.window.lost
        return accounting.lost if accounting.awaited else None

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """Return the trial's caveats that are about this window."""
        return tuple(caveat for caveat in self.trial.caveats if caveat.is_about(self.place))


def trial_labels(trials: Sequence[TrialSummary]) -> tuple[str, ...]:
    """Return the trials' names; those that share one get their number as well, counted from 1."""
    names = Counter(trial.name for trial in trials)
    return _distinct(
        [trial.name if names[trial.name] == 1 else f"{trial.name} (trial {trial.index + 1})" for trial in trials]
    )


def window_labels(trial: TrialSummary) -> tuple[str, ...]:
    """Return the windows' names; those that two phases share get their phase's as well."""
    names = Counter(window.name for window in trial.windows)
    return _distinct(
        [window.name if names[window.name] == 1 else f"{window.phase} / {window.name}" for window in trial.windows]
    )


def window_label(trial: TrialSummary, phase: str, window: str) -> str:
    """Return one window's name among its trial's; its own where the trial has no such window."""
    labels = zip(trial.windows, window_labels(trial), strict=True)
    return next((label for each, label in labels if (each.phase, each.name) == (phase, window)), window)


def window_rows(trials: Sequence[TrialSummary], judge: Judge | None = None) -> tuple[WindowRow, ...]:
    """Return all windows of all trials in order; a trial's only window has the trial's name."""
    found = [
        (trial, label, name, place)
        for trial, label in zip(trials, trial_labels(trials), strict=True)
        for place, name in enumerate(window_labels(trial))
    ]
    labels = _distinct([label if len(trial.windows) == 1 else f"{label} · {name}" for trial, label, name, _ in found])
    return tuple(
        WindowRow(trial, trial.windows[place], name, label, place, judge)
        for (trial, _, name, place), label in zip(found, labels, strict=True)
    )


def drawn_windows(results: Sequence[TrialResult], kind: Literal["ecdf", "boxes"]) -> list[tuple[WindowRow, Any]]:
    """Pair the windows of all trials, in order, with what is drawn of each; those without it are left out."""
    known = {
        (result.summary.index, each.phase, each.window): each for result in results for each in getattr(result, kind)
    }
    rows = window_rows([result.summary for result in results])
    found = [(row, known.get((row.trial.index, row.window.phase, row.window.name))) for row in rows]
    return [(row, each) for row, each in found if each is not None]


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Number the names where they would still be equal."""
    used: set[str] = set()
    unique = []
    for name in names:
        candidate, number = name, 2
        while candidate in used:
            candidate, number = f"{name} ({number})", number + 1
        used.add(candidate)
        unique.append(candidate)
    return tuple(unique)


def columns(names: Sequence[str], rows: Sequence[Row]) -> Columns:
    """Turn rows of so many values each into columns."""
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def short(value: float) -> float:
    """Round to six significant digits: finer than a figure can show, a third of the bytes."""
    return float(f"{value:.6g}")


def drawn_interval(estimate: Estimate) -> tuple[float | None, float | None]:
    """Return the ends of an interval where both are known and a log axis can show them, else None twice."""
    shown = estimate.low is not None and estimate.low > 0 and estimate.high is not None
    return (estimate.low, estimate.high) if shown else (None, None)


def describe_latency(times: Latency, tail: Literal["p90", "p99"], judge: Judge | None = None) -> str:
    """Describe the median and a quantile of the tail that is not judged, each with its interval, or why it has none."""
    if times.p50.value is None:
        return f"No median: {times.p50.reason or 'nothing was measured'}"
    if times.p50.fell_behind and times.p50.reason:
        words = times.p50.reason[:1].upper() + times.p50.reason[1:]
        return f"{words}; the median of {digits.latency(times.p50.value)} says how long the run was"
    text = f"Median {digits.shown(times.p50).in_sentence()}"
    further = digits.shown(times.p90 if tail == "p90" else times.p99)
    return f"{text}, {tail} {further.in_sentence()}" if further.value and (not judge or judge.name != tail) else text


State = Literal["complete", "incomplete", "failed", "skipped"]
_PARTS = re.compile(r"(?<=[,;]) (?![^\[(]*[\])])")
"""Where a line may end: behind a comma or semicolon, but not within an interval or a remark."""
_CAVEAT_NAMES = {
    "t4_in_fallback": "t4 in fallback",
    "clock_unmeasured": "clock unmeasured",
    "saturated_generator": "late sends",
    "dependent_sample": "dependent events",
    "batching_window_ignored": "batching window ignored",
    "setting_without_effect": "setting without full effect",
}


def state_of(trial: TrialSummary) -> State:
    """Return `failed` if nothing was measured, `incomplete` if some of it was, `skipped` if it was not to run here."""
    if trial.skipped:
        return "skipped"
    if not trial.failure and not trial.incomplete:
        return "complete"
    transferred = trial.transfers is not None and trial.transfers.accounting.ok > 0
    return "incomplete" if transferred or any(window.n for window in trial.windows) else "failed"


def name_caveat_kind(kind: str) -> str:
    """Name a kind of caveat in a word or two."""
    return _CAVEAT_NAMES.get(kind, kind.replace("_", " "))


def describe_state(trial: TrialSummary) -> str:
    """Describe what became of a trial that did not end well, without its error."""
    sentences = {
        "complete": "Complete.",
        "incomplete": "Incomplete: what was measured is shown below, and marked.",
        "failed": "Failed before anything was measured.",
        "skipped": "Skipped: not run here, and not replaced by anything.",
    }
    return sentences[state_of(trial)]


def fit(lines: Sequence[str], width: int) -> str:
    """Join whole parts of lines as long as they fit: a number that is cut off is another number."""
    parts = [part for line in lines for part in _PARTS.split(f"{line.rstrip('.')};")]
    text = " ".join(parts).rstrip(";")
    while len(text) > width and len(parts) > 1:
        parts.pop()
        text = f"{' '.join(parts)} …"
    return text if len(text) <= width else f"{text[: width - 1]}…"


@dataclass(frozen=True)
class TrialView:
    """It shows one trial; `anchor` is its name in the page's addresses."""

    label: str
    summary: TrialSummary
    result: TrialResult
    rows: tuple[WindowRow, ...]
    anchor: str

    @property
    def measure(self) -> LatencyDefinition:
        """Return what its latency is."""
        return measure_of(self.summary.experiment)


@dataclass(frozen=True)
class RunView:
    """It shows a run: all trials, and all their windows."""

    summary: RunSummary
    trials: tuple[TrialView, ...]
    rows: tuple[WindowRow, ...]
    manifest: Manifest

    @property
    def results(self) -> tuple[TrialResult, ...]:
        """Return the trials' results."""
        return tuple(view.result for view in self.trials)

    @property
    def loaded(self) -> tuple[TrialView, ...]:
        """Return the trials whose load has phases and windows."""
        return tuple(view for view in self.trials if traits_of(view.summary.experiment).windows)

    @property
    def windowless(self) -> bool:
        """Return whether it has trials, and none with windows: it has no sections of events then."""
        return bool(self.trials) and not self.loaded

    @property
    def triggered(self) -> tuple[TrialView, ...]:
        """Return the trials whose events a store's trigger hands to a function."""
        return tuple(view for view in self.trials if traits_of(view.summary.experiment).by_trigger)

    @property
    def answered(self) -> tuple[TrialView, ...]:
        """Return the trials whose operations end with the store's answer."""
        return tuple(view for view in self.loaded if not view.measure.arrives)

    @property
    def troubled(self) -> tuple[TrialView, ...]:
        """Return the trials that did not complete."""
        return tuple(view for view in self.trials if state_of(view.summary) != "complete")

    @property
    def latency_title(self) -> str:
        """Return what tables of all trials call the latency."""
        experiments = {view.summary.experiment for view in self.trials}
        if len(experiments) == 1:
            return measure_of(experiments.pop()).title
        return f"{TRIGGER_LATENCY.title}, of operations their service time,"

    def of(self, experiment: ExperimentName) -> tuple[TrialView, ...]:
        """Return the trials of an experiment."""
        return tuple(view for view in self.trials if view.summary.experiment == experiment)


def run_view(summary: RunSummary, results: Sequence[TrialResult], manifest: Manifest) -> RunView:
    """Return the view; `results` are of the summary's trials, in their order, and their own summaries are not read."""
    rows, labels = window_rows(summary.trials), trial_labels(summary.trials)
    views = tuple(
        TrialView(
            label=label,
            summary=trial,
            result=result.model_copy(update={"summary": trial}),
            rows=tuple(row for row in rows if row.trial is trial),
            anchor=f"trial-{place}",
        )
        for place, (trial, label, result) in enumerate(zip(summary.trials, labels, results, strict=True))
    )
    return RunView(summary, views, rows, manifest)

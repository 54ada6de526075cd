"""Labels that are unique in a report, and data sets as columns, which take a third of the bytes of rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from stepbench import digits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.measures import Latency, WindowResult
    from stepbench.contracts.result import Caveat, TrialResult, TrialSummary

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


def window_rows(trials: Sequence[TrialSummary]) -> tuple[WindowRow, ...]:
    """Return all windows of all trials in order; a trial's only window has the trial's name."""
    found = [
        (trial, label, name, place)
        for trial, label in zip(trials, trial_labels(trials), strict=True)
        for place, name in enumerate(window_labels(trial))
    ]
    labels = _distinct([label if len(trial.windows) == 1 else f"{label} · {name}" for trial, label, name, _ in found])
    return tuple(
        WindowRow(trial, trial.windows[place], name, label, place)
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


def describe_latency(times: Latency, tail: Literal["p90", "p99"]) -> str:
    """Describe the median and a quantile of the tail, each with its interval, or why there is none."""
    if times.p50.value is None:
        return f"No median: {times.p50.reason or 'nothing was measured'}"
    if times.p50.fell_behind and times.p50.reason:
        words = times.p50.reason[:1].upper() + times.p50.reason[1:]
        return f"{words}; the median of {digits.latency(times.p50.value)} says how long the run was"
    text = f"Median {digits.shown(times.p50).in_sentence()}"
    further = digits.shown(times.p90 if tail == "p90" else times.p99)
    return f"{text}, {tail} {further.in_sentence()}" if further.value else text

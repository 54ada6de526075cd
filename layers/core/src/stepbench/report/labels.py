"""Names that stay apart: two trials of one store, or two windows of one name, never share a label."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.result import TrialSummary


@dataclass(frozen=True)
class WindowRow:
    """One window of one trial, under names that are unique in the report."""

    trial: TrialSummary
    trial_label: str
    window: WindowResult
    window_label: str
    label: str


def trial_labels(trials: Sequence[TrialSummary]) -> tuple[str, ...]:
    """The trials' names; those that share one get their number as well, counted from 1."""
    names = Counter(trial.name for trial in trials)
    return _distinct(
        [trial.name if names[trial.name] == 1 else f"{trial.name} (trial {trial.index + 1})" for trial in trials]
    )


def window_labels(trial: TrialSummary) -> tuple[str, ...]:
    """The windows' names; those that two phases share get their phase's as well."""
    names = Counter(window.name for window in trial.windows)
    return _distinct(
        [window.name if names[window.name] == 1 else f"{window.phase} / {window.name}" for window in trial.windows]
    )


def window_label(trial: TrialSummary, phase: str, window: str) -> str:
    """One window's name among its trial's; its own where the trial has no such window."""
    labels = zip(trial.windows, window_labels(trial), strict=True)
    return next((label for each, label in labels if (each.phase, each.name) == (phase, window)), window)


def window_rows(trials: Sequence[TrialSummary]) -> tuple[WindowRow, ...]:
    """All windows of all trials in order; a trial's only window goes by the trial's name."""
    found = [
        (trial, label, window, name)
        for trial, label in zip(trials, trial_labels(trials), strict=True)
        for window, name in zip(trial.windows, window_labels(trial), strict=True)
    ]
    labels = _distinct([label if len(trial.windows) == 1 else f"{label} · {name}" for trial, label, _, name in found])
    return tuple(
        WindowRow(trial, trial_label, window, name, label)
        for (trial, trial_label, window, name), label in zip(found, labels, strict=True)
    )


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """The same names, numbered where they would still be equal."""
    taken: set[str] = set()
    unique = []
    for name in names:
        candidate, number = name, 2
        while candidate in taken:
            candidate, number = f"{name} ({number})", number + 1
        taken.add(candidate)
        unique.append(candidate)
    return tuple(unique)

"""A run as its report's sections are given it: the summary, and each trial with what is drawn of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench.contracts.experiment import TRIGGER_LATENCY, measure_of, traits_of
from stepbench.report.labels import trial_labels, window_rows
from stepbench.report.words import state_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.documents import Manifest
    from stepbench.contracts.experiment import ExperimentName, LatencyDefinition
    from stepbench.contracts.result import RunSummary, TrialResult, TrialSummary
    from stepbench.report.labels import WindowRow


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

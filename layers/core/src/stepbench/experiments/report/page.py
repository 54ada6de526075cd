"""
The report: one HTML page that opens offline and needs nothing but itself.

Its content security policy allows no connection at all, and no script but the two that it carries (by hash).
Every text that came from outside passes Jinja's escaping, or `json_for_script`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from stepbench.contracts.measure import TRIGGER_LATENCY, measure_of
from stepbench.experiments.dataflow.report.view import dataflow_view
from stepbench.experiments.operations.report import scaling_figures
from stepbench.experiments.report.answers import answers
from stepbench.experiments.report.figures import run_drawings, run_figures
from stepbench.experiments.report.page_templates import page_environment, page_scripts, page_style
from stepbench.experiments.transfer.report import view as transfers
from stepbench.report import (
    comparisons,
    costs,
    thresholds,
    verdicts,
)
from stepbench.report.accounting import (
    accounting_is_whole,
)
from stepbench.report.caveats import caveat_groups
from stepbench.report.clock_check import clock_drawings, clock_figures
from stepbench.report.conditions import describe_conditions
from stepbench.report.datasets import time_figure
from stepbench.report.figures import json_for_script, page_data, step_drawings, time_drawings
from stepbench.report.groups import groups, unmeasured
from stepbench.report.labels import trial_labels, window_rows
from stepbench.report.matrix import matrix_figures
from stepbench.report.shares import share_figures, share_rows
from stepbench.report.steps import step_figures, step_starts
from stepbench.report.words import state_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.chart_data import PhaseSpan
    from stepbench.contracts.manifest import Manifest
    from stepbench.contracts.measure import LatencyDefinition
    from stepbench.contracts.result import RunSummary, TrialResult, TrialSummary
    from stepbench.experiments.dataflow.report.view import DataflowView
    from stepbench.experiments.transfer.report.view import TransferView
    from stepbench.report.datasets import TimeFigure
    from stepbench.report.figures import Drawing
    from stepbench.report.labels import WindowRow
    from stepbench.report.steps import StepFigure


@dataclass(frozen=True)
class TrialView:
    """It shows one trial to the templates."""

    label: str
    summary: TrialSummary
    rows: tuple[WindowRow, ...]
    phases: tuple[PhaseSpan, ...]
    over_time: TimeFigure | None
    steps: tuple[StepFigure, ...]
    anchor: str
    transfers: TransferView | None = None
    """Of the experiment `transfer` only: it has neither windows nor events, and so none of the other sections."""

    @property
    def measure(self) -> LatencyDefinition:
        """Return what its latency is."""
        return measure_of(self.summary.experiment)

    @property
    def whole(self) -> bool:
        """Return whether every event of it went its ordinary way."""
        return accounting_is_whole([self.summary.accounting])

    @property
    def changed(self) -> bool:
        """Return whether it has any steps, comparisons or change points to show."""
        return bool(self.steps or self.summary.comparisons or self.summary.change_points)

    def step_times(self, phase: str) -> tuple[float, ...]:
        """Return when the load of a phase changes, in its own seconds."""
        return next((step_starts(span) for span in self.phases if span.name == phase), ())


def render_page(
    summary: RunSummary,
    results: Sequence[TrialResult],
    manifest: Manifest,
    plan: Any = None,  # noqa: ANN401 -- the plan as its user wrote it, any JSON
    trends: str = "",
) -> str:
    """
    Render the whole page.

    Args:
        summary: the run, as `summary.json` has it.
        results: the trials' results in the same order; their summaries are not read.
        manifest: the provenance section.
        plan: the plan's JSON for the provenance section; None leaves it out.
        trends: the section on the plan's runs, one after another; empty leaves it out.
    """
    pairs = zip(results, summary.trials, strict=True)
    own = [result.model_copy(update={"summary": trial}) for result, trial in pairs]
    trials = _trial_views(summary, own)
    flow = dataflow_view(summary, own, [view.label for view in trials])
    return (
        page_environment()
        .get_template("page.html.j2")
        .render(
            **_of_trials(trials, summary),
            **_of_run(summary),
            **_drawn(own, trials, summary, flow),
            flow=flow,
            run=summary,
            manifest=manifest,
            plan=None if plan is None else json.dumps(plan, indent=2, ensure_ascii=False),
            trends=trends,
            style=page_style(),
            scripts=page_scripts(),
        )
    )


def _of_trials(trials: Sequence[TrialView], summary: RunSummary) -> dict[str, Any]:
    """Return which trials each section is about."""
    return {
        "trials": trials,
        "triggers": [view for view in trials if view.summary.experiment == "trigger"],
        "operating": [view for view in trials if view.summary.experiment == "operations"],
        "transferring": [view.transfers for view in trials if view.transfers is not None],
        "loaded": [view for view in trials if view.summary.experiment != "transfer"],
        "only_transfers": {view.summary.experiment for view in trials} == {"transfer"},
        "troubled": [view for view in trials if state_of(view.summary) != "complete"],
        "published": [(view, each) for view in trials for each in comparisons.scored(view.summary, summary)],
        "compared": [(view, each) for view in trials for each in view.summary.comparisons],
        "changed": any(view.changed for view in trials),
        "searching": [view for view in trials if view.summary.found_rate is not None],
    }


def _of_run(summary: RunSummary) -> dict[str, Any]:
    """Return what the sections on all trials together show."""
    return {
        "latency_title": _latency_title(summary.trials),
        "rows": window_rows(summary.trials),
        "verdicts": verdicts.verdict_views(summary),
        "caveat_groups": caveat_groups(summary.trials),
        "conditions": describe_conditions(summary.trials),
        "unmeasured": unmeasured(summary.trials),
        "thresholds": thresholds.threshold_rows(summary),
        "missed": thresholds.describe_missed(summary),
        "undecided": thresholds.describe_undecided(summary),
        "kept": thresholds.describe_all_kept(summary),
        "per_dollar": costs.per_dollar_rows(summary),
    }


def _drawn(
    results: Sequence[TrialResult], trials: Sequence[TrialView], summary: RunSummary, flow: DataflowView | None
) -> dict[str, Any]:
    """Return groups, shares and clocks with their figures, and the data of all figures."""
    grouped, shares = groups(summary.trials), share_rows(summary.shares, summary.trials)
    figures = run_figures(results, matrix_figures(grouped), share_figures(shares), scaling_figures(summary))
    clocks = clock_figures(summary, results)
    drawings = [*run_drawings(figures), *_trial_drawings(trials), *clock_drawings(clocks)]
    drawings += [] if flow is None else flow.drawings
    return {
        "groups": grouped,
        "repeated": any(group.repeated for group in grouped),
        "answers": answers(summary, grouped),
        "share_rows": shares,
        "figures": figures,
        "clock_figures": clocks,
        "page_data": Markup(json_for_script(page_data(drawings))),  # noqa: S704 -- escaped for its place
    }


def _trial_views(summary: RunSummary, results: Sequence[TrialResult]) -> tuple[TrialView, ...]:
    rows = window_rows(summary.trials)
    return tuple(
        TrialView(
            label=label,
            summary=trial,
            rows=tuple(row for row in rows if row.trial is trial),
            phases=result.phases,
            over_time=time_figure(result),
            steps=step_figures(result),
            anchor=f"trial-{place}",
            transfers=_transfers(label, f"trial-{place}", result),
        )
        for place, (trial, label, result) in enumerate(
            zip(summary.trials, trial_labels(summary.trials), results, strict=True)
        )
    )


def _transfers(label: str, anchor: str, result: TrialResult) -> TransferView | None:
    trial = result.summary
    if trial.transfers is None or result.transfers is None:
        return None
    shown = transfers.Transfers(trial.transfers, result.transfers, trial.stand_ins, trial.published_transfers)
    return transfers.transfer_view(label, anchor, shown)


def _trial_drawings(trials: Sequence[TrialView]) -> Iterator[Drawing]:
    for view in trials:
        for number, figure in enumerate(view.steps):
            yield from step_drawings(view.anchor, number, figure, view.summary.experiment)
        if view.over_time is not None:
            yield from time_drawings(view.anchor, view.over_time, view.summary.experiment)
        if view.transfers is not None:
            yield from view.transfers.figures.drawings


def _latency_title(trials: Sequence[TrialSummary]) -> str:
    """Return the title of the latency in tables of all trials."""
    experiments = {trial.experiment for trial in trials}
    if len(experiments) == 1:
        return measure_of(experiments.pop()).title
    return f"{TRIGGER_LATENCY.title}, of operations their service time,"

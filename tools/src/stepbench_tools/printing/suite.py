"""A run as a suite of tests, for a build server: that each trial ran whole, and each threshold in each window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.report.junit import Case, Suite
from stepbench.report.labels import trial_labels
from stepbench.report.thresholds import threshold_rows
from stepbench.report.words import describe_state, state_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from stepbench.contracts.result import RunSummary, TrialSummary
    from stepbench.report.thresholds import ThresholdRow

RAN_WHOLE = "runs whole"


def run_suite(summary: RunSummary, *, strict: bool = False) -> Suite:
    """
    Return the tests.

    An undecidable threshold is skipped, or if it is to be `strict` failed, with what it would take; a trial that was
    skipped is, too.
    """
    took_s = digits.elapsed_s(summary.started_at, summary.finished_at)
    undecided: Literal["failed", "skipped"] = "failed" if strict else "skipped"
    cases = (*_run_cases(summary), *(_threshold_case(row, undecided) for row in threshold_rows(summary)))
    return Suite(f"{summary.plan} {summary.run_id}", cases, summary.started_at, took_s or 0)


def _run_cases(summary: RunSummary) -> Iterator[Case]:
    if not summary.trials:
        yield Case(summary.plan, RAN_WHOLE, "failed", "the run has no trials")
    for trial, label in zip(summary.trials, trial_labels(summary.trials), strict=True):
        yield _trial_case(trial, label)
    if summary.status == "stopped":
        yield Case(summary.plan, RAN_WHOLE, "failed", "the run was stopped")


def _trial_case(trial: TrialSummary, label: str) -> Case:
    state = state_of(trial)
    if state == "complete":
        return Case(label, RAN_WHOLE)
    why = f" {trial.failure.error}: {trial.failure.cause}" if trial.failure else ""
    return Case(label, RAN_WHOLE, "skipped" if state == "skipped" else "failed", f"{describe_state(trial)}{why}")


def _threshold_case(row: ThresholdRow, undecided: Literal["failed", "skipped"]) -> Case:
    state = undecided if row.result.state == "undecidable" else row.result.state
    return Case(row.label or row.result.threshold, row.result.threshold, state, "" if state == "passed" else str(row))

"""
The short answer: a table for each experiment, and in plain text one line a trial, one sentence a window.

Pure, and cheap to import: the command line and the state machine's output use it as well as the page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.experiment import EXECUTION_LATENCY
from stepbench.experiments.dataflow.report.words import describe_objects, first_media
from stepbench.experiments.operations.report.words import format_throughput
from stepbench.experiments.registry import experiment_of, experiments
from stepbench.report.run import state_of, trial_labels, window_labels
from stepbench.report.thresholds import describe_missed, describe_undecided

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.findings import StoppedPhase
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.result import RunSummary, TrialSummary
    from stepbench.report import document as doc
    from stepbench.report.run import WindowRow

_WINDOWS_PER_LINE = 3


def headline_tables(summary: RunSummary) -> Iterator[doc.Table]:
    """Yield the table of each experiment, a row for each window: operations have a throughput, and nothing to lose."""
    yield from filter(None, (experiment.report.headline(summary) for experiment in experiments()))


def describe_window(row: WindowRow) -> str:
    """Answer for one window in a sentence."""
    return experiment_of(row.trial.experiment).report.describe_window(row)


def headline_lines(summary: RunSummary) -> tuple[str, ...]:
    """Return which thresholds were missed or not decided, and one line a trial: name, n, p50 with interval, lost."""
    labels = trial_labels(summary.trials)
    lines = tuple(_line(trial, label) for trial, label in zip(summary.trials, labels, strict=True))
    return (*filter(None, (describe_missed(summary), describe_undecided(summary))), *describe_media(summary), *lines)


def describe_media(summary: RunSummary) -> tuple[str, ...]:
    """Return which store is the best for each DAG, and what became of the objects if not all is well."""
    trials = zip(summary.trials, trial_labels(summary.trials), strict=True)
    broken = tuple(
        f"{label}: {describe_objects(trial.dataflow.objects)}"
        for trial, label in trials
        if trial.dataflow is not None and not trial.dataflow.objects.complete
    )
    return (*broken, *(answer.text.rstrip(".") for answer in first_media(summary.media)))


def describe_status(summary: RunSummary) -> str:
    """Return how the run ended, and which thresholds it missed, or was too short for."""
    return "; ".join(filter(None, (summary.status, describe_missed(summary), describe_undecided(summary))))


def _line(trial: TrialSummary, label: str) -> str:
    state = state_of(trial)
    head = label if state == "complete" else f"{label} ({state})"
    if trial.failure:
        head += f": {trial.failure.error}"
    named = tuple(zip(trial.windows, window_labels(trial), strict=True))
    p50 = f"{EXECUTION_LATENCY.name} p50" if trial.dataflow is not None else "p50"
    parts = [_window(window, name if len(named) > 1 else "", p50) for window, name in named[:_WINDOWS_PER_LINE]]
    if len(named) > _WINDOWS_PER_LINE:
        parts.append(f"and {digits.counted(len(named) - _WINDOWS_PER_LINE, 'more window')}")
    parts.extend(map(_ending, trial.stopped[:_WINDOWS_PER_LINE]))
    if trial.transfers is not None:
        parts.extend(answer.rstrip(".") for answer in trial.transfers.answers[:1])
    if trial.accounting and trial.accounting.awaited and trial.dataflow is None:
        parts.append(f"lost {digits.count(trial.accounting.lost)}")
        if trial.accounting.held_back:
            parts.append(f"{digits.count(trial.accounting.held_back)} held back by the filter")
    if trial.dataflow is not None:
        parts.append(f"{digits.count(trial.dataflow.executions.completed)} completed")
    if trial.emulated and (named or trial.transfers):
        parts.append("emulated")
    return f"{head}: {', '.join(parts)}" if parts else head


def _window(window: WindowResult, name: str, p50: str) -> str:
    text = f"n {digits.count(window.n)}, {p50} {digits.shown(window.latency_ms.p50)}"
    if window.latency_ms.p50.fell_behind:
        text += f" ({window.latency_ms.p50.reason})"
    if window.operations is not None:
        text += f", {format_throughput(window.throughput_per_s)}"
    return f"{name}: {text}" if name else text


def _ending(phase: StoppedPhase) -> str:
    width = phase.final if phase.final is not None else phase.reached
    known = "not known" if width is None else f"known to {100 * width:.2g} %"
    why = phase.reason.replace("_", " ")
    return f"{phase.phase} ended after {phase.stopped_at_s:.0f} s ({why}): {phase.metric} {known}"

"""
The short answer: a table for each experiment, and in plain text one line a trial, one sentence a window.

Pure, and cheap to import: the command line and the state machine's output use it as well as the page.

An execution's output says headline and where the rest is, 10 kB at most; or why the run failed, and what to do. Whoever
looks in the console sees this and nothing else. Addresses are the bucket's own: a presigned link would outlive its
purpose in the history.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.analysis.judged import describe, first_sentence, judged_over_runs
from stepbench.contracts.experiment import EXECUTION_LATENCY
from stepbench.contracts.runs import RenderReportOutput
from stepbench.errors import BLANKS, printable
from stepbench.experiments.dataflow.report.words import describe_objects, first_media
from stepbench.experiments.registry import experiment_of, experiments
from stepbench.experiments.trigger.handler import describe_handler
from stepbench.experiments.trigger.memory import memory_answers
from stepbench.report.caveats import describe_conditions
from stepbench.report.run import state_of, trial_labels, window_labels, window_rows
from stepbench.report.summary import failed_trials
from stepbench.report.thresholds import describe_missed, describe_undecided
from stepbench.report.verdicts import first_reported, format_verdict, verdict_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepbench.contracts.findings import StoppedPhase
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.result import RunSummary, TrialSummary
    from stepbench.contracts.thresholds import Judge
    from stepbench.report import document as doc
    from stepbench.report.run import WindowRow

_WINDOWS_PER_LINE = 3
MAX_OUTPUT_BYTES = 10_000
"""What follows leaves a kilobyte for names, addresses, and what later states add."""
HEADLINE_BYTES, NAMES_BYTES, REMOVED_BYTES, CAUSE_BYTES = 4_000, 1_000, 1_500, 2_500
FAILURE_CHARACTERS = 400
"""Of one trial's failure in the cause; the report has the whole."""
MAX_VERDICT_LINES = 3


def headline_tables(summary: RunSummary) -> Iterator[doc.Table]:
    """Yield the table of each experiment, a row for each window: operations have a throughput, and nothing to lose."""
    yield from filter(None, (experiment.report.headline(summary) for experiment in experiments()))


def describe_window(row: WindowRow) -> str:
    """Answer for one window in a sentence, after what the run is judged by; then why its phase ended when it did."""
    said = experiment_of(row.trial.experiment).report.describe_window(row)
    first = first_sentence(row.judge, [(row.trial, row.window)])
    return " ".join((f"{first}{said}", *(each.text for each in row.trial.stopped if each.phase == row.window.phase)))


def headline_lines(summary: RunSummary) -> tuple[str, ...]:
    """Return which thresholds were missed or not decided, and one line a trial: name, n, p50 with interval, lost."""
    labels = trial_labels(summary.trials)
    lines = tuple(_line(trial, label, summary.judge) for trial, label in zip(summary.trials, labels, strict=True))
    return (*_thresholds(summary), *describe_choices(summary), *lines)


def _thresholds(summary: RunSummary) -> tuple[str, ...]:
    return tuple(filter(None, (describe_missed(summary), describe_undecided(summary))))


def describe_choices(summary: RunSummary) -> tuple[str, ...]:
    """Return which store is best for each DAG, which memory for a function, and of objects if not all is well."""
    trials = zip(summary.trials, trial_labels(summary.trials), strict=True)
    broken = tuple(
        f"{label}: {describe_objects(trial.dataflow.objects)}"
        for trial, label in trials
        if trial.dataflow is not None and not trial.dataflow.objects.complete
    )
    media = (answer.text for answer in first_media(summary.media))
    return (*broken, *(text.rstrip(".") for text in (*media, *memory_answers(summary))))


MOST_FUNCTIONS = 3
"""So many windows have a line on the terminal: repeats say much the same."""


def describe_functions(summary: RunSummary) -> tuple[str, ...]:
    """Return when measured functions ran and were done, a line for each of the first few windows."""
    said = [f"{row.label}: {text}" for row in window_rows(summary.trials) if (text := describe_handler(row))]
    more = len(said) - MOST_FUNCTIONS
    rest = (f"{digits.counted(more, 'more window')} of functions: see the report",) if more > 0 else ()
    return (*(text.rstrip(".") for text in said[:MOST_FUNCTIONS]), *rest)


def describe_status(summary: RunSummary) -> str:
    """Return how the run ended, and which thresholds it missed, or was too short for."""
    return "; ".join((summary.status, *_thresholds(summary)))


def _line(trial: TrialSummary, label: str, judge: Judge | None) -> str:
    state = state_of(trial)
    head = label if state == "complete" else f"{label} ({state})"
    if trial.failure:
        head += f": {trial.failure.error}"
    named = tuple(zip(trial.windows, window_labels(trial), strict=True))
    p50 = f"{EXECUTION_LATENCY.name} p50" if trial.dataflow is not None else "p50"
    parts = [
        _window(window, name if len(named) > 1 else "", p50, _judged(judge, trial, window))
        for window, name in named[:_WINDOWS_PER_LINE]
    ]
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


def _judged(judge: Judge | None, trial: TrialSummary, window: WindowResult) -> str:
    return f"{describe(judge, judged_over_runs(judge, [(trial, window)]))}, " if judge else ""


def _window(window: WindowResult, name: str, p50: str, first: str) -> str:
    median = f", {p50} {digits.shown(window.latency_ms.p50)}" if not first.startswith("p50") else ""
    text = f"{first}n {digits.count(window.n)}{median}"
    if window.latency_ms.p50.fell_behind:
        text += f" ({window.latency_ms.p50.reason})"
    if window.operations is not None:
        text += f", {digits.throughput(window.throughput_per_s)}"
    return f"{name}: {text}" if name else text


def _ending(phase: StoppedPhase) -> str:
    if phase.threshold:
        return f"{phase.phase} ended after {phase.stopped_at_s:.0f} s: {phase.threshold} could not be kept any more"
    width = phase.final if phase.final is not None else phase.reached
    known = "not known" if width is None else f"known to {100 * width:.2g} %"
    why = phase.reason.replace("_", " ")
    return f"{phase.phase} ended after {phase.stopped_at_s:.0f} s ({why}): {phase.metric} {known}"


def short_answer(summary: RunSummary) -> tuple[str, ...]:
    """
    Return which thresholds were missed or not decided, and the first verdict; without one, a line for each trial.

    Of a run that is judged by a measure, the thresholds come behind the verdict, or the first trial's line.
    """
    first = describe_choices(summary) or tuple(map(format_verdict, first_reported(summary.verdicts, 1)))
    limits = _thresholds(summary)
    lines = first or headline_lines(summary)[len(limits) :]
    return (*lines[:1], *limits, *lines[1:]) if summary.judge else (*limits, *lines)


def run_output(summary: RunSummary, place: str) -> RenderReportOutput:
    """Return the output; `place` is the address below which the run's documents are."""
    report = f"{place}/report.html"
    verdicts, conditions = verdict_lines(summary, MAX_VERDICT_LINES), describe_conditions(summary.trials)
    headline = (*short_answer(summary), *verdicts, conditions, *headline_lines(summary))
    removed = dict.fromkeys(name for trial in summary.trials for name in trial.removed)
    return RenderReportOutput(
        run_id=summary.run_id,
        status=summary.status,
        verdict=str(summary.verdict),
        failed_trials=cut_lines((trial.name for trial in failed_trials(summary.trials)), NAMES_BYTES),
        cause="\n".join(cut_lines(_cause(summary, report), CAUSE_BYTES)),
        headline=cut_lines(dict.fromkeys(filter(None, headline)), HEADLINE_BYTES),
        removed=cut_lines(removed, REMOVED_BYTES),
        report=report,
        summary=f"{place}/summary.json",
    )


def with_regressions(output: RenderReportOutput, lines: Sequence[str], *, confirm: bool) -> RenderReportOutput:
    """Return the output with what got worse over the plan's runs, and whether a further run is to confirm it."""
    return output.model_copy(update={"regressions": cut_lines(lines, REMOVED_BYTES), "confirm": confirm})


def cut_lines(lines: Iterable[str], most_bytes: int) -> tuple[str, ...]:
    """Return the lines that fit, as JSON with every character escaped, and how many do not."""
    kept, left, wanted = list[str](), most_bytes, tuple(printable(line, BLANKS) for line in lines)
    for place, line in enumerate(wanted):
        left -= len(json.dumps(line)) + 2
        if left < 0:
            rest = len(wanted) - place
            return (*kept, f"… and {rest} more") if kept else (f"… {rest} in all",)
        kept.append(line)
    return tuple(kept)


def _cause(summary: RunSummary, report: str) -> Sequence[str]:
    failed = failed_trials(summary.trials)
    if not summary.trials:
        return ("the run has no trials",)
    if not failed:
        text = "stopped" if summary.status == "stopped" else describe_missed(summary)
        return (text,) if text else ()
    of = digits.counted(len(summary.trials), "trial")
    head = f"{digits.count(len(failed))} of {of} failed; what there is of them is in {report}"
    return (head, *map(_reason, failed))


def _reason(trial: TrialSummary) -> str:
    if trial.failure is None:
        return f"{trial.name}: {state_of(trial)}"
    text = f"{trial.name}: {trial.failure.error}: {trial.failure.cause}".rstrip(": ")
    return text if len(text) <= FAILURE_CHARACTERS else f"{text[: FAILURE_CHARACTERS - 1]}…"

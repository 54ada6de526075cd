"""
What an execution says of its run: headline and where the rest is, 10 kB at most; or why it failed, and what to do.

Whoever looks in the console sees this and nothing else. Addresses are the bucket's own: a presigned link would outlive
its purpose in the history.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from stepbench.contracts.runs import RenderReportOutput
from stepbench.digits import count, counted
from stepbench.errors import BLANKS, printable
from stepbench.experiments.report.headline import headline_lines
from stepbench.experiments.report.short_answer import short_answer
from stepbench.report.caveats import describe_conditions
from stepbench.report.run import state_of
from stepbench.report.summary import failed_trials
from stepbench.report.thresholds import describe_missed
from stepbench.report.verdicts import verdict_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepbench.contracts.result import RunSummary, TrialSummary

MAX_OUTPUT_BYTES = 10_000
"""What follows leaves a kilobyte for names, addresses, and what later states add."""
HEADLINE_BYTES, NAMES_BYTES, REMOVED_BYTES, CAUSE_BYTES = 4_000, 1_000, 1_500, 2_500
FAILURE_CHARACTERS = 400
"""Of one trial's failure in the cause; the report has the whole."""
MAX_VERDICT_LINES = 3


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
    of = counted(len(summary.trials), "trial")
    head = f"{count(len(failed))} of {of} failed; what there is of them is in {report}"
    return (head, *(_reason(trial) for trial in failed))


def _reason(trial: TrialSummary) -> str:
    if trial.failure is None:
        return f"{trial.name}: {state_of(trial)}"
    text = f"{trial.name}: {trial.failure.error}: {trial.failure.cause}".rstrip(": ")
    return text if len(text) <= FAILURE_CHARACTERS else f"{text[: FAILURE_CHARACTERS - 1]}…"

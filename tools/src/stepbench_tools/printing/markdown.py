"""A run as one pastes it into a pull request: how it ended, question and verdicts, a table, its caveats once each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.experiments.report.headline import BARE_TRIGGER, headline_tables
from stepbench.report.caveats import caveat_groups
from stepbench.report.conditions import describe_conditions
from stepbench.report.costs import describe_cost, describe_per_dollar
from stepbench.report.labels import trial_labels
from stepbench.report.thresholds import describe_missed, describe_undecided
from stepbench.report.verdicts import TERMINAL_LINES, first_reported, verdict_lines
from stepbench_tools.printing.dataflow_markdown import dataflow_parts
from stepbench_tools.printing.parts import code, escape, table_lines
from stepbench_tools.printing.transfer_markdown import transfer_parts
from stepbench_tools.printing.verdict_markdown import markdown_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.result import RunSummary

_LEFT_OUT = {BARE_TRIGGER, "caveats"}
_TEXT = {"trial", "provider"}


def render_markdown(summary: RunSummary) -> str:
    """Render the run, without a word that its report has not."""
    table = "\n\n".join(_tables(summary))
    missed = ", a threshold missed" if summary.verdict == "failed" and summary.status == "succeeded" else ""
    parts = [f"### {escape(summary.plan)}: {summary.status}{missed}"]
    answers = (describe_missed(summary), describe_undecided(summary), summary.question)
    parts.extend(f"**{escape(text[:1].upper() + text[1:])}**" for text in answers if text)
    if conditions := describe_conditions(summary.trials):
        parts.append(escape(conditions))
    if verdicts := verdict_lines(summary):
        parts.append("\n".join(f"- {escape(line)}" for line in verdicts))
        parts.append("\n".join(markdown_rows(first_reported(summary.verdicts, TERMINAL_LINES))))
    if table:
        parts.append(table)
    parts.extend(dataflow_parts(summary))
    for trial in summary.trials:
        if trial.transfers is not None:
            parts += [f"**{escape(trial.name)}**", *transfer_parts(trial.transfers, trial.stand_ins)]
    if escape(digits.UNSURE) in table:
        parts.append(f"{escape(digits.UNSURE)} without an interval: the caveats say why.")
    if failures := list(_failures(summary)):
        parts.append("\n".join(failures))
    if caveats := list(_caveats(summary)):
        parts.append("\n".join(caveats))
    if spent := [sentence for sentence in (describe_cost(summary), *describe_per_dollar(summary)) if sentence]:
        parts.append("\n".join(f"- {escape(sentence[:1].upper() + sentence[1:])}." for sentence in spent))
    parts.append(f"Run {code(summary.run_id)}, {escape(digits.moment(summary.started_at))}.")
    return "\n\n".join(parts) + "\n"


def _tables(summary: RunSummary) -> Iterator[str]:
    """Yield one table for each experiment."""
    for found, rows in headline_tables(summary):
        headings = [heading for heading in found if heading not in _LEFT_OUT]
        cells = (row.cells() for row in rows)
        yield "\n".join(table_lines(headings, [[escape(row[each]) for each in headings] for row in cells], _TEXT))


def _failures(summary: RunSummary) -> Iterator[str]:
    for trial, label in zip(summary.trials, trial_labels(summary.trials), strict=True):
        if trial.failure:
            yield f"- **{escape(label)}** {escape(f'{trial.failure.error}: {trial.failure.cause}')}"


def _caveats(summary: RunSummary) -> Iterator[str]:
    """Yield each kind of caveat once: which trials have it, and the first one's text and remedy."""
    for group in caveat_groups(summary.trials):
        yield f"- **{escape(group.name)}** ({escape(group.whom)}): {escape(group.text)}"

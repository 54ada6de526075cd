"""A run as one pastes it into a pull request: how it ended, question and verdicts, a table, its caveats once each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.report.caveats import caveat_groups
from stepbench.report.costs import describe_cost, describe_per_dollar
from stepbench.report.headline import headline_tables
from stepbench.report.labels import trial_labels
from stepbench.report.thresholds import describe_missed, describe_undecided
from stepbench.report.verdicts import verdict_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.result import RunSummary

_LEFT_OUT = {"floor p50", "caveats"}
_TEXT = {"trial", "provider"}
_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#~"})


def render_markdown(summary: RunSummary) -> str:
    """Render the run, without a word that its report has not."""
    table = "\n\n".join(_tables(summary))
    missed = ", a threshold missed" if summary.verdict == "failed" and summary.status == "succeeded" else ""
    parts = [f"### {_escape(summary.plan)}: {summary.status}{missed}"]
    answers = (describe_missed(summary), describe_undecided(summary), summary.question)
    parts.extend(f"**{_escape(text[:1].upper() + text[1:])}**" for text in answers if text)
    if verdicts := verdict_lines(summary):
        parts.append("\n".join(f"- {_escape(line)}" for line in verdicts))
    parts.append(table)
    if _escape(digits.UNSURE) in table:
        parts.append(f"{_escape(digits.UNSURE)} without an interval: the run was too short for one.")
    if failures := list(_failures(summary)):
        parts.append("\n".join(failures))
    if caveats := list(_caveats(summary)):
        parts.append("\n".join(caveats))
    if spent := [sentence for sentence in (describe_cost(summary), *describe_per_dollar(summary)) if sentence]:
        parts.append("\n".join(f"- {_escape(sentence[:1].upper() + sentence[1:])}." for sentence in spent))
    parts.append(f"Run `{summary.run_id}`, {digits.moment(summary.started_at)}.")
    return "\n\n".join(parts) + "\n"


def _tables(summary: RunSummary) -> Iterator[str]:
    """Yield one table for each experiment."""
    for found, rows in headline_tables(summary):
        headings = [heading for heading in found if heading not in _LEFT_OUT]
        lines = [_line(headings), _line(["---" if heading in _TEXT else "---:" for heading in headings])]
        for row in rows:
            cells = row.cells()
            lines.append(_line([_escape(cells[heading]) for heading in headings]))
        yield "\n".join(lines)


def _failures(summary: RunSummary) -> Iterator[str]:
    for trial, label in zip(summary.trials, trial_labels(summary.trials), strict=True):
        if trial.failure:
            cause = " ".join(trial.failure.cause.split())
            yield f"- **{_escape(label)}** {_escape(f'{trial.failure.error}: {cause}')}"


def _caveats(summary: RunSummary) -> Iterator[str]:
    """Yield each kind of caveat once: which trials have it, and the first one's text and remedy."""
    for group in caveat_groups(summary.trials):
        trial, caveat = group.caveats[0]
        first = _escape(group.label(trial))
        whom = f"{group.extent}, the first {first}" if group.affected > 1 else first
        yield f"- **{_escape(group.name)}** ({whom}): {_escape(f'{caveat.text} {caveat.remedy}')}"


def _escape(text: str) -> str:
    return text.translate(_SPECIAL)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"

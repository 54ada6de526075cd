"""A run as one pastes it into a pull request: how it ended, question and verdicts, a table, its caveats once each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.errors import printable
from stepbench.experiments.registry import experiments
from stepbench.experiments.report.headline import headline_tables
from stepbench.experiments.transfer.report.section import brief_findings
from stepbench.experiments.transfer.report.words import describe_span
from stepbench.report.caveats import caveat_groups
from stepbench.report.conditions import describe_conditions
from stepbench.report.costs import cost_sentences
from stepbench.report.document import Sentence, Sentences, Span, Table, plain, sentence_case
from stepbench.report.labels import trial_labels
from stepbench.report.thresholds import describe_missed, describe_undecided
from stepbench.report.verdicts import TERMINAL_LINES, first_reported, verdict_lines, verdict_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stepbench.contracts.result import RunSummary
    from stepbench.contracts.transfer.result import TransferFindings
    from stepbench.report.document import Cell, Node, Text

_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#~"})


def render_markdown(summary: RunSummary) -> str:
    """Render the run, without a word that its report has not."""
    missed = ", a threshold missed" if summary.verdict == "failed" and summary.status == "succeeded" else ""
    parts = [f"### {escape(summary.plan)}: {summary.status}{missed}", *map(to_markdown, _nodes(summary))]
    parts.append(f"Run {_code(summary.run_id)}, {escape(digits.moment(summary.started_at))}.")
    return "\n\n".join(parts) + "\n"


def render_dataset_markdown(name: str, found: TransferFindings, stand_ins: Mapping[str, str]) -> str:
    """Render what a dataset shows, without a word that its page has not."""
    head = f"### {escape(name)}: {describe_span(found)}, {digits.counted(found.n, 'read')}"
    return "\n\n".join([head, *map(to_markdown, brief_findings(found, stand_ins))]) + "\n"


def _nodes(summary: RunSummary) -> Iterator[Node]:
    """Yield what stands between the heading and the run's id."""
    for text in filter(None, (describe_missed(summary), describe_undecided(summary), summary.question)):
        yield Sentence(Span(sentence_case(text), "strong"))
    if conditions := describe_conditions(summary.trials):
        yield Sentence(conditions)
    if verdicts := verdict_lines(summary):
        yield _list(verdicts)
        if first := first_reported(summary.verdicts, TERMINAL_LINES):
            yield verdict_table(first)
    tables = tuple(headline_tables(summary))
    yield from tables
    for experiment in experiments():
        yield from experiment.report.brief(summary)
    if any(digits.UNSURE in to_markdown(table) for table in tables):
        yield Sentence(f"{digits.UNSURE} without an interval: the caveats say why.")
    yield from _ending(summary)


def _ending(summary: RunSummary) -> Iterator[Node]:
    """Yield failures, each kind of caveat once with the trials that have it, and costs."""
    labelled = zip(summary.trials, trial_labels(summary.trials), strict=True)
    if failures := [
        (Span(label, "strong"), f" {trial.failure.error}: {trial.failure.cause}")
        for trial, label in labelled
        if trial.failure
    ]:
        yield _list(failures)
    if caveats := [
        (Span(group.name, "strong"), f" ({group.whom}): {group.text}") for group in caveat_groups(summary.trials)
    ]:
        yield _list(caveats)
    if spent := cost_sentences(summary):
        yield _list(f"{sentence_case(sentence)}." for sentence in spent)


def _list(texts: Iterable[Text]) -> Sentences:
    return Sentences(tuple(map(Sentence, texts)), most=None)


def to_markdown(node: Node) -> str:
    """
    Render a sentence, a list or a table; a page has the other nodes alone.

    Raises:
        TypeError: it is another node.
    """
    match node:
        case Sentence():
            return _text(node.text)
        case Sentences():
            return "\n".join(f"- {_text(item.text)}" for item in node.items)
        case Table():
            return "\n".join(_table(node))
        case _:
            message = f"a {type(node).__name__} is for pages"
            raise TypeError(message)


def _text(text: Text) -> str:
    match text:
        case str():
            return escape(text)
        case Span():
            inner = _text(text.text)
            return f"**{inner}**" if text.style == "strong" else _code(plain(text)) if text.style == "code" else inner
        case _:
            return "".join(map(_text, text))


def _table(table: Table) -> Iterator[str]:
    """Yield a table's lines; what its bodies' rows share stands in a column of its own."""
    whose = [table.whose] if table.whose else []
    columns = (table.columns[0], *(table.columns[1 + place] for place in table.columns_of("markdown")))
    yield _line([*whose, *table.headings("markdown")])
    yield _line([*("---" for _ in whose), *("---:" if column.number else "---" for column in columns)])
    for body in table.bodies:
        for row in body.rows:
            group = [escape(plain(body.head).strip()) for _ in whose]
            yield _line([*group, *map(_cell, table.cells(row, "markdown"))])


def _cell(cell: Cell) -> str:
    return _text(cell.text) if cell.line is None else escape(cell.line)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escape(text: str) -> str:
    """Return text that Markdown shows as it is, on one line, since a line break would end a table's row."""
    return printable(" ".join(text.splitlines())).translate(_SPECIAL)


def _code(text: str) -> str:
    """Return text that Markdown shows as code."""
    quoted = printable(text).replace("`", "'")
    return f"`{quoted}`"

"""
A run as Markdown, and runs side by side as text, Markdown and JUnit.

A run's Markdown is as one pastes it into a pull request: how it ended, question and verdicts, a table, its caveats
once each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.errors import printable
from stepbench.experiments.registry import experiments
from stepbench.experiments.report.headline import headline_tables
from stepbench.experiments.transfer.report import brief_findings
from stepbench.experiments.transfer.words import describe_span
from stepbench.report.caveats import caveat_groups, describe_conditions
from stepbench.report.costs import cost_sentences
from stepbench.report.document import Sentence, Sentences, Span, Table, plain, sentence_case
from stepbench.report.run import trial_labels
from stepbench.report.thresholds import describe_missed, describe_undecided
from stepbench.report.verdicts import (
    NOTHING_IN_COMMON,
    TERMINAL_LINES,
    caveat_lines,
    describe_few_runs,
    describe_outcome,
    first_reported,
    format_result,
    format_verdict,
    regressions,
    verdict_lines,
    verdict_table,
)
from stepbench_tools.junit import RAN_WHOLE, Case, Suite, to_xml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stepbench.contracts.across_trials import RunComparison, Verdict
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


def format_text(found: RunComparison) -> str:
    """Return the outcome in a line, then a line for each comparison, those that regressed first."""
    caveats = [f"doubtful   {line}" for line in caveat_lines(found)]
    lines = [
        describe_outcome(found),
        *_sides(found),
        "",
        *_verdict_lines(found),
        *caveats,
        *_left_out(found),
        *_single(found),
    ]
    return "\n".join(lines)


def format_markdown(found: RunComparison) -> str:
    """Return a heading, a table with a row for each comparison, and the sentences of those that regressed."""
    lines = [f"### {escape(describe_outcome(found))}", "", *map(escape, _sides(found)), ""]
    lines += [to_markdown(verdict_table(found.verdicts, "A", "B"))] if found.verdicts else []
    worse = [f"- {escape(format_verdict(verdict))}" for verdict in found.verdicts if regressions(verdict)]
    caveats = [f"- {escape(line)}" for line in caveat_lines(found)]
    caveats = ["", "Doubtful:", *caveats] if caveats else []
    ending = ["", *map(escape, (*_left_out(found), *_single(found)))]
    return "\n".join([*lines, *([""] if worse else []), *worse, *caveats, *ending]).rstrip()


def format_junit(found: RunComparison) -> str:
    """Return a test case for each comparison, and for each group that broke off; what got worse is a failure."""
    broken = [Case(name, RAN_WHOLE, "failed", "in B it failed or broke off") for name in found.broken]
    gone = [Case(name, "is in B", "skipped", "only in A") for name in found.only_a if name not in found.broken]
    why = "it fell behind its load in B, and kept up in A"
    behind = [Case(name, "keeps up", "failed", why) for name in found.behind]
    none = [] if found.verdicts else [Case("all trials", "have a window in common", "failed", NOTHING_IN_COMMON)]
    none = [] if broken else none
    return to_xml([Suite("stepbench compare", (*map(_case, found.verdicts), *none, *broken, *behind, *gone))])


def _case(verdict: Verdict) -> Case:
    worse = regressions(verdict)
    if verdict.unlike:
        return Case(verdict.b.group, verdict.subject, "skipped", format_result(verdict))
    if not worse:
        return Case(verdict.b.group, verdict.subject)
    names = ", ".join(effect.measure for effect in worse)
    return Case(verdict.b.group, verdict.subject, "failed", f"{names} regressed. {format_result(verdict)}")


def _sides(found: RunComparison) -> Iterator[str]:
    yield f"A: {', '.join(found.a)}"
    yield f"B: {', '.join(found.b)} (its values stand first)"


def _verdict_lines(found: RunComparison) -> Iterator[str]:
    yield from (f"regressed  {format_verdict(verdict)}" for verdict in found.verdicts if regressions(verdict))
    yield from (f"           {format_verdict(verdict)}" for verdict in found.verdicts if not regressions(verdict))


def _single(found: RunComparison) -> Iterator[str]:
    if few := describe_few_runs(found.verdicts):
        yield few


def _left_out(found: RunComparison) -> Iterator[str]:
    for side, names, unfinished in (
        ("A", found.only_a, found.unfinished_a),
        ("B", found.only_b, found.unfinished_b),
    ):
        if names:
            yield f"Only in {side}: {', '.join(names)}"
        if unfinished:
            yield f"Failed or broke off in {side}, those trials are not compared: {', '.join(unfinished)}"

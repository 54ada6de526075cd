"""A comparison of runs as text for a terminal, as Markdown for a pull request, and as JUnit for a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.report.junit import Case, Suite, to_xml
from stepbench.report.verdicts import (
    caveat_lines,
    describe_few_runs,
    describe_outcome,
    format_result,
    format_verdict,
    regressions,
    verdict_table,
)
from stepbench_tools.printing.markdown import escape, to_markdown
from stepbench_tools.printing.suite import RAN_WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.across_trials import RunComparison, Verdict


def format_text(found: RunComparison) -> str:
    """Return the outcome in a line, then a line for each comparison, those that regressed first."""
    caveats = [f"doubtful   {line}" for line in caveat_lines(found)]
    lines = [describe_outcome(found), *_sides(found), "", *_lines(found), *caveats, *_left_out(found), *_single(found)]
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
    return to_xml([Suite("stepbench compare", (*map(_case, found.verdicts), *broken, *behind, *gone))])


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


def _lines(found: RunComparison) -> Iterator[str]:
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

"""A comparison of runs as text for a terminal, as Markdown for a pull request, and as JUnit for a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.analysis.effects import QUANTILES
from stepbench.report.headline import name_caveat_kind
from stepbench.report.junit import Case, Suite, to_xml
from stepbench.report.suite import RAN_WHOLE
from stepbench.report.verdicts import ONE_RUN, describe_outcome, regressions, tell, tell_result

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.verdict import Effect, RunComparison, Verdict


def format_text(found: RunComparison) -> str:
    """Return the outcome in a line, then a line for each comparison, those that regressed first."""
    return "\n".join([describe_outcome(found), *_sides(found), "", *_lines(found), *_left_out(found), *_single(found)])


def format_markdown(found: RunComparison) -> str:
    """Return a heading, a table with a row for each comparison, and the sentences of those that regressed."""
    lines = [f"### {describe_outcome(found)}", "", *_sides(found), ""]
    if found.verdicts:
        lines += ["| comparison | p50, A | p50, B | p50 | p90 | p99 | |", "|---|---:|---:|---:|---:|---:|---|"]
    lines += map(_row, found.verdicts)
    worse = [f"- {tell(verdict)}" for verdict in found.verdicts if regressions(verdict)]
    return "\n".join([*lines, *([""] if worse else []), *worse, "", *_left_out(found), *_single(found)]).rstrip()


def format_junit(found: RunComparison) -> str:
    """Return a test case for each comparison, and for each group that broke off; what got worse is a failure."""
    broken = [Case(name, RAN_WHOLE, "failed", "in B it failed or broke off") for name in found.broken]
    gone = [Case(name, "is in B", "skipped", "only in A") for name in found.only_a if name not in found.broken]
    return to_xml([Suite("stepbench compare", (*map(_case, found.verdicts), *broken, *gone))])


def _case(verdict: Verdict) -> Case:
    worse = regressions(verdict)
    if verdict.unlike:
        return Case(verdict.b.group, verdict.subject, "skipped", tell_result(verdict))
    if not worse:
        return Case(verdict.b.group, verdict.subject)
    names = ", ".join(effect.measure for effect in worse)
    return Case(verdict.b.group, verdict.subject, "failed", f"{names} regressed. {tell_result(verdict)}")


def _sides(found: RunComparison) -> Iterator[str]:
    yield f"A: {', '.join(found.a)}"
    yield f"B: {', '.join(found.b)}"


def _lines(found: RunComparison) -> Iterator[str]:
    yield from (f"regressed  {tell(verdict)}" for verdict in found.verdicts if regressions(verdict))
    yield from (f"           {tell(verdict)}" for verdict in found.verdicts if not regressions(verdict))


def _row(verdict: Verdict) -> str:
    p50 = verdict.effect("p50")
    sides = [digits.latency(side.value) for side in (p50.a, p50.b)] if p50 else [digits.NONE] * 2
    cells = [_cell(verdict.effect(name)) for name in QUANTILES]
    said = [f"**{effect.measure} regressed**" for effect in regressions(verdict)]
    said += [verdict.unlike] if verdict.unlike else []
    said += [f"doubtful: {name_caveat_kind(kind)}" for kind in verdict.doubts]
    name = verdict.subject.replace("|", "\\|")
    return f"| {' | '.join([name, *sides, *cells, ', '.join(said)])} |"


def _cell(effect: Effect | None) -> str:
    if effect is None or effect.ratio is None or (effect.ratio.value is None and effect.finding == "unknown"):
        return digits.NONE
    return digits.effect(effect.ratio)


def _single(found: RunComparison) -> Iterator[str]:
    if any(not verdict.over_runs for verdict in found.verdicts):
        yield ONE_RUN


def _left_out(found: RunComparison) -> Iterator[str]:
    for side, names, unfinished in (
        ("A", found.only_a, found.unfinished_a),
        ("B", found.only_b, found.unfinished_b),
    ):
        if names:
            yield f"Only in {side}: {', '.join(names)}"
        if unfinished:
            yield f"Failed or broke off in {side}, those trials are not compared: {', '.join(unfinished)}"

"""Comparisons as a Markdown table: their quantiles side by side, what regressed, and what makes them doubtful."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.analysis.effects import QUANTILES
from stepbench.report.verdicts import regressions
from stepbench.report.words import name_caveat_kind
from stepbench_tools.printing.parts import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.verdict import Effect, Verdict

_HEADINGS = ("| comparison | p50, {a} | p50, {b} | p50 | p90 | p99 | |", "|---|---:|---:|---:|---:|---:|---|")


def markdown_rows(verdicts: Sequence[Verdict], a: str = "first", b: str = "second") -> list[str]:
    """Return a Markdown table with a row for each comparison; empty where there is none."""
    heading, rule = _HEADINGS
    return [heading.format(a=a, b=b), rule, *map(_row, verdicts)] if verdicts else []


def _row(verdict: Verdict) -> str:
    p50 = verdict.effect("p50")
    sides = [digits.latency(side.value) for side in (p50.a, p50.b)] if p50 else [digits.NONE] * 2
    cells = [_cell(verdict.effect(name)) for name in QUANTILES]
    said = [f"**{effect.measure} regressed**" for effect in regressions(verdict)]
    said += [escape(verdict.unlike)] if verdict.unlike else []
    said += [f"doubtful: {name_caveat_kind(kind)}" for kind in verdict.doubts]
    return f"| {' | '.join([escape(verdict.subject), *sides, *cells, ', '.join(said)])} |"


def _cell(effect: Effect | None) -> str:
    if effect is None or effect.ratio is None or (effect.ratio.value is None and effect.finding == "unknown"):
        return digits.NONE
    return digits.effect(effect.ratio)

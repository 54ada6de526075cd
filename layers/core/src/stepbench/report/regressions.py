"""
What changed over the runs of a plan: as text, and as a section of a page with a chart of each trend.

The charts are drawn here, as SVG, so that a page shows them without a script; each has its numbers in a table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from jinja2 import PackageLoader
from markupsafe import Markup

from stepbench import digits
from stepbench.analysis.judged import unit_of
from stepbench.report.html import template_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jinja2 import Environment

    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.regressions import Regressions, RunSeries, SeriesFinding, SeriesRun

WIDTH, HEIGHT, MARGIN = 640, 180, 16
"""In SVG's units; the drawing is scaled to its column."""
WORDS = {
    "no_change": "no change",
    "suspected": "suspected",
    "regression": "regression",
    "improvement": "improvement",
    "shift": "acknowledged shift",
    "spike": "spike",
    "drift": "drift",
    "undecidable": "undecidable",
}
_ORDER = ("regression", "drift", "suspected", "improvement", "undecidable", "shift", "spike", "no_change")
FAILING = frozenset({"regression", "drift"})
_CLOSE = 0.02
"""A chart's values are at least so far apart, as a logarithm, that noise of a per mille does not fill it."""


def format_text(found: Regressions) -> str:
    """Return the outcome in a line, then a line for each series, the worst first."""
    lines = [f"{found.plan}: {describe_outcome(found)}"]
    lines += [f"  {WORDS[each.verdict]:<18}  {each.series.name}: {each.text}" for each in ranked(found.findings)]
    if found.not_comparable:
        lines.append(f"  {describe_left_out(found)}")
    return "\n".join([*lines, f"  {found.false_alarms}"])


def describe_outcome(found: Regressions) -> str:
    """Return how many series stand worse, of how many runs, and that a confirming run is asked for."""
    if not found.findings:
        return f"no numbers in {digits.counted(found.runs, 'run')}"
    worse = sum(each.verdict in FAILING for each in found.findings)
    said = digits.counted(worse, "regression") if worse else "no regression"
    if all(each.verdict == "undecidable" for each in found.findings):
        said = "nothing can be said yet"
    asked = "; a confirming run is asked for" if found.confirm else ""
    series = f"{digits.count(len(found.findings))} series over {digits.counted(found.runs, 'run')}"
    gone = (
        f"; the last run, {found.last_run}, has no numbers of {digits.listed(found.missing)}" if found.missing else ""
    )
    gone += f"; {digits.listed(found.behind)} fell behind in it" if found.behind else ""
    return f"{said} in {series}{gone}{asked}"


def describe_left_out(found: Regressions) -> str:
    """Return which runs were made under other settings."""
    runs = digits.counted(len(found.not_comparable), "run")
    return f"{runs} under other settings or elsewhere left out: {', '.join(found.not_comparable)}"


def ranked(findings: Sequence[SeriesFinding]) -> list[SeriesFinding]:
    """Return the findings, the worst first."""
    return sorted(findings, key=lambda each: _ORDER.index(each.verdict))


class Point(NamedTuple):
    """
    One run in a chart and its table. `mark`: what is to be said of it, and `state` how it looks.

    beyond: it is no value, but what the run's is at least; it stands at the upper edge.
    """

    x: float
    y: float
    low: float | None
    high: float | None
    run: SeriesRun
    shown: str
    beyond: bool
    state: str
    mark: str


@dataclass(frozen=True)
class Trend:
    """It is one series, drawn. `baseline_y`: of the level that the last runs are set against."""

    finding: SeriesFinding
    points: tuple[Point, ...]
    line: str
    baseline_y: float | None
    baseline: str
    top: str
    bottom: str

    @property
    def word(self) -> str:
        """Return the verdict in words."""
        return WORDS[self.finding.verdict]

    def say_change(self, state: str) -> str:
        """Return the words at a change of level; an arrow points where the numbers go, and rates are worse below."""
        upwards = (state == "worse") != (self.finding.series.measure == "throughput")
        return "\N{CHECK MARK} acknowledged" if state == "acknowledged" else f"{'▲' if upwards else '▼'} {state}"


def render_trends(series: RunSeries, found: Regressions, most: int = 12, run_address: str = "") -> Markup:
    """
    Return a section of a page: the outcome, and of the first series, worst first, a chart with its table.

    Args:
        series: what was looked at.
        found: what was found in it.
        most: how many series are drawn; the others are in the table of verdicts.
        run_address: what comes before a run's id in the address of its page; empty where runs have none.
    """
    trends = [draw(series, each) for each in ranked(found.findings)]
    drawn = [trend for trend in trends if len(trend.points) > 1][:most]
    text = _environment().get_template("trends.html.j2").render(
        found=found, trends=trends, drawn=drawn, outcome=describe_outcome(found), width=WIDTH, height=HEIGHT,
        left_out=describe_left_out(found) if found.not_comparable else "", moment=digits.moment,
        anchor=_anchor(found.plan), run_address=run_address, counted=digits.counted,
        last=next((run.started_at for run in series.runs if run.run_id == found.last_run), ""),
        alone=any(len(trend.points) == 1 for trend in trends),
    )  # fmt: skip
    return Markup(text)  # noqa: S704 -- the template escapes what it is given


def render_failure(plan: str, why: str) -> Markup:
    """Return the section of a run that could not be set against earlier ones, with the reason."""
    section = Markup('<section class="trends"><h2>{}, run after run</h2><p class="note">{}</p></section>')
    return section.format(plan, f"This run could not be set against earlier ones. {why}")


def draw(series: RunSeries, finding: SeriesFinding) -> Trend:
    """Return a series' runs as points of a chart, upright on a logarithmic scale."""
    have = _find_runs(series, finding)
    numbers = [number for _, each in have for number in (each.value, each.low, each.high) if number]
    if finding.baseline is not None and finding.baseline.value:
        numbers.append(finding.baseline.value)
    if not have:
        return Trend(finding, (), "", None, "", "", "")
    low, high = math.log(min(numbers)), math.log(max(numbers))
    low, high = min(low, high - _CLOSE), max(high, low + _CLOSE)

    def upright(value: float) -> float:
        return round(HEIGHT - MARGIN - (math.log(value) - low) / (high - low) * (HEIGHT - 2 * MARGIN), 1)

    between = (WIDTH - 2 * MARGIN) / max(1, len(have) - 1)
    points = tuple(
        Point(
            round(MARGIN + place * between, 1),
            upright(estimate.value) if estimate.value else MARGIN / 2,
            upright(estimate.low) if estimate.low and estimate.high else None,
            upright(estimate.high) if estimate.low and estimate.high else None,
            run,
            _show(finding, estimate),
            estimate.value is None,
            *_mark(finding, run),
        )
        for place, (run, estimate) in enumerate(have)
    )
    base = finding.baseline
    return Trend(
        finding=finding,
        points=points,
        line=" ".join(f"{point.x},{point.y}" for point in points),
        baseline_y=upright(base.value) if base is not None and base.value else None,
        baseline=_show(finding, base) if base is not None else "",
        top=_show_number(finding, math.exp(high)),
        bottom=_show_number(finding, math.exp(low)),
    )


def _find_runs(series: RunSeries, finding: SeriesFinding) -> list[tuple[SeriesRun, Estimate]]:
    """Return the runs of which something is known, with what that is."""
    return [
        (run, value.estimate)
        for run in series.runs
        for value in run.values
        if value.series == finding.series and (value.estimate.at_least or 0) > 0
    ]


def _mark(finding: SeriesFinding, run: SeriesRun) -> tuple[str, str]:
    """Return how a run looks, and what is said of it."""
    state, said = "", []
    for shift in finding.shifts:
        if shift.run_id == run.run_id:
            state = "acknowledged" if shift.acknowledged else "better" if shift.better else "worse"
            words = {"acknowledged": "acknowledged shift", "better": "better from here", "worse": "worse from here"}
            said.append(f"{words[state]}: {shift.acknowledged}" if shift.acknowledged else words[state])
    if run.run_id in finding.spikes:
        state = state or "spike"
        said.append("spike")
    if run.confirms is not None:
        said.append(f"confirms {run.confirms}")
    if run.changed:
        said.append(run.changed)
    return state, "; ".join(said)


def _show(finding: SeriesFinding, estimate: Estimate) -> str:
    if estimate.value is None and estimate.low is not None:
        return f"> {_show_number(finding, estimate.low)}"
    return str(digits.shown(estimate, unit_of(finding.series.measure)))


def _show_number(finding: SeriesFinding, value: float) -> str:
    unit = unit_of(finding.series.measure)
    return digits.latency(value) if unit is None else f"{digits.rounded(value)} {unit.name}"


def _anchor(plan: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in plan)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return template_environment(PackageLoader("stepbench.report"))

"""
The ratios that have a goal as one figure: a dot with its interval on a log axis, a tick where the goal is.

Altair writes the specification and vl-convert draws it, as with the report's figures. It stands on a light ground of
its own, so that it reads the same on a dark page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import vl_convert

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.result import Case, Figure, Goal, Result

_VERDICTS = {True: "goal met", False: "goal missed"}
_COLORS = ["#0b7285", "#c2255c"]
"""Told apart by those who see no red or green, too; the shapes say the same."""
_SHAPES = ["circle", "diamond"]
_INK, _GROUND, _GRID = "#212529", "#ffffff", "#dee2e6"
_TITLE = "ours / peer's (log scale; dark tick: the goal)"
_WIDTH_PX, _ROW_PX, _LABEL_PX, _LINE_PX = 420, 36, 370, 14
_BREAK = "|"
"""Where a label goes on in its second line."""


def svg(results: Sequence[Result]) -> str:
    """The figure as SVG, self-contained."""
    drawn: str = vl_convert.vegalite_to_svg(specification(results))
    return drawn


def specification(results: Sequence[Result]) -> dict[str, Any]:
    """Of every figure whose ratio has a goal; the page's tables have the others, too."""
    values = _rows(results)
    order = [value["row"] for value in values]
    lines = alt.Axis(
        labelExpr=f"split(datum.label, '{_BREAK}')",
        labelLimit=_LABEL_PX,
        minExtent=_LABEL_PX,  # vl-convert takes text for narrower than browsers draw it
        labelLineHeight=_LINE_PX,
        ticks=False,
        domain=False,
    )
    y = alt.Y("row:N", sort=order, title=None, axis=lines)
    x = alt.X("ratio:Q", scale=alt.Scale(type="log"), title=_TITLE)
    color = alt.Color("verdict:N", title=None, scale=alt.Scale(domain=list(_VERDICTS.values()), range=_COLORS))
    shape = alt.Shape("verdict:N", title=None, scale=alt.Scale(domain=list(_VERDICTS.values()), range=_SHAPES))
    rows = alt.Chart(alt.InlineData(values=values))
    even = alt.Chart(alt.InlineData(values=[{"ratio": 1}])).mark_rule(color=_INK, strokeDash=[3, 3]).encode(x=x)
    interval = rows.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=3, opacity=0.45)
    goal = rows.transform_filter("isValid(datum.goal)").mark_tick(color=_INK, thickness=2, size=14)
    dot = rows.mark_point(filled=True, size=70, opacity=1)
    layers = alt.layer(
        even,
        interval.encode(x=alt.X("low:Q", title=_TITLE), x2="high:Q", y=y, color=color),
        goal.encode(x=alt.X("goal:Q", title=_TITLE), y=y),
        dot.encode(x=x, y=y, color=color, shape=shape),
    )
    chart = layers.properties(width=_WIDTH_PX, height=alt.Step(_ROW_PX), background=_GROUND, padding=12)
    made: dict[str, Any] = chart.configure(**_style()).to_dict()
    return made


def _rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    return [
        _row(result, case, figure)
        for result in results
        for case in result.cases
        for figure in case.figures
        if _bound(figure.goal) is not None and figure.met is not None
    ]


def _row(result: Result, case: Case, figure: Figure) -> dict[str, Any]:
    low, high = figure.interval or (None, None)
    more = ", more is better" if figure.unit.endswith("/s") else ""
    return {
        "row": f"{result.benchmark}: {case.name}, {figure.name}{more}{_BREAK}beside {case.peer}",
        "ratio": figure.ratio,
        "low": low,
        "high": high,
        "goal": _bound(figure.goal),
        "verdict": _VERDICTS[bool(figure.met)],
    }


def _bound(goal: Goal | None) -> float | None:
    """Of a ratio; one-sided, as all goals are."""
    if goal is None or goal.of != "ratio":
        return None
    return goal.at_least if goal.at_most is None else goal.at_most


def _style() -> dict[str, Any]:
    text = {
        "labelColor": _INK,
        "titleColor": _INK,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    }
    return {
        "view": {"stroke": None},
        "axis": {**text, "gridColor": _GRID},
        "legend": {**text, "orient": "top", "symbolOpacity": 1},
        "font": "sans-serif",
    }

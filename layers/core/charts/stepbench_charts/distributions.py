"""Distributions: box plots, the clock check's two curves, and shares of an application's time as bars."""

from __future__ import annotations

import altair as alt

from stepbench.report import BOX_QUANTILES, BOX_ROW_PX, SHARE_ROW_PX
from stepbench_charts.parts import (
    FORMULA,
    LABELS,
    LATENCY,
    LOW,
    SHARE_WITHIN,
    TOP,
    Y_EXTENT,
    across,
    distribution,
    framed,
    named,
    series_legend,
    time_axis,
    tooltips,
    touch,
    touch_points,
    zoom,
)

_BOX_PX = 16
_NAME_PX = -15
_EDGES = {"start": alt.value(0), "end": alt.value("width")}
_ARROWS = {"start": alt.value(6), "end": alt.value(alt.ExprRef("width - 6"))}
_TITLE = f"{LATENCY}, {FORMULA} (log scale)"


def box_plot() -> alt.LayerChart | alt.FacetChart:
    """
    Draw one row for each window: box from p25 to p75, median, whiskers to p1 and p99, a tick at p90.

    The page makes the figure as high as it has rows.
    A part that is `open` runs, dashed, to the edge of the plot: its end is not known to be anywhere.
    """
    solid = [
        _part("box").mark_bar(size=_BOX_PX, clip=True, fillOpacity=0.3, strokeWidth=1.5, style="box"),
        _part("whisker").mark_rule(strokeWidth=1.5, clip=True, style="box"),
    ]
    whole = [chart.encode(x=_x("from_ms"), x2="to_ms:Q", y=_y()) for chart in solid]
    marks = [_tick("p1", 8), _tick("p99", 8), _tick("p90", _BOX_PX / 2), _tick("p50", _BOX_PX + 4, 3.5)]
    params = [alt.param(name="labels", value=[]), alt.param(name="low", value=0.1), alt.param(name="top", value=1)]
    return alt.layer(whole[0].add_params(*params, zoom()), *whole[1:], *_open(), *marks, _names(), _rows()).properties(
        width="container", height=BOX_ROW_PX
    )


def _open() -> list[alt.Chart]:
    """Draw open ends, dashed to the edge with an arrow there."""
    boxes = [
        _part("open-box")
        .mark_bar(size=_BOX_PX, clip=True, fillOpacity=0.12, strokeDash=[3, 3], style="box")
        .encode(x=_x("from_ms"), x2=_EDGES["end"], y=_y()),
        *(
            _part(f"open-{part}")
            .mark_rule(strokeWidth=1.5, strokeDash=[3, 3], clip=True, style="box")
            .encode(x=_x(known), x2=_EDGES[edge], y=_y())
            for part, known, edge in (("whisker", "from_ms", "end"), ("start", "to_ms", "start"))
        ),
    ]
    arrows = [
        named("parts")
        .transform_filter(alt.FieldOneOfPredicate(field="part", oneOf=parts))
        .mark_point(shape=shape, size=70, filled=True, opacity=1, dx=0, style="box-end")
        .encode(x=x, y=_y())
        for parts, shape, x in (
            (["open-box", "open-whisker"], "triangle-right", _ARROWS["end"]),
            (["open-start"], "triangle-left", _ARROWS["start"]),
        )
    ]
    return [*boxes, *arrows]


def _part(name: str) -> alt.Chart:
    chart: alt.Chart = named("parts").transform_filter(alt.FieldEqualPredicate(field="part", equal=name))
    return chart


def _tick(quantile: str, size_px: float, thickness_px: float = 1.5) -> alt.Chart:
    chart: alt.Chart = (
        named("boxes")
        .transform_filter(f"isValid(datum.{quantile}) && datum.{quantile} > 0")
        .mark_tick(size=size_px, thickness=thickness_px, orient="vertical", clip=True, opacity=1, style="box-end")
        .encode(x=_x(quantile), y=_y())
    )
    return chart


def _names() -> alt.Chart:
    """Draw the rows' names over their boxes: beside them, they would leave no room on a phone."""
    chart: alt.Chart = (
        named("boxes")
        .mark_text(align="left", baseline="middle", dy=_NAME_PX, fontSize=12, style="box-name")
        .encode(x=alt.value(0), y=_y(), text="caption:N")
    )
    return chart


def _x(field: str) -> alt.X:
    scale = alt.Scale(type="log", nice=False, domain=[LOW, TOP])
    return alt.X(f"{field}:Q", scale=scale, axis=time_axis("x"), title=_TITLE, stack=None)


def _y() -> alt.Y:
    return alt.Y("label:N", sort=None, scale=alt.Scale(domain=LABELS), axis=None)


def _rows() -> alt.Chart:
    """Show a row's numbers wherever the row is touched."""
    tooltip = [
        alt.Tooltip("label:N", title="window"),
        alt.Tooltip("n:Q", format=","),
        *[alt.Tooltip(f"{name}_words:N", title=name) for name in BOX_QUANTILES],
    ]
    return touch(across("boxes").encode(y=_y(), tooltip=tooltip), "label", shown=0.15, nearest=False)


def clock_curves() -> alt.LayerChart | alt.FacetChart:
    """Draw the clock check (Fig. 4) on a linear axis, since times after the acknowledgement may be negative."""
    scale = alt.Scale(domain=[LOW, TOP], nice=False, zero=False)
    x = alt.X("latency_ms:Q", scale=scale, axis=alt.Axis(tickCount=8), title="milliseconds")
    axis = alt.Axis(format=".0%", tickCount=5, minExtent=Y_EXTENT)
    y = alt.Y("probability:Q", title="share of events", scale=alt.Scale(domain=[0, 1]), axis=axis)
    color = alt.Color("series:N", title=None, scale=alt.Scale(domain=LABELS), legend=series_legend(symbolStrokeWidth=0))
    tooltip = [*tooltips({"curve:N": "trial", "latency_ms:Q": "ms"}), SHARE_WITHIN]
    points = touch_points("clocks", x, y, tooltip=tooltip)
    layers = alt.layer(distribution("clocks", x, y, color), *points, *_gap())
    return framed(layers, 260, labels=[], entry_px=100, low=0, top=1)


def _gap() -> list[alt.Chart]:
    at, scale = alt.X("at_ms:Q"), alt.Scale(domain=[0, 1])
    rule = named("gap").mark_rule(strokeWidth=2.5, clip=True, style="change")
    words = named("gap").mark_text(align="left", baseline="middle", dx=7, fontSize=12, clip=True, style="phase-name")
    return [
        rule.encode(
            x=at, y=alt.Y("low:Q", scale=scale), y2="high:Q", tooltip=[alt.Tooltip("words:N", title="distance")]
        ),
        words.encode(x=at, y=alt.Y("middle:Q", scale=scale), text="words:N"),
    ]


_BAR_PX = 12
_SHARE_NAME_PX = -13


def share_bars() -> alt.LayerChart | alt.FacetChart:
    """Draw one bar for each application and store (Fig. 2), with its interval; the page sets the height."""
    scale = alt.Scale(domain=[0, TOP], nice=False)
    x = alt.X("share:Q", scale=scale, axis=alt.Axis(format="~%", tickCount=6), title="trigger latency / execution time")
    y = alt.Y("row:N", sort=None, scale=alt.Scale(domain=LABELS), axis=None)
    titles = {"row:N": "application", "words:N": "share", "trigger:N": "triggers", "compute:N": "functions"}
    tooltip = tooltips(dict(titles))
    bars = named("shares").mark_bar(size=_BAR_PX, fillOpacity=0.35, strokeWidth=1.5, style="box").encode(x=x, y=y)
    intervals = (
        named("shares")
        .mark_rule(strokeWidth=3, style="box-end")
        .encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y)
    )
    names = (
        named("shares")
        .mark_text(align="left", baseline="middle", dy=_SHARE_NAME_PX, fontSize=12, style="box-name")
        .encode(x=alt.value(0), y=y, text="caption:N")
    )
    rows = touch(across("shares").encode(y=y, tooltip=tooltip), "row", shown=0.15, nearest=False)
    return framed(alt.layer(bars, intervals, names, rows), SHARE_ROW_PX, labels=[], top=1)

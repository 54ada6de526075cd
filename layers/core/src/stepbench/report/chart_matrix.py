"""A matrix of trials: one dimension as points with their intervals, two as a heat map."""

from __future__ import annotations

import altair as alt

from stepbench.report.chart_parts import LABELS, LATENCY, LOW, TOP, named, time_axis
from stepbench.report.matrix import ROW_PX

_ROWS = alt.ExprRef("rows")


def line_up() -> alt.LayerChart | alt.FacetChart:
    """p50 against one setting: every run with its interval, a line through the medians of the runs' medians."""
    scale = alt.Scale(type="log", nice=False, domain=[LOW, TOP])
    x = alt.X("value:N", sort=None, scale=alt.Scale(domain=LABELS), axis=_axis(), title=None)
    y = alt.Y("p50_ms:Q", scale=scale, axis=time_axis("y"), title=f"p50, {LATENCY}")
    offset = alt.XOffset("repeat:O", scale=alt.Scale(paddingOuter=1))
    tooltip = [
        alt.Tooltip("value:N", title="setting"),
        alt.Tooltip("trial:N"),
        alt.Tooltip("words:N", title="p50"),
    ]
    through = named("medians").mark_line(strokeWidth=1.5, opacity=0.6, clip=True).encode(x=x, y=y)
    bars = (
        named("runs")
        .transform_filter("isValid(datum.low_ms)")
        .mark_rule(strokeWidth=3, opacity=0.45, clip=True, style="box")
        .encode(x=x, xOffset=offset, y=alt.Y("low_ms:Q", scale=scale), y2="high_ms:Q", tooltip=tooltip)
    )
    dots = (
        named("runs")
        .mark_point(size=55, filled=True, opacity=1, clip=True, style="dot")
        .encode(x=x, xOffset=offset, y=y, tooltip=tooltip)
    )
    params = [alt.param(name="labels", value=[]), alt.param(name="low", value=0.1), alt.param(name="top", value=1)]
    return alt.layer(through, bars, dots).add_params(*params).properties(width="container", height=210)


def heat_map() -> alt.LayerChart | alt.FacetChart:
    """p50 against two settings, as colour and in words; a combination without a median says so in words."""
    x = alt.X("column:N", sort=None, scale=alt.Scale(domain=LABELS), axis=_axis(), title=None)
    y = alt.Y("row:N", sort=None, scale=alt.Scale(domain=_ROWS), axis=alt.Axis(labelLimit=90), title=None)
    color = alt.Color(
        "p50_ms:Q",
        title="p50 (ms)",
        scale=alt.Scale(type="log", scheme="viridis", domain=[LOW, TOP]),
        legend=None,
    )
    tooltip = [
        alt.Tooltip("column:N", title="across"),
        alt.Tooltip("row:N", title="down"),
        alt.Tooltip("words:N", title="p50"),
        alt.Tooltip("runs:Q"),
    ]
    tiles = (
        named("cells")
        .transform_filter("isValid(datum.p50_ms)")
        .mark_rect(stroke=None)
        .encode(x=x, y=y, color=color, tooltip=tooltip)
    )
    text = {"light": "#ffffff", "dark": "#000000"}
    written = [
        named("cells")
        .transform_filter(alt.FieldEqualPredicate(field="ink", equal=ink))
        .mark_text(fontSize=12, color=hue)
        .encode(x=x, y=y, text="words:N", tooltip=tooltip)
        for ink, hue in text.items()
    ]
    none = (
        named("cells")
        .transform_filter("!isValid(datum.p50_ms)")
        .mark_text(fontSize=11, style="phase-name")
        .encode(x=x, y=y, text="words:N", tooltip=tooltip)
    )
    params = [
        alt.param(name="labels", value=[]),
        alt.param(name="rows", value=[]),
        alt.param(name="low", value=0.1),
        alt.param(name="top", value=1),
    ]
    layers = alt.layer(tiles, *written, none).add_params(*params)
    return layers.properties(width="container", height=ROW_PX)


def _axis() -> alt.Axis:
    return alt.Axis(labelAngle=0, labelOverlap=True, labelLimit=90)

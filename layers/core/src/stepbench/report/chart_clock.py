"""The clock check as two distributions with their largest distance marked (Fig. 4 of the TriggerPerf paper)."""

from __future__ import annotations

import altair as alt

from stepbench.report.chart_parts import LABELS, LOW, TOP, Y_EXTENT, distribution, named


def clock_curves() -> alt.LayerChart | alt.FacetChart:
    """On a linear axis, since what is counted from the acknowledgement may be negative."""
    x = alt.X(
        "latency_ms:Q",
        scale=alt.Scale(domain=[LOW, TOP], nice=False, zero=False),
        axis=alt.Axis(tickCount=8),
        title="milliseconds",
    )
    axis = alt.Axis(format=".0%", tickCount=5, minExtent=Y_EXTENT)
    y = alt.Y("probability:Q", title="share of events", scale=alt.Scale(domain=[0, 1]), axis=axis)
    color = alt.Color("curve:N", title=None, scale=alt.Scale(domain=LABELS), legend=alt.Legend(symbolStrokeWidth=0))
    tooltip = [
        alt.Tooltip("curve:N", title="trial"),
        alt.Tooltip("latency_ms:Q", title="ms", format=",.4~r"),
        alt.Tooltip("probability:Q", title="share within", format=".1%"),
    ]
    curves = distribution("clocks", x, y, color)
    touch = (
        named("clocks")
        .mark_point(size=70, opacity=0, filled=True, clip=True)
        .encode(x=x, y=y, color=color, tooltip=tooltip)
    )
    layers = alt.layer(curves, touch, *_gap())
    params = [alt.param(name="labels", value=[]), alt.param(name="low", value=0), alt.param(name="top", value=1)]
    return layers.add_params(*params).properties(width="container", height=260)


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

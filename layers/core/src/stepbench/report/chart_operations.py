"""What only operations have: the percentile plot, and throughput over the number of clients."""

from __future__ import annotations

import altair as alt

from stepbench.report.chart_parts import (
    DASHES,
    FORMULA,
    LABELS,
    LATENCY,
    LOW,
    SHAPES,
    TOP,
    log_scale,
    named,
    rate_axis,
    time_axis,
)

_PERCENT_TEXT = (
    "datum.value <= 1 ? '0 %' : "
    "format(100 - 100 / datum.value, '.' + max(0, ceil(log(datum.value) / LN10 - 2.0001)) + 'f') + ' %'"
)
_POSITIONS = [1, 2, *[10**decades for decades in range(1, 8)]]
HIGH = alt.ExprRef("high")
_LINES = alt.Legend(symbolType="stroke", symbolSize=420, symbolStrokeWidth=2)
_MEASURED, _FITTED, _LEFT_OUT = "measured", "fitted law", "left out"


def percentile_plot() -> alt.LayerChart | alt.FacetChart:
    """
    Latency over the percentile, as HdrHistogram plots it: every further nine takes the same room.

    Source:
        HdrHistogram's plotFiles.html: x is 1 / (1 - q) on a logarithmic scale.
    """
    axis = alt.Axis(values=_POSITIONS, labelExpr=_PERCENT_TEXT, labelOverlap=True)
    x = alt.X("position:Q", title="percentile", scale=alt.Scale(type="log", nice=False), axis=axis)
    y = alt.Y("latency_ms:Q", scale=log_scale(), axis=time_axis("y"), title=f"{LATENCY}, {FORMULA}")
    color = alt.Color("curve:N", title=None, legend=_LINES, scale=alt.Scale(domain=LABELS))
    dash = alt.StrokeDash("curve:N", title=None, scale=alt.Scale(domain=LABELS, range=DASHES))
    tooltip = [
        alt.Tooltip("curve:N", title="trial"),
        alt.Tooltip("percent:N", title="percentile"),
        alt.Tooltip("latency_ms:Q", title="latency (ms)", format=",.4~r"),
    ]
    lines = named("percentiles").mark_line(strokeWidth=2, clip=True).encode(x=x, y=y, color=color, strokeDash=dash)
    touch = (
        named("percentiles")
        .mark_point(size=90, opacity=0, filled=True, clip=True)
        .encode(x=x, y=y, color=color, tooltip=tooltip)
    )
    layers = alt.layer(lines, touch).add_params(alt.param(name="labels", value=[]))
    return layers.properties(width="container", height=340)


def scaling_plot() -> alt.LayerChart | alt.FacetChart:
    """Operations a second over the number of clients: runs, the law fitted to them, its knee, the generator's limit."""
    x = alt.X(
        "clients:Q", title="clients", scale=alt.Scale(type="log", nice=False, domain=[LOW, HIGH]), axis=_client_axis()
    )
    top = alt.Scale(domain=[0, TOP], nice=False)
    y = alt.Y("per_s:Q", title="operations per second", scale=top, axis=rate_axis())
    tooltip = [
        alt.Tooltip("kind:N", title=" "),
        alt.Tooltip("clients:Q", format=",.3~r"),
        alt.Tooltip("per_s:Q", title="operations a second", format=",.4~r"),
    ]
    domain = [_MEASURED, _FITTED, _LEFT_OUT]
    color = alt.Color("kind:N", title=None, scale=alt.Scale(domain=domain), legend=alt.Legend(symbolStrokeWidth=2))
    shape = alt.Shape("kind:N", title=None, scale=alt.Scale(domain=domain, range=SHAPES[: len(domain)]))
    law = named("law").mark_line(strokeWidth=2, clip=True).encode(x=x, y=y, color=color, tooltip=tooltip)
    points = (
        named("points")
        .mark_point(size=70, filled=True, opacity=1, clip=True)
        .encode(x=x, y=y, color=color, shape=shape, tooltip=[*tooltip, alt.Tooltip("runs:N", title="runs in the fit")])
    )
    limit = (
        named("limit")
        .mark_rule(strokeWidth=1.5, strokeDash=[6, 3], clip=True)
        .encode(y=y, color=color, tooltip=alt.Tooltip("per_s:Q", title="generator's limit, a second", format=",.4~r"))
    )
    knee = named("knee").mark_rule(strokeWidth=1.5, strokeDash=[2, 3], clip=True, style="change").encode(x=x)
    name = (
        named("knee")
        .mark_text(align="right", baseline="top", dx=-5, dy=4, fontSize=12, clip=True, style="window-name")
        .encode(x=x, y=alt.value(0), text="words:N")
    )
    layers = alt.layer(law, limit, knee, points, name).add_params(
        *[alt.param(name=name, value=value) for name, value in (("low", 1), ("high", 10), ("top", 1))]
    )
    return layers.properties(width="container", height=240)


def _client_axis() -> alt.Axis:
    digit = "round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))"
    shown = f"indexof([1, 2, 5], {digit}) >= 0 ? format(datum.value, ',~g') : ''"
    return alt.Axis(labelExpr=shown, labelOverlap=True)

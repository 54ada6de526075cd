"""Shares of an application's time as bars (Fig. 2 of the TriggerPerf paper)."""

from __future__ import annotations

import altair as alt

from stepbench.report.chart_parts import LABELS, TOP, named
from stepbench.report.shares import ROW_PX

_BAR_PX = 12
_NAME_PX = -13


def share_bars() -> alt.LayerChart | alt.FacetChart:
    """One bar an application and store, with its interval; the page makes the figure as high as it has rows."""
    scale = alt.Scale(domain=[0, TOP], nice=False)
    x = alt.X("share:Q", scale=scale, axis=alt.Axis(format="~%", tickCount=6), title="trigger latency / execution time")
    y = alt.Y("row:N", sort=None, scale=alt.Scale(domain=LABELS), axis=None)
    tooltip = [
        alt.Tooltip("row:N", title="application"),
        alt.Tooltip("words:N", title="share"),
        alt.Tooltip("trigger:N", title="triggers"),
        alt.Tooltip("compute:N", title="functions"),
    ]
    bars = (
        named("shares")
        .mark_bar(size=_BAR_PX, fillOpacity=0.35, strokeWidth=1.5, style="box")
        .encode(x=x, y=y, tooltip=tooltip)
    )
    intervals = (
        named("shares")
        .mark_rule(strokeWidth=3, style="box-end")
        .encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y, tooltip=tooltip)
    )
    names = (
        named("shares")
        .mark_text(align="left", baseline="middle", dy=_NAME_PX, fontSize=12, style="box-name")
        .encode(x=alt.value(0), y=y, text="caption:N")
    )
    params = [alt.param(name="labels", value=[]), alt.param(name="top", value=1)]
    return alt.layer(bars, intervals, names).add_params(*params).properties(width="container", height=ROW_PX)

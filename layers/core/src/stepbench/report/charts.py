"""
The figures as declarative specifications, written with Altair.

The data are named, not inlined, so the specifications are constants: `charts.json`, which the package ships, holds
what `python -m stepbench.report.charts` prints, and a test keeps it current. Rendering a report therefore needs
no Altair. Colours, fonts and widths are the page's business (`templates/page.js`): it knows light, dark and narrow.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import altair as alt

_MS_TEXT = (
    "abs(datum.value) >= 1000 ? format(datum.value / 1000, '~g') + ' s' : "
    "abs(datum.value) < 1 ? format(datum.value * 1000, '~g') + ' µs' : format(datum.value, '~g') + ' ms'"
)
_LEADING_DIGIT = "round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))"
_DECADES = "log(domain('{scale}')[1] / domain('{scale}')[0]) / LN10"
_Y_EXTENT = 52
"""All plots begin at the same place, so that those of one trial stand over each other."""
_DASHES = [[1, 0], [6, 3], [2, 2], [9, 3, 2, 3], [4, 1]]
_WIDTHS = [3.2, 2.2, 1.4]
"""The first lies widest and lowest: lines that coincide stay visible."""
_SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"]
_WHEEL = "wheel![event.ctrlKey || event.metaKey]"
"""Zoom with a modifier only: a page has to scroll under the pointer."""
_MOUSE_DRAG = "[pointerdown[event.pointerType !== 'touch'], window:pointerup] > window:pointermove!"
_LABELS = alt.ExprRef("labels")
"""The curves' names, in order: one domain for colours and shapes, or their legends would not merge."""
_TIMES = ["p50", "p90", "max"]
_RATES = ["offered", "acknowledged", "arrived"]


def charts() -> dict[str, dict[str, Any]]:
    """All specifications by name; each names its data sets (`curves`, `quantiles`, `seconds`, `phases`)."""
    made = {"ecdf": _ecdf(), "latency": _latency(), "rates": _rates()}
    return {name: chart.to_dict() for name, chart in made.items()}


def _zoom() -> alt.Parameter:
    return alt.selection_interval(name="zoom", bind="scales", encodings=["x"], zoom=_WHEEL, translate=_MOUSE_DRAG)


def _ecdf() -> alt.LayerChart | alt.FacetChart:
    """Overlaid distributions with a log axis (Fig. 5 of the TriggerPerf paper), quantiles and their intervals."""
    x = alt.X("latency_ms:Q", scale=_log(), axis=_time_axis("x"), title="trigger latency, t4 − t1 (log scale)")  # noqa: RUF001 -- minus
    y = alt.Y("probability:Q", title="share of events", scale=alt.Scale(domain=[0, 1]), axis=_share_axis())
    pick = alt.selection_point(name="pick", fields=["curve"], bind="legend")
    shade = alt.condition(pick, alt.value(1.0), alt.value(0.15))
    legend = alt.Legend(symbolStrokeWidth=0)
    color = alt.Color("curve:N", title=None, legend=legend, scale=alt.Scale(domain=_LABELS))
    lines = (
        alt.Chart(alt.NamedData(name="curves"))
        .mark_line(interpolate="step-after", strokeWidth=2, clip=True)
        .encode(
            x=x,
            y=y,
            color=color,
            strokeDash=alt.StrokeDash("curve:N", title=None, scale=alt.Scale(domain=_LABELS, range=_DASHES)),
            opacity=shade,
        )
        .add_params(pick, _zoom())
    )
    touch = (
        alt.Chart(alt.NamedData(name="curves"))
        .mark_point(size=90, opacity=0, filled=True, clip=True)
        .encode(x=x, y=y, color=color, tooltip=_ecdf_tooltip())
    )
    layers = alt.layer(lines, touch, _intervals(y, color, shade), _quantiles(x, y, color, shade))
    return layers.add_params(alt.param(name="labels", value=[])).properties(width="container", height=340)


def _ecdf_tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("curve:N", title="store"),
        alt.Tooltip("latency_ms:Q", title="latency (ms)", format=",.4~r"),
        alt.Tooltip("probability:Q", title="share within", format=".1%"),
    ]


def _intervals(y: alt.Y, color: alt.Color, shade: Any) -> alt.Chart:  # noqa: ANN401 -- an Altair condition
    """A bar from end to end of a quantile's 95 % interval."""
    chart: alt.Chart = (
        alt.Chart(alt.NamedData(name="quantiles"))
        .mark_rule(strokeWidth=4, strokeOpacity=0.4, clip=True)
        .encode(x=alt.X("low_ms:Q", scale=_log()), x2="high_ms:Q", y=y, color=color, opacity=shade)
        .transform_filter("isValid(datum.low_ms)")
    )
    return chart


def _quantiles(x: alt.X, y: alt.Y, color: alt.Color, shade: Any) -> alt.Chart:  # noqa: ANN401 -- an Altair condition
    tooltip = [
        alt.Tooltip("curve:N", title="store"),
        alt.Tooltip("quantile:N", title="quantile"),
        alt.Tooltip("latency_ms:Q", title="latency (ms)", format=",.4~r"),
        alt.Tooltip("low_ms:Q", title="95 % from (ms)", format=",.4~r"),
        alt.Tooltip("high_ms:Q", title="95 % to (ms)", format=",.4~r"),
    ]
    shape = alt.Shape("curve:N", title=None, scale=alt.Scale(domain=_LABELS, range=_SHAPES))
    chart: alt.Chart = (
        alt.Chart(alt.NamedData(name="quantiles"))
        .mark_point(size=55, filled=True, opacity=1, clip=True)
        .encode(x=x, y=y, color=color, shape=shape, opacity=shade, tooltip=tooltip)
    )
    return chart


def _latency() -> alt.LayerChart | alt.FacetChart:
    """One trial's p50, p90 and maximum of each second over its phases."""
    y = {name: alt.Y(f"{name}_ms:Q", scale=_log(18), axis=_time_axis("y"), title="trigger latency") for name in _TIMES}
    return alt.layer(_bands(), _band_names(), *_lines(y), _touch()).properties(width="container", height=200)


def _rates() -> alt.LayerChart | alt.FacetChart:
    """One trial's offered, acknowledged and arrived events per second over its phases."""
    axis = alt.Axis(format=",~r", tickCount=4, minExtent=_Y_EXTENT)
    scale = alt.Scale(domainMin=0, domainMax=alt.ExprRef("top"), nice=False)
    y = {name: alt.Y(f"{name}:Q", axis=axis, title="events per second", scale=scale) for name in _RATES}
    layers = alt.layer(_bands(), _band_names(), *_lines(y), _touch())
    return layers.add_params(alt.param(name="top", value=1)).properties(width="container", height=140)


def _lines(measures: dict[str, alt.Y]) -> list[alt.Chart]:
    """One line a measure; its points are marked, since a lone one between gaps makes no line."""
    names = list(measures)
    legend = alt.Legend(symbolType="stroke", symbolSize=420, symbolStrokeWidth=2)
    color, dash = alt.Scale(domain=names), alt.Scale(domain=names, range=_DASHES[: len(names)])
    lines = [
        alt.Chart(alt.NamedData(name="seconds"))
        .transform_calculate(series=f"'{name}'")
        .mark_line(strokeWidth=width, clip=True, point=alt.OverlayMarkDef(size=9, filled=True))
        .encode(
            x=_seconds("second"),
            y=y,
            color=alt.Color("series:N", scale=color, title=None, legend=legend),
            strokeDash=alt.StrokeDash("series:N", scale=dash, title=None),
        )
        for (name, y), width in zip(measures.items(), _WIDTHS, strict=True)
    ]
    return [lines[0].add_params(_zoom()), *lines[1:]]


def _touch() -> alt.Chart:
    """What the pointer finds: all numbers of the second."""
    numbers = [*_RATES, *[f"{name}_ms" for name in _TIMES]]
    tooltip = [
        alt.Tooltip("second:Q", title="second", format=","),
        alt.Tooltip("phase:N", title="phase"),
        *[alt.Tooltip(f"{name}:Q", title=name.replace("_ms", " (ms)"), format=",.4~r") for name in numbers],
    ]
    chart: alt.Chart = (
        alt.Chart(alt.NamedData(name="seconds"))
        .mark_rule(opacity=0, strokeWidth=8, clip=True)
        .encode(x=_seconds("second"), tooltip=tooltip)
    )
    return chart


def _seconds(field: str) -> alt.X:
    axis = alt.Axis(tickCount=12, tickMinStep=1)
    return alt.X(f"{field}:Q", title="seconds since the first intended send", scale=alt.Scale(nice=False), axis=axis)


def _bands() -> alt.Chart:
    """The phases as backgrounds: darker where nothing counts."""
    chart: alt.Chart = (
        alt.Chart(alt.NamedData(name="phases"))
        .mark_rect(clip=True, color="#808a94")
        .encode(
            x=_seconds("from_s"),
            x2="to_s:Q",
            opacity=alt.Opacity(
                "kind:O", legend=None, scale=alt.Scale(domain=["measured", "not measured"], range=[0.07, 0.24])
            ),
            tooltip=[
                alt.Tooltip("phase:N"),
                alt.Tooltip("kind:N", title=" "),
                alt.Tooltip("from_s:Q", title="from (s)", format=",.4~r"),
                alt.Tooltip("to_s:Q", title="to (s)", format=",.4~r"),
            ],
        )
    )
    return chart


def _band_names() -> alt.Chart:
    chart: alt.Chart = (
        alt.Chart(alt.NamedData(name="phases"))
        .mark_text(align="left", baseline="top", dx=4, dy=3, fontSize=11, clip=True, style="phase-name")
        .encode(x=_seconds("from_s"), y=alt.value(0), text=alt.Text("caption:N"))
        .transform_calculate(caption="datum.phase + (datum.kind === 'measured' ? '' : ' (not measured)')")
    )
    return chart


def _log(padding_px: int = 8) -> alt.Scale:
    return alt.Scale(type="log", nice=False, padding=padding_px)


def _time_axis(scale: str) -> alt.Axis:
    """Ticks of a log axis with their units; the wider it spans, the fewer of 1, 2, 3 … 9 get a label."""
    decades = _DECADES.format(scale=scale)
    shown = f"{decades} > 2.5 ? {_LEADING_DIGIT} === 1 : {decades} < 0.7 || indexof([1, 2, 5], {_LEADING_DIGIT}) >= 0"
    return alt.Axis(
        labelExpr=f"({shown}) ? ({_MS_TEXT}) : ''", labelOverlap=True, minExtent=_Y_EXTENT if scale == "y" else 0
    )


def _share_axis() -> alt.Axis:
    return alt.Axis(values=[0, 0.25, 0.5, 0.75, 0.9, 1], format=".0%", minExtent=_Y_EXTENT)


if __name__ == "__main__":
    json.dump(charts(), sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")

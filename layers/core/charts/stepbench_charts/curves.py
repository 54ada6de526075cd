"""Charts of curves and points: distributions, percentiles, scaling, and what a matrix of trials varies."""

from __future__ import annotations

from typing import Any

import altair as alt

from stepbench.report import MATRIX_ROW_PX
from stepbench_charts import (
    DASHES,
    FORMULA,
    HIGH,
    JUDGED,
    LABELS,
    LATENCY,
    LEADING_DIGIT,
    LOW,
    SHADE,
    SHAPES,
    SHARE_WITHIN,
    TOP,
    Y_EXTENT,
    Figure,
    distribution,
    framed,
    linear,
    log_between,
    log_scale,
    named,
    named_curves,
    rate_axis,
    ring,
    run_dash,
    series_color,
    series_shape,
    time_axis,
    tooltips,
    touch,
    touch_points,
    zoom,
)

_PERCENT_TEXT = (
    "datum.value <= 1 ? '0 %' : "
    "format(100 - 100 / datum.value, '.' + max(0, ceil(log(datum.value) / LN10 - 2.0001)) + 'f') + ' %'"
)
_POSITIONS = [1, 2, *[10**decades for decades in range(1, 8)]]
SETTINGS: dict[str, Any] = {"sort": None, "title": None}
"""Values of a setting are in the page's order."""
_KINDS = ["measured", "fitted law", "left out"]


def distributions() -> Figure:
    """Overlay distributions on a log axis (Fig. 5 of the TriggerPerf paper), with quantiles and their intervals."""
    x = alt.X("latency_ms:Q", scale=log_scale(), axis=time_axis("x"), title=f"{LATENCY}, {FORMULA} (log scale)")
    y = _shares(alt.Axis(values=[0, 0.25, 0.5, 0.75, 0.9, 1], format=".0%", minExtent=Y_EXTENT))
    pick = alt.selection_point(name="pick", fields=["series"], bind="legend")
    shade = alt.condition(pick, alt.value(1.0), alt.value(0.15))
    color = series_color(symbolStrokeWidth=0)
    lines = distribution("curves", x, y, color).encode(opacity=shade).add_params(pick, zoom())
    tooltip = tooltips({"curve:N": "trial", "latency_ms:Q": "latency (ms)"})
    points = touch_points("curves", x, y, tooltip=[*tooltip, SHARE_WITHIN])
    layers = alt.layer(lines, *points, _intervals(y, color, shade), _quantiles(x, y, color, shade))
    return framed(layers, 340, labels=[], entry_px=100)


def _shares(axis: alt.Axis) -> alt.Y:
    return alt.Y("probability:Q", title="share of events", scale=alt.Scale(domain=[0, 1]), axis=axis)


def _intervals(y: alt.Y, color: alt.Color, shade: Any) -> alt.Chart:  # noqa: ANN401 -- an Altair condition
    """Draw a bar from end to end of a quantile's 95 % interval."""
    x = alt.X("low_ms:Q", scale=log_scale())
    rule = named_curves("quantiles").mark_rule(strokeWidth=4, strokeOpacity=0.4, clip=True)
    bars = rule.encode(x=x, x2="high_ms:Q", y=y, color=color, opacity=shade)
    chart: alt.Chart = bars.transform_filter("isValid(datum.low_ms)")
    return chart


def _quantiles(x: alt.X, y: alt.Y, color: alt.Color, shade: Any) -> alt.Chart:  # noqa: ANN401 -- an Altair condition
    tooltip = tooltips({"curve:N": "trial", "quantile:N": "quantile", "latency_ms:Q": "latency (ms)"})
    tooltip += tooltips({"low_ms:Q": "95 % from (ms)", "high_ms:Q": "95 % to (ms)"})
    points = named_curves("quantiles").mark_point(size=55, filled=True, opacity=1, clip=True)
    chart: alt.Chart = points.encode(x=x, y=y, color=color, shape=series_shape(), opacity=shade, tooltip=tooltip)
    return chart


def clocks() -> Figure:
    """Draw the clock check (Fig. 4) on a linear axis, since times after the acknowledgement may be negative."""
    scale = alt.Scale(domain=[LOW, TOP], nice=False, zero=False)
    x = alt.X("latency_ms:Q", scale=scale, axis=alt.Axis(tickCount=8), title="milliseconds")
    y = _shares(alt.Axis(format=".0%", tickCount=5, minExtent=Y_EXTENT))
    tooltip = [*tooltips({"curve:N": "trial", "latency_ms:Q": "ms"}), SHARE_WITHIN]
    points = touch_points("clocks", x, y, tooltip=tooltip)
    lines = distribution("clocks", x, y, series_color(symbolStrokeWidth=0))
    return framed(alt.layer(lines, *points, *_gap()), 260, labels=[], entry_px=100, low=0, top=1)


def _gap() -> list[alt.Chart]:
    at, scale = alt.X("at_ms:Q"), alt.Scale(domain=[0, 1])
    rule = named("gap").mark_rule(strokeWidth=2.5, clip=True, style="change")
    words = named("gap").mark_text(align="left", baseline="middle", dx=7, fontSize=12, clip=True, style="phase-name")
    tooltip = tooltips({"words:N": "distance"})
    return [
        rule.encode(x=at, y=alt.Y("low:Q", scale=scale), y2="high:Q", tooltip=tooltip),
        words.encode(x=at, y=alt.Y("middle:Q", scale=scale), text="words:N"),
    ]


def percentiles(*, repeated: bool = False) -> Figure:
    """
    Draw latency over the percentile, as HdrHistogram does: every further nine takes the same room.

    `repeated`: the dash is that of the run; otherwise it is that of the series, as in the legend.

    Source:
        HdrHistogram's plotFiles.html: x is 1 / (1 - q) on a logarithmic scale.
    """
    axis = alt.Axis(values=_POSITIONS, labelExpr=_PERCENT_TEXT, labelOverlap=True)
    x = alt.X("position:Q", title="percentile", scale=alt.Scale(type="log", nice=False), axis=axis)
    y = alt.Y("latency_ms:Q", scale=log_scale(), axis=time_axis("y"), title=f"{LATENCY}, {FORMULA}")
    color = series_color(symbolType="stroke", symbolSize=420, symbolStrokeWidth=2)
    of_series = alt.StrokeDash("series:N", title=None, scale=alt.Scale(domain=LABELS, range=DASHES))
    dash = run_dash() if repeated else of_series
    tooltip = tooltips({"curve:N": "trial", "percent:N": "percentile", "latency_ms:Q": "latency (ms)"})
    line = named_curves("percentiles").mark_line(strokeWidth=2, clip=True)
    lines = line.encode(x=x, y=y, color=color, strokeDash=dash, detail="curve:N")
    return framed(alt.layer(lines, *touch_points("percentiles", x, y, tooltip=tooltip)), 340, labels=[], entry_px=100)


def scaling() -> Figure:
    """Draw operations a second over the number of clients: runs, fitted law, knee, the generator's limit."""
    shown = f"indexof([1, 2, 5], {LEADING_DIGIT}) >= 0 ? format(datum.value, ',~g') : ''"
    x = alt.X("clients:Q", title="clients", scale=log_between(HIGH), axis=alt.Axis(labelExpr=shown, labelOverlap=True))
    y = alt.Y("per_s:Q", title="operations per second", scale=linear(), axis=rate_axis())
    clients = alt.Tooltip("clients:Q", format=",.3~r")
    tooltip = [*tooltips({"kind:N": " "}), clients, *tooltips({"per_s:Q": "operations a second"})]
    legend = alt.Legend(symbolStrokeWidth=2)
    color = alt.Color("kind:N", title=None, scale=alt.Scale(domain=_KINDS), legend=legend)
    shape = alt.Shape("kind:N", title=None, scale=alt.Scale(domain=_KINDS, range=SHAPES[: len(_KINDS)]))
    law = named("law").mark_line(strokeWidth=2, clip=True).encode(x=x, y=y, color=color)
    touched = touch_points("points", x, y, tooltip=[*tooltip, alt.Tooltip("runs:N", title="runs in the fit")])
    points = named("points").mark_point(size=70, filled=True, opacity=1, clip=True)
    of_limit = tooltips({"per_s:Q": "generator's limit, a second"})[0]
    limit = named("limit").mark_rule(strokeWidth=1.5, strokeDash=[6, 3], clip=True)
    knee = named("knee").mark_rule(strokeWidth=1.5, strokeDash=[2, 3], clip=True, style="change").encode(x=x)
    name = named("knee").mark_text(
        align="right", baseline="top", dx=-5, dy=4, fontSize=12, clip=True, style="window-name"
    )
    layers = alt.layer(
        law,
        knee,
        points.encode(x=x, y=y, color=color, shape=shape),
        *touched,
        limit.encode(y=y, color=color, tooltip=of_limit),
        name.encode(x=x, y=alt.value(0), text="words:N"),
    )
    return framed(layers, 240, low=1, high=10, top=1)


def line_up(scale: alt.Scale, axis: alt.Axis) -> Figure:
    """Draw what is judged against one setting: every run with its interval, a line through the means of the runs."""
    x = alt.X("value:N", **SETTINGS, scale=alt.Scale(domain=LABELS), axis=setting_axis())
    y = alt.Y("judged:Q", scale=scale, axis=axis, title=JUDGED)
    offset = alt.XOffset("repeat:O", scale=alt.Scale(paddingOuter=1))
    tooltip = tooltips({"value:N": "setting", "trial:N": None, "words:N": JUDGED})
    through = named("means").mark_line(strokeWidth=1.5, opacity=0.6, clip=True).encode(x=x, y=y)
    bars = (
        named("runs")
        .transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=3, opacity=0.45, clip=True, style="box")
        .encode(x=x, xOffset=offset, y=alt.Y("low:Q", scale=scale), y2="high:Q")
    )
    dots = named("runs").mark_point(size=55, filled=True, opacity=1, clip=True, style="dot")
    touched = touch(ring("runs").encode(x=x, xOffset=offset, y=y, tooltip=tooltip), "value", "trial", shown=1)
    layers = alt.layer(through, bars, dots.encode(x=x, xOffset=offset, y=y), touched)
    return framed(layers, 210, labels=[], low=0.1, top=1)


def heat_map() -> Figure:
    """Draw what is judged against two settings, as colour and as text; one without a value has text only."""
    x = alt.X("column:N", **SETTINGS, scale=alt.Scale(domain=LABELS), axis=setting_axis())
    rows = alt.Scale(domain=alt.ExprRef("rows"))
    y = alt.Y("row:N", **SETTINGS, scale=rows, axis=alt.Axis(labelLimit=90))
    scale = alt.Scale(type="log", scheme="viridis", domain=[LOW, TOP])
    color = alt.Color("judged:Q", title=JUDGED, scale=scale, legend=None)
    tooltip = [*tooltips({"column:N": "across", "row:N": "down", "words:N": JUDGED}), alt.Tooltip("runs:Q")]
    tiles = named("cells").transform_filter("isValid(datum.judged)").mark_rect(stroke=None)
    written = [
        named("cells")
        .transform_filter(alt.FieldEqualPredicate(field="ink", equal=ink))
        .mark_text(fontSize=12, color=color_code)
        for ink, color_code in (("light", "#ffffff"), ("dark", "#000000"))
    ]
    none = named("cells").transform_filter("!isValid(datum.judged)").mark_text(fontSize=11, style="phase-name")
    cells = named("cells").mark_rect(color=SHADE).encode(x=x, y=y, tooltip=tooltip)
    touched = touch(cells, "column", "row", shown=0.4, nearest=False)
    texts = [each.encode(x=x, y=y, text="words:N") for each in (*written, none)]
    layers = alt.layer(tiles.encode(x=x, y=y, color=color), touched, *texts)
    return framed(layers, MATRIX_ROW_PX, labels=[], rows=[], low=0.1, top=1)


def setting_axis() -> alt.Axis:
    """Return the axis of a setting's values."""
    return alt.Axis(labelAngle=0, labelOverlap=True, labelLimit=90)

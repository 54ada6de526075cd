"""Charts of operations and of matrices: percentiles, scaling, line-ups and heat maps."""

from __future__ import annotations

import altair as alt

from stepbench.report import MATRIX_ROW_PX
from stepbench_charts.parts import (
    DASHES,
    FORMULA,
    LABELS,
    LATENCY,
    LOW,
    SHADE,
    SHAPES,
    TOP,
    framed,
    log_scale,
    named,
    named_curves,
    rate_axis,
    ring,
    run_dash,
    series_legend,
    time_axis,
    tooltips,
    touch,
    touch_points,
)

_PERCENT_TEXT = (
    "datum.value <= 1 ? '0 %' : "
    "format(100 - 100 / datum.value, '.' + max(0, ceil(log(datum.value) / LN10 - 2.0001)) + 'f') + ' %'"
)
_POSITIONS = [1, 2, *[10**decades for decades in range(1, 8)]]
HIGH = alt.ExprRef("high")
_MEASURED, _FITTED, _LEFT_OUT = "measured", "fitted law", "left out"


def percentile_plot(*, repeated: bool = False) -> alt.LayerChart | alt.FacetChart:
    """
    Draw latency over the percentile, as HdrHistogram does: every further nine takes the same room.

    `repeated`: the dash is that of the run; otherwise it is that of the series, as in the legend.

    Source:
        HdrHistogram's plotFiles.html: x is 1 / (1 - q) on a logarithmic scale.
    """
    axis = alt.Axis(values=_POSITIONS, labelExpr=_PERCENT_TEXT, labelOverlap=True)
    x = alt.X("position:Q", title="percentile", scale=alt.Scale(type="log", nice=False), axis=axis)
    y = alt.Y("latency_ms:Q", scale=log_scale(), axis=time_axis("y"), title=f"{LATENCY}, {FORMULA}")
    color = alt.Color(
        "series:N",
        title=None,
        legend=series_legend(symbolType="stroke", symbolSize=420, symbolStrokeWidth=2),
        scale=alt.Scale(domain=LABELS),
    )
    of_series = alt.StrokeDash("series:N", title=None, scale=alt.Scale(domain=LABELS, range=DASHES))
    dash = run_dash() if repeated else of_series
    tooltip = tooltips({"curve:N": "trial", "percent:N": "percentile", "latency_ms:Q": "latency (ms)"})
    line = named_curves("percentiles").mark_line(strokeWidth=2, clip=True)
    lines = line.encode(x=x, y=y, color=color, strokeDash=dash, detail="curve:N")
    return framed(alt.layer(lines, *touch_points("percentiles", x, y, tooltip=tooltip)), 340, labels=[], entry_px=100)


def scaling_plot() -> alt.LayerChart | alt.FacetChart:
    """Draw operations a second over the number of clients: runs, fitted law, knee, the generator's limit."""
    x = alt.X(
        "clients:Q", title="clients", scale=alt.Scale(type="log", nice=False, domain=[LOW, HIGH]), axis=_client_axis()
    )
    top = alt.Scale(domain=[0, TOP], nice=False)
    y = alt.Y("per_s:Q", title="operations per second", scale=top, axis=rate_axis())
    clients = alt.Tooltip("clients:Q", format=",.3~r")
    tooltip = [*tooltips({"kind:N": " "}), clients, *tooltips({"per_s:Q": "operations a second"})]
    domain = [_MEASURED, _FITTED, _LEFT_OUT]
    color = alt.Color("kind:N", title=None, scale=alt.Scale(domain=domain), legend=alt.Legend(symbolStrokeWidth=2))
    shape = alt.Shape("kind:N", title=None, scale=alt.Scale(domain=domain, range=SHAPES[: len(domain)]))
    law = named("law").mark_line(strokeWidth=2, clip=True).encode(x=x, y=y, color=color)
    touched = touch_points("points", x, y, tooltip=[*tooltip, alt.Tooltip("runs:N", title="runs in the fit")])
    points = (
        named("points")
        .mark_point(size=70, filled=True, opacity=1, clip=True)
        .encode(x=x, y=y, color=color, shape=shape)
    )
    limit = (
        named("limit")
        .mark_rule(strokeWidth=1.5, strokeDash=[6, 3], clip=True)
        .encode(y=y, color=color, tooltip=tooltips({"per_s:Q": "generator's limit, a second"})[0])
    )
    knee = named("knee").mark_rule(strokeWidth=1.5, strokeDash=[2, 3], clip=True, style="change").encode(x=x)
    name = (
        named("knee")
        .mark_text(align="right", baseline="top", dx=-5, dy=4, fontSize=12, clip=True, style="window-name")
        .encode(x=x, y=alt.value(0), text="words:N")
    )
    return framed(alt.layer(law, knee, points, *touched, limit, name), 240, low=1, high=10, top=1)


def _client_axis() -> alt.Axis:
    digit = "round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))"
    shown = f"indexof([1, 2, 5], {digit}) >= 0 ? format(datum.value, ',~g') : ''"
    return alt.Axis(labelExpr=shown, labelOverlap=True)


_ROWS = alt.ExprRef("rows")


def line_up() -> alt.LayerChart | alt.FacetChart:
    """Draw p50 against one setting: every run with its interval, a line through the means of the runs' medians."""
    scale = alt.Scale(type="log", nice=False, domain=[LOW, TOP])
    x = alt.X("value:N", sort=None, scale=alt.Scale(domain=LABELS), axis=_axis(), title=None)
    y = alt.Y("p50_ms:Q", scale=scale, axis=time_axis("y"), title=f"p50, {LATENCY}")
    offset = alt.XOffset("repeat:O", scale=alt.Scale(paddingOuter=1))
    tooltip = tooltips({"value:N": "setting", "trial:N": None, "words:N": "p50"})
    through = named("means").mark_line(strokeWidth=1.5, opacity=0.6, clip=True).encode(x=x, y=y)
    bars = (
        named("runs")
        .transform_filter("isValid(datum.low_ms)")
        .mark_rule(strokeWidth=3, opacity=0.45, clip=True, style="box")
        .encode(x=x, xOffset=offset, y=alt.Y("low_ms:Q", scale=scale), y2="high_ms:Q")
    )
    dots = (
        named("runs")
        .mark_point(size=55, filled=True, opacity=1, clip=True, style="dot")
        .encode(x=x, xOffset=offset, y=y)
    )
    touched = touch(ring("runs").encode(x=x, xOffset=offset, y=y, tooltip=tooltip), "value", "trial", shown=1)
    return framed(alt.layer(through, bars, dots, touched), 210, labels=[], low=0.1, top=1)


def heat_map() -> alt.LayerChart | alt.FacetChart:
    """Draw p50 against two settings, as colour and as text; a combination without a median has text only."""
    x = alt.X("column:N", sort=None, scale=alt.Scale(domain=LABELS), axis=_axis(), title=None)
    y = alt.Y("row:N", sort=None, scale=alt.Scale(domain=_ROWS), axis=alt.Axis(labelLimit=90), title=None)
    scale = alt.Scale(type="log", scheme="viridis", domain=[LOW, TOP])
    color = alt.Color("p50_ms:Q", title="p50 (ms)", scale=scale, legend=None)
    tooltip = [*tooltips({"column:N": "across", "row:N": "down", "words:N": "p50"}), alt.Tooltip("runs:Q")]
    tiles = (
        named("cells").transform_filter("isValid(datum.p50_ms)").mark_rect(stroke=None).encode(x=x, y=y, color=color)
    )
    text = {"light": "#ffffff", "dark": "#000000"}
    written = [
        named("cells")
        .transform_filter(alt.FieldEqualPredicate(field="ink", equal=ink))
        .mark_text(fontSize=12, color=hue)
        .encode(x=x, y=y, text="words:N")
        for ink, hue in text.items()
    ]
    none = (
        named("cells")
        .transform_filter("!isValid(datum.p50_ms)")
        .mark_text(fontSize=11, style="phase-name")
        .encode(x=x, y=y, text="words:N")
    )
    cells = named("cells").mark_rect(color=SHADE).encode(x=x, y=y, tooltip=tooltip)
    touched = touch(cells, "column", "row", shown=0.4, nearest=False)
    return framed(alt.layer(tiles, touched, *written, none), MATRIX_ROW_PX, labels=[], rows=[], low=0.1, top=1)


def _axis() -> alt.Axis:
    return alt.Axis(labelAngle=0, labelOverlap=True, labelLimit=90)

"""Charts of a function's settings: two versions side by side, and memory against latency and cost."""

from __future__ import annotations

import altair as alt

from stepbench.report import SIDES_ROW_PX
from stepbench_charts import (
    HIGH,
    JUDGED,
    LABELS,
    LOW,
    SHADE,
    SHAPES,
    TOP,
    Figure,
    framed,
    linear,
    log_between,
    named,
    series_color,
    series_shape,
    time_axis,
    tooltips,
    touch,
)
from stepbench_charts.curves import SETTINGS, setting_axis

_NAME_PX, _SIDES_PX = 12, [29, 45]
"""Places within a row: of its words, and of the two sides."""
_COST = "cost"


def sides() -> Figure:
    """
    Draw a row for each quantile: of each side the mean over the runs with its interval, and the single runs.

    The page makes the figure as high as it has rows, and ends its axis.
    """
    scale = alt.Scale(type="log", nice=False, domain=[LOW, TOP])
    x = alt.X("judged:Q", scale=scale, axis=time_axis("x"), title=f"{JUDGED} (log scale)")
    y = alt.Y("row:N", sort=None, scale=alt.Scale(domain=alt.ExprRef("rows")), axis=None)
    offset = alt.YOffset("series:N", sort=None, scale=alt.Scale(range=_SIDES_PX))
    color = series_color()
    bars = (
        named("marks")
        .transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=5, opacity=0.45, clip=True)
        .encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y, yOffset=offset, color=color)
    )
    runs = named("runs").mark_point(size=14, filled=True, opacity=0.45, clip=True)
    means = named("marks").mark_point(size=75, filled=True, opacity=1, clip=True)
    text = named("rows").mark_text(align="left", baseline="middle", fontSize=12, style="box-name")
    whole = named("rows").mark_rect(color=SHADE)
    tooltip = tooltips({"caption:N": " ", "first:N": "first", "second:N": "second"})
    touched = whole.encode(x=alt.value(0), x2=alt.value("width"), y=y, tooltip=tooltip)
    layers = alt.layer(
        bars,
        runs.encode(x=x, y=y, yOffset=offset, color=color),
        means.encode(x=x, y=y, yOffset=offset, color=color, shape=series_shape()),
        text.encode(x=alt.value(0), y=y, yOffset=alt.value(_NAME_PX), text="caption:N"),
        touch(touched, "row", shown=0.15, nearest=False),
    )
    return framed(layers, SIDES_ROW_PX, labels=[], rows=[], low=0.1, top=1, entry_px=100)


def memory() -> Figure:
    """
    Draw what is judged (left) and the cost of a million events (right) against the function's memory.

    Both are means over the runs with their intervals. A dashed line is the limit of a threshold on what is judged; the
    shaded setting is the one that the sentence names.
    """
    x = alt.X("value:N", **SETTINGS, scale=alt.Scale(domain=LABELS), axis=setting_axis())
    names = [JUDGED, _COST]
    legend = alt.Legend(symbolStrokeWidth=2)
    color = alt.Color("kind:N", title=None, scale=alt.Scale(domain=names), legend=legend)
    shape = alt.Shape("kind:N", title=None, scale=alt.Scale(domain=names, range=SHAPES[:2]))
    dollars = alt.Axis(orient="right", format="~r", tickCount=4, grid=False)
    curves = (
        ("latency", JUDGED, JUDGED, log_between(HIGH), time_axis("y")),
        ("cost", _COST, "USD per million events", linear(), dollars),
    )
    layers = [named("chosen").mark_rect(color=SHADE, opacity=0.18).encode(x=x, y=alt.value(0), y2=alt.value("height"))]
    for source, kind, title, scale, axis in curves:
        drawn = named(source).transform_calculate(kind=f"'{kind}'")
        y, more = alt.Y("is:Q", axis=axis, scale=scale, title=title), alt.Y("is:Q", axis=None, scale=scale)
        line = drawn.mark_line(strokeWidth=1.5, opacity=0.6, clip=True).encode(x=x, y=y, color=color)
        low = alt.Y("low:Q", axis=None, scale=scale)
        bars = drawn.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=3, opacity=0.45, clip=True)
        dots = drawn.mark_point(size=70, filled=True, opacity=1, clip=True)
        layers += [line, bars.encode(x=x, y=low, y2="high:Q", color=color)]
        layers.append(dots.encode(x=x, y=more, color=color, shape=shape))
    limit = named("limits").mark_rule(strokeWidth=1.5, strokeDash=[6, 3], clip=True, style="change")
    y = alt.Y("limit:Q", axis=None, scale=log_between(HIGH))
    layers.append(limit.encode(y=y, tooltip=tooltips({"words:N": "limit"})))
    titles = {"value:N": "memory", "judged:N": JUDGED, "usd:N": "cost", "kept:N": "thresholds"}
    whole = named("settings").mark_rect(color=SHADE)
    band = whole.encode(x=x, y=alt.value(0), y2=alt.value("height"), tooltip=tooltips(dict(titles)))
    layers.append(touch(band, "value", shown=0.25, nearest=False))
    chart = alt.layer(*layers).resolve_scale(y="independent")
    return framed(chart, 240, labels=[], low=0.1, high=1, top=1)

"""Charts of rows: box plots, shares, stores as bars, what their times consist of, and one execution's tasks."""

from __future__ import annotations

from typing import Any

import altair as alt

from stepbench.report import BOX_QUANTILES, BOX_ROW_PX, SHARE_ROW_PX
from stepbench_charts import (
    FORMULA,
    LABELS,
    LATENCY,
    LEGEND_PX,
    Y_EXTENT,
    Figure,
    framed,
    linear,
    log_between,
    named,
    row_axis,
    row_names,
    time_axis,
    tooltips,
    touch,
    touch_rows,
    zoom,
)

_BOX_PX, _BAR_PX = 16, 12
_ABOVE_BOX_PX, _ABOVE_BAR_PX = 15, 13
_TASK_BAR_PX, _ATTEMPT_PX, _TASK_NAME_PX = 9, 12, 92
_MOST_COLUMNS = 3
_EDGES = {"start": alt.value(0), "end": alt.value("width")}
_ARROWS = {"start": alt.value(6), "end": alt.value(alt.ExprRef("width - 6"))}
_MS_TEXT = (
    "datum.value >= 1000 ? format(datum.value / 1000, '~r') + ' s' : "
    "datum.value > 0 && datum.value < 1 ? format(datum.value * 1000, '~r') + ' µs' : format(datum.value, '~r') + ' ms'"
)
_TOUCHED_BAR: dict[str, Any] = {"fillOpacity": 0, "strokeWidth": 2, "clip": True, "style": "touched"}


def box_plot() -> Figure:
    """
    Draw one row for each window: box from p25 to p75, median, whiskers to p1 and p99, a tick at p90.

    The page makes the figure as high as it has rows.
    A part that is `open` runs, dashed, to the edge of the plot: its end is not known to be anywhere.
    """
    filled = alt.FillOpacity("fill:Q", scale=None, legend=None)
    solid = [
        _part("box").mark_bar(size=_BOX_PX, clip=True, strokeWidth=1.5, style="box").encode(fillOpacity=filled),
        _part("whisker").mark_rule(strokeWidth=1.5, clip=True, style="box"),
    ]
    y = row_axis("label")
    whole = [chart.encode(x=_x("from_ms"), x2="to_ms:Q", y=y) for chart in solid]
    marks = [_tick("p1", 8), _tick("p99", 8), _tick("p90", _BOX_PX / 2), _tick("p50", _BOX_PX + 4, 3.5)]
    params = [alt.param(name="labels", value=[]), alt.param(name="low", value=0.1), alt.param(name="top", value=1)]
    tooltip = [alt.Tooltip("label:N", title="window"), alt.Tooltip("n:Q", format=",")]
    tooltip += tooltips({f"{name}_words:N": name for name in BOX_QUANTILES})
    rows = (row_names("boxes", y, _ABOVE_BOX_PX), touch_rows("boxes", y, tooltip, "label"))
    layers = alt.layer(whole[0].add_params(*params, zoom()), *whole[1:], *_open(y), *marks, *rows)
    return framed(layers, BOX_ROW_PX)


def _open(y: alt.Y) -> list[alt.Chart]:
    """Draw open ends, dashed to the edge with an arrow there."""
    dashed: dict[str, Any] = {"strokeDash": [3, 3], "clip": True, "style": "box"}
    box = _part("open-box").mark_bar(size=_BOX_PX, fillOpacity=0.12, **dashed)
    boxes = [box.encode(x=_x("from_ms"), x2=_EDGES["end"], y=y)]
    for part, known, edge in (("whisker", "from_ms", "end"), ("start", "to_ms", "start")):
        rule = _part(f"open-{part}").mark_rule(strokeWidth=1.5, **dashed)
        boxes.append(rule.encode(x=_x(known), x2=_EDGES[edge], y=y))
    arrows = [
        named("parts")
        .transform_filter(alt.FieldOneOfPredicate(field="part", oneOf=parts))
        .mark_point(shape=f"triangle-{side}", size=70, filled=True, opacity=1, dx=0, style="box-end")
        .encode(x=_ARROWS[edge], y=y)
        for parts, side, edge in ((["open-box", "open-whisker"], "right", "end"), (["open-start"], "left", "start"))
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
        .encode(x=_x(quantile), y=row_axis("label"))
    )
    return chart


def _x(field: str) -> alt.X:
    title = f"{LATENCY}, {FORMULA} (log scale)"
    return alt.X(f"{field}:Q", scale=log_between(), axis=time_axis("x"), title=title, stack=None)


def shares() -> Figure:
    """Draw one bar for each application and store (Fig. 2), with its interval; the page sets the height."""
    axis = alt.Axis(format="~%", tickCount=6)
    x = alt.X("share:Q", scale=linear(), axis=axis, title="trigger latency / execution time")
    titles = {"row:N": "application", "words:N": "share", "trigger:N": "triggers", "compute:N": "functions"}
    return _bars("shares", x, named("shares"), tooltips(dict(titles)), SHARE_ROW_PX)


def end_to_end() -> Figure:
    """
    Draw the end-to-end time of each store with its interval.

    Source:
        Shankar et al. (2023), figures 4 to 8, lower parts.
    """
    return _store_bars("median end-to-end time", _time_axis())


def per_dollar() -> Figure:
    """
    Draw the performance per dollar of each store with its interval.

    Source:
        Shankar et al. (2023), figures 4 to 8, upper parts.
    """
    title = "1 / (seconds × dollars), of one execution"  # noqa: RUF001 -- times
    return _store_bars(title, alt.Axis(format="~s", tickCount=5))


def _store_bars(title: str, axis: alt.Axis) -> Figure:
    x = alt.X("value:Q", scale=linear(), axis=axis, title=title)
    known = named("bars").transform_filter("isValid(datum.low)")
    return _bars("bars", x, known, tooltips({"row:N": " ", "words:N": "95 %", "runs:N": "of"}), 38)


def _bars(source: str, x: alt.X, known: alt.Chart, tooltip: list[alt.Tooltip], height_px: int) -> Figure:
    """Draw a bar for each row, and the intervals of those where it is known."""
    y = row_axis("row")
    bars = named(source).mark_bar(size=_BAR_PX, fillOpacity=0.35, strokeWidth=1.5, style="box").encode(x=x, y=y)
    low = alt.X("low:Q", scale=linear())
    intervals = known.mark_rule(strokeWidth=3, style="box-end").encode(x=low, x2="high:Q", y=y)
    layers = alt.layer(bars, intervals, row_names(source, y, _ABOVE_BAR_PX), touch_rows(source, y, tooltip))
    return framed(layers, height_px, labels=[], top=1)


def stacked(title: str) -> Figure:
    """Draw what executions' time, or an object's way to the store and back, consists of: a bar for each row."""
    y, ends = row_axis("row"), {"x": alt.X("from:Q", scale=linear(), axis=_time_axis(), title=title), "x2": "to:Q"}
    tooltip = tooltips({"row:N": " ", "part:N": "part", "words:N": "time", "share:N": "share"})
    bars = named("stacks").mark_bar(size=_BAR_PX, clip=True).encode(**ends, y=y, color=_part_color())
    touched = named("stacks").mark_bar(size=_BAR_PX, **_TOUCHED_BAR).encode(**ends, y=y, tooltip=tooltip)
    names = row_names("rows", y, _ABOVE_BAR_PX)
    layers = alt.layer(bars, names, touch(touched, "row", "from", shown=1, nearest=False))
    return framed(layers, 38, labels=[], parts=[], top=1, entry_px=110)


def gantt() -> Figure:
    """Draw the tasks of one execution over time: a row for each attempt, its parts one after the other."""
    ends, y = {"x": _ms("from_ms"), "x2": "to_ms:Q"}, _task()
    titles: dict[str, str | None] = {
        "row:N": "task", "part:N": "part", "took:N": "took", "moved:N": "moved", "rate:N": "rate", "note:N": " ",
    }  # fmt: skip
    spans = named("spans").mark_bar(size=_TASK_BAR_PX, clip=True).encode(**ends, y=y, color=_part_color())
    outline = named("tasks").mark_bar(size=_ATTEMPT_PX, filled=False, strokeWidth=1.2, clip=True, style="touched")
    critical = alt.Opacity("critical:Q", scale=None, legend=None)
    failed = (
        named("tasks")
        .transform_filter("!datum.ok")
        .mark_text(text="failed", align="left", baseline="middle", dx=4, fontSize=11, style="window-name")
        .encode(x=_ms("to_ms"), y=y)
    )
    limits = named("ends").mark_rule(strokeWidth=1.2, strokeDash=[4, 3], clip=True, style="window")
    touched = named("spans").mark_bar(size=_ATTEMPT_PX, **_TOUCHED_BAR).encode(**ends, y=y, tooltip=tooltips(titles))
    layers = alt.layer(
        spans,
        outline.encode(**ends, y=y, strokeOpacity=critical),
        failed,
        limits.encode(x=_ms("at_ms"), tooltip=tooltips({"words:N": " "})),
        touch(touched, "row", "from_ms", shown=1, nearest=False),
    )
    return framed(layers, 120, labels=[], parts=[], top=1, entry_px=84)


def _part_color() -> alt.Color:
    """Return the colours of parts; their legend has few columns, since figures stand beside each other."""
    columns = alt.ExprRef(f"max(1, min({_MOST_COLUMNS}, floor({LEGEND_PX} / entry_px)))")
    scale = alt.Scale(domain=alt.ExprRef("parts"))
    return alt.Color("part:N", title=None, scale=scale, legend=alt.Legend(columns=columns))


def _task() -> alt.Y:
    axis = alt.Axis(
        ticks=False, domain=False, labelLimit=_TASK_NAME_PX, labelPadding=7, minExtent=Y_EXTENT, labelFontSize=11
    )
    return alt.Y("row:N", sort=None, scale=alt.Scale(domain=LABELS), title=None, axis=axis)


def _ms(field: str) -> alt.X:
    return alt.X(f"{field}:Q", scale=linear(), axis=_time_axis(grid=True), title="since the execution was due")


def _time_axis(**look: Any) -> alt.Axis:  # noqa: ANN401 -- Altair's own
    return alt.Axis(
        labelExpr=_MS_TEXT, tickCount=alt.ExprRef("max(3, min(8, width / 90))"), labelOverlap="greedy", **look
    )

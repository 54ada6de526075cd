"""The charts of DAGs: one execution's tasks, what executions and transfers consist of, bars, the store over time."""

from __future__ import annotations

from typing import Any

import altair as alt

from stepbench_charts.parts import (
    LABELS,
    SHADE,
    TOP,
    Y_EXTENT,
    across,
    framed,
    lines,
    named,
    rate_axis,
    seconds,
    tooltips,
    touch,
)

_PARTS = alt.ExprRef("parts")
_MS_TEXT = (
    "datum.value >= 1000 ? format(datum.value / 1000, '~r') + ' s' : "
    "datum.value > 0 && datum.value < 1 ? format(datum.value * 1000, '~r') + ' µs' : format(datum.value, '~r') + ' ms'"
)
_LEGEND_PX, _MOST_COLUMNS = "(min(1200, windowSize()[0]) - 140)", 3
_NAME_PX, _BAR_PX = -13, 12
_TASK_BAR_PX, _ATTEMPT_PX = 9, 12
_TASK_NAME_PX = 92
_MOVED = ("put", "get")


def gantt() -> alt.LayerChart | alt.FacetChart:
    """Draw the tasks of one execution over time: a row for each attempt, its parts one after the other."""
    x, y = _ms("from_ms"), _task()
    titles: dict[str, str | None] = {
        "row:N": "task", "part:N": "part", "took:N": "took", "moved:N": "moved", "rate:N": "rate", "note:N": " ",
    }  # fmt: skip
    color = alt.Color("part:N", title=None, scale=alt.Scale(domain=_PARTS), legend=_legend())
    spans = named("spans").mark_bar(size=_TASK_BAR_PX, clip=True).encode(x=x, x2="to_ms:Q", y=y, color=color)
    outline = (
        named("tasks")
        .mark_bar(size=_ATTEMPT_PX, filled=False, strokeWidth=1.2, clip=True, style="touched")
        .encode(x=x, x2="to_ms:Q", y=y, strokeOpacity=alt.Opacity("critical:Q", scale=None, legend=None))
    )
    failed = (
        named("tasks")
        .transform_filter("!datum.ok")
        .mark_text(text="failed", align="left", baseline="middle", dx=4, fontSize=11, style="window-name")
        .encode(x=_ms("to_ms"), y=y)
    )
    ends = named("ends").mark_rule(strokeWidth=1.2, strokeDash=[4, 3], clip=True, style="window")
    touched = named("spans").mark_bar(size=_ATTEMPT_PX, fillOpacity=0, strokeWidth=2, clip=True, style="touched")
    layers = alt.layer(
        spans,
        outline,
        failed,
        ends.encode(x=_ms("at_ms"), tooltip=tooltips({"words:N": " "})),
        touch(
            touched.encode(x=x, x2="to_ms:Q", y=y, tooltip=tooltips(titles)), "row", "from_ms", shown=1, nearest=False
        ),
    )
    return framed(layers, 120, labels=[], parts=[], top=1, entry_px=84)


def time_parts() -> alt.LayerChart | alt.FacetChart:
    """Draw what executions' time consists of, a bar for each store."""
    return _stacked("mean time of an execution", _time_axis())


def transfer_parts() -> alt.LayerChart | alt.FacetChart:
    """Draw what one object's way to the store and back consists of, a bar for each edge and store."""
    return _stacked("mean time of one object", _time_axis())


def end_to_end_bars() -> alt.LayerChart | alt.FacetChart:
    """
    Draw the end-to-end time of each store with its interval.

    Source:
        Shankar et al. (2023), figures 4 to 8, lower parts.
    """
    return _bars("median end-to-end time", _time_axis())


def per_dollar_bars() -> alt.LayerChart | alt.FacetChart:
    """
    Draw the performance per dollar of each store with its interval.

    Source:
        Shankar et al. (2023), figures 4 to 8, upper parts.
    """
    return _bars("1 / (seconds × dollars), of one execution", alt.Axis(format="~s", tickCount=5))  # noqa: RUF001 -- times


def store_over_time() -> alt.LayerChart | alt.FacetChart:
    """Draw what the store was given and asked for over time, and where it was configured anew or was not."""
    scale = alt.Scale(domainMin=0, domainMax=TOP, nice=False)
    y = {name: alt.Y(f"{name}:Q", axis=rate_axis(), title="MiB/s", scale=scale) for name in _MOVED}
    tooltip = tooltips(
        {"second:Q": "second", "phase:N": "phase", "put:Q": "put (MiB/s)", "get:Q": "get (MiB/s)",
         "puts:Q": "objects put", "gets:Q": "objects got", "completed:Q": "executions completed"}
    )  # fmt: skip
    rules = named("bins").mark_rule(clip=True).encode(x=seconds("second"), tooltip=tooltip)
    layers = alt.layer(
        *_bands(), *lines(y, seconds("second"), "bins", steps=True), touch(rules, "second", shown=0.5), *_marks()
    )
    return framed(layers, 170, top=1)


def _bands() -> list[alt.Chart]:
    """Draw the phases as backgrounds, every other one shaded."""
    shade = alt.Opacity("kind:O", legend=None, scale=alt.Scale(domain=["even", "odd"], range=[0, 0.14]))
    band = named("phases").mark_rect(clip=True, color=SHADE)
    name = named("phases").mark_text(align="left", baseline="top", dx=4, dy=3, fontSize=11, clip=True)
    return [
        band.encode(x=seconds("from_s"), x2="to_s:Q", opacity=shade),
        name.encode(x=seconds("from_s"), y=alt.value(0), text="caption:N"),
    ]


def _marks() -> list[alt.Chart]:
    """Mark each decision: a line, thick where the store was configured anew, and a band for as long as it was away."""
    tooltip = tooltips({"words:N": " ", "outage:N": "away", "at:Q": "second"})
    away = named("marks").transform_filter("datum.to > datum.at").mark_rect(clip=True, opacity=0.3, style="stall")
    rule = named("marks").mark_rule(clip=True, strokeDash=[5, 3], style="change")
    width = alt.StrokeWidth("changed:Q", scale=None, legend=None)
    return [
        away.encode(x=seconds("at"), x2="to:Q", tooltip=tooltip),
        rule.encode(x=seconds("at"), strokeWidth=width, tooltip=tooltip),
    ]


def _stacked(title: str, axis: alt.Axis) -> alt.LayerChart | alt.FacetChart:
    scale = alt.Scale(domain=[0, TOP], nice=False)
    x = alt.X("from:Q", scale=scale, axis=axis, title=title)
    y = _row()
    color = alt.Color("part:N", title=None, scale=alt.Scale(domain=_PARTS), legend=_legend())
    tooltip = tooltips({"row:N": " ", "part:N": "part", "words:N": "time", "share:N": "share"})
    bars = named("stacks").mark_bar(size=_BAR_PX, clip=True).encode(x=x, x2="to:Q", y=y, color=color)
    touched = named("stacks").mark_bar(size=_BAR_PX, fillOpacity=0, strokeWidth=2, clip=True, style="touched")
    layers = alt.layer(
        bars,
        _captions("rows"),
        touch(touched.encode(x=x, x2="to:Q", y=y, tooltip=tooltip), "row", "from", shown=1, nearest=False),
    )
    return framed(layers, 38, labels=[], parts=[], top=1, entry_px=110)


def _bars(title: str, axis: alt.Axis) -> alt.LayerChart | alt.FacetChart:
    scale = alt.Scale(domain=[0, TOP], nice=False)
    x = alt.X("value:Q", scale=scale, axis=axis, title=title)
    y = _row()
    bars = named("bars").mark_bar(size=_BAR_PX, fillOpacity=0.35, strokeWidth=1.5, style="box").encode(x=x, y=y)
    intervals = (
        named("bars")
        .transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=3, style="box-end")
        .encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y)
    )
    tooltip = tooltips({"row:N": " ", "words:N": "95 %", "runs:N": "of"})
    rows = touch(across("bars").encode(y=y, tooltip=tooltip), "row", shown=0.15, nearest=False)
    return framed(alt.layer(bars, intervals, _captions("bars"), rows), 38, labels=[], top=1)


def _legend() -> alt.Legend:
    """Return a legend of few columns: figures stand beside each other, and none is as wide as the window."""
    columns = alt.ExprRef(f"max(1, min({_MOST_COLUMNS}, floor({_LEGEND_PX} / entry_px)))")
    return alt.Legend(columns=columns)


def _captions(source: str) -> alt.Chart:
    """Draw the rows' names over their bars: beside them, they would leave no room on a phone."""
    chart: alt.Chart = (
        named(source)
        .mark_text(align="left", baseline="middle", dy=_NAME_PX, fontSize=12, style="box-name")
        .encode(x=alt.value(0), y=_row(), text="caption:N")
    )
    return chart


def _row() -> alt.Y:
    return alt.Y("row:N", sort=None, scale=alt.Scale(domain=LABELS), axis=None)


def _task() -> alt.Y:
    axis = alt.Axis(
        ticks=False, domain=False, labelLimit=_TASK_NAME_PX, labelPadding=7, minExtent=Y_EXTENT, labelFontSize=11
    )
    return alt.Y("row:N", sort=None, scale=alt.Scale(domain=LABELS), title=None, axis=axis)


def _ms(field: str) -> alt.X:
    scale = alt.Scale(domain=[0, TOP], nice=False)
    return alt.X(f"{field}:Q", scale=scale, axis=_time_axis(grid=True), title="since the execution was due")


def _time_axis(**look: Any) -> alt.Axis:  # noqa: ANN401 -- Altair's own
    return alt.Axis(
        labelExpr=_MS_TEXT, tickCount=alt.ExprRef("max(3, min(8, width / 90))"), labelOverlap="greedy", **look
    )

"""The charts of transfers: throughput by size and over time, times by size, levels by hour, progress within one."""

from __future__ import annotations

from typing import Any

import altair as alt

from stepbench_charts import (
    BY_SHARE,
    HIGH,
    LABELS,
    LEADING_DIGIT,
    LOW,
    SHADE,
    SHARE_WITHIN,
    TOP,
    Y_EXTENT,
    Figure,
    framed,
    linear,
    log_between,
    named,
    rate_axis,
    ring,
    series_color,
    series_legend,
    series_shape,
    tooltips,
    touch,
    zoom,
)

_SIZES = "file size, MiB (log scale)"
_FIELD, _OWN = "field", "own"
"""Parameters: by which column the points of a figure are its own (`platform`, `source`), and which they are."""
_SPREAD = 0.07
_DASHES = [[1, 0], [6, 3], [2, 2], [9, 3, 2, 3]]
_SECONDS_TEXT = "datum.value < 1 ? format(datum.value * 1000, '~g') + ' ms' : format(datum.value, '~g') + ' s'"
_WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
_HOURS_PX = 20
_USUAL = "× the usual rate"  # noqa: RUF001 -- times


def size_scatter() -> Figure:
    """
    Draw every transfer's rate over its file's size, with the mean of each size and its 95 % interval as a band.

    Source:
        Stubbs (2024), the plots of throughput by file size; there with a linear axis of sizes.
    """
    axis = alt.Axis(values=alt.ExprRef("sizes"), format="~g", labelOverlap="greedy", grid=False)
    x = alt.X("x_mib:Q", title=_SIZES, scale=log_between(HIGH), axis=axis)
    mean_x = alt.X("size_mib:Q", title=_SIZES, scale=log_between(HIGH))
    y, color = _rate("mib_per_s"), series_color(symbolStrokeWidth=0, symbolOpacity=1)
    titles = {"size_mib:Q": "MiB", "mean:Q": "mean (MiB/s)", "low:Q": "95 % from", "high:Q": "95 % to", "n:Q": "n"}
    tooltip = [*tooltips({"series:N": " "}), *tooltips(dict(titles))]
    marks = _own("means").mark_point(size=50, filled=True, opacity=1, clip=True)
    layers = alt.layer(
        _points().mark_point(size=14, filled=True, opacity=0.35, clip=True).encode(x=x, y=y, color=color),
        _own("means").mark_area(opacity=0.3, clip=True).encode(x=mean_x, y=_rate("low"), y2="high:Q", color=color),
        _own("means").mark_line(strokeWidth=2, clip=True).encode(x=mean_x, y=_rate("mean"), color=color),
        _touch(x, y, "x_mib"),
        marks.encode(x=mean_x, y=_rate("mean"), color=color, shape=series_shape(), tooltip=tooltip),
    )  # the means' own numbers lie above the points'
    return framed(layers, 280, **_params(sizes=[1]))


def rate_over_time() -> Figure:
    """Draw every transfer's rate over the time at which it began, and where the level changes."""
    x, y = _began("at"), _rate("mib_per_s")
    points = _points().mark_point(size=18, filled=True, opacity=1, fillOpacity=0.45, clip=True)
    look = {"symbolOpacity": 1, "symbolSize": 60}
    shape = series_shape(legend=series_legend(**look))
    drawn = points.encode(x=x, y=y, color=series_color(**look), shape=shape).add_params(zoom())
    return framed(alt.layer(drawn, _touch(x, y, "at"), *_changes()), 240, **_params())


def time_curves() -> Figure:
    """Draw the distribution of the transfer times of each size; a curve's size stands on it."""
    digit = f"indexof([1, 2, 5], {LEADING_DIGIT}) >= 0 ? ({_SECONDS_TEXT}) : ''"
    axis = alt.Axis(labelExpr=digit, labelOverlap="greedy")
    x = alt.X("seconds:Q", title="transfer time (log scale)", scale=log_between(HIGH), axis=axis)
    shares = alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".0%", minExtent=Y_EXTENT)
    y = alt.Y("probability:Q", title="share of transfers", scale=alt.Scale(domain=[0, 1]), axis=shares)
    color = alt.Color("curve:N", title=None, legend=None, scale=alt.Scale(domain=LABELS))
    line = named("curves").mark_line(interpolate="step-after", strokeWidth=1.8, clip=True)
    tooltip = [*tooltips({"curve:N": "file", "seconds:Q": "seconds"}), SHARE_WITHIN]
    name = named("names")
    at = {"x": x, "y": y, "text": alt.Text("label:N")}
    layers = alt.layer(
        line.encode(x=x, y=y, color=color, detail="curve:N", order=BY_SHARE).add_params(zoom()),
        touch(ring("curves").encode(x=x, y=y, tooltip=tooltip), "curve", "seconds", "probability", shown=1),
        name.mark_text(fontSize=11, fontWeight=600, clip=True, style="halo").encode(**at),
        name.mark_text(fontSize=11, fontWeight=600, clip=True).encode(**at, color=color),
    )
    return framed(layers, 240, labels=[], low=0.1, high=1)


def hour_map() -> Figure:
    """Draw how rates of each hour of each weekday lie to those of their sizes: 1 is what is usual."""
    hours = alt.Axis(labelAngle=0, values=[*range(0, 24, 3)], ticks=False)
    x = alt.X("hour:O", title="hour, UTC", scale=alt.Scale(domain=[*range(24)]), axis=hours)
    y = alt.Y("day:O", title=None, sort=None, scale=alt.Scale(domain=alt.ExprRef("days")), axis=alt.Axis(ticks=False))
    scale = alt.Scale(type="log", scheme="viridis", domain=[LOW, TOP], clamp=True)
    legend = alt.Legend(
        orient="bottom", direction="horizontal", gradientLength=160, titleOrient="left", format=".2~f",
        values=alt.ExprRef("[low, 1, top]"),
    )  # fmt: skip
    color = alt.Color("relative:Q", title=_USUAL, scale=scale, legend=legend)
    tooltip = tooltips({"day:O": "day", "hour:O": "hour (UTC)", "relative:Q": _USUAL})
    tooltip.append(alt.Tooltip("n:Q", title="transfers"))
    tiles = named("hours").mark_rect(stroke=None).encode(x=x, y=y, color=color)
    whole = named("hours").mark_rect(color=SHADE).encode(x=x, y=y, tooltip=tooltip)
    touched = touch(whole, "day", "hour", shown=0.5, nearest=False)
    return framed(alt.layer(tiles, touched), len(_WEEKDAYS) * _HOURS_PX, days=_WEEKDAYS, low=0.5, top=2)


def progress_curves() -> Figure:
    """Draw how many MiB of some transfers were there after how long; a stall is a level line."""
    from_zero = alt.Scale(domainMin=0, nice=False)
    x = alt.X("seconds:Q", title="seconds since the start", scale=from_zero, axis=alt.Axis(grid=False))
    y = alt.Y("mib:Q", title="MiB received", scale=from_zero, axis=rate_axis())
    legend = alt.Legend(symbolType="stroke", symbolSize=420, symbolStrokeWidth=2, columns=2, labelLimit=160)
    color = alt.Color("kind:N", title=None, scale=alt.Scale(domain=LABELS), legend=legend)
    dash = alt.StrokeDash("kind:N", title=None, scale=alt.Scale(domain=LABELS, range=_DASHES))
    titles: dict[str, str | None] = {"kind:N": "transfer", "seconds:Q": "seconds", "mib:Q": "MiB", "began:N": "began"}
    line = named("progress").mark_line(strokeWidth=2, clip=True).encode(x=x, y=y, color=color, strokeDash=dash)
    rings = ring("progress").encode(x=x, y=y, tooltip=tooltips(titles))
    return framed(alt.layer(line.add_params(zoom()), touch(rings, "kind", "mib", shown=1)), 220, labels=[])


def _own(source: str) -> alt.Chart:
    """Return a chart over the rows of a data set that are the figure's own, each with its series."""
    other = f"names[{_FIELD} === 'platform' ? datum.source : datum.platform]"
    chart: alt.Chart = named(source).transform_filter(f"datum[{_FIELD}] === {_OWN}").transform_calculate(series=other)
    return chart


def _points() -> alt.Chart:
    """Return a chart over transfers. Those of one size lie a little apart: on one another, they would look like few."""
    chart: alt.Chart = _own("points").transform_calculate(
        mib_per_s="datum.size_mib / datum.seconds",
        x_mib=f"datum.size_mib * exp({_SPREAD} * sin(datum.at / 997))",
        began="utcFormat(datum.at, '%Y-%m-%d %H:%M:%S UTC')",
    )
    return chart


def _began(field: str) -> alt.X:
    axis = alt.Axis(grid=False, labelOverlap="greedy", tickCount=alt.ExprRef("min(10, width / 70)"))
    return alt.X(f"{field}:T", title="began (UTC)", scale=alt.Scale(type="utc", nice=False, padding=8), axis=axis)


def _params(**more: Any) -> dict[str, Any]:  # noqa: ANN401 -- any JSON
    own = {_FIELD: "platform", _OWN: "lambda", "labels": [], "entry_px": 100, "names": {}}
    return {**own, "low": 0.5, "high": 1000, "top": 1, **more}


def _rate(field: str) -> alt.Y:
    return alt.Y(f"{field}:Q", title="MiB/s", scale=linear(), axis=rate_axis())


def _touch(x: alt.X, y: alt.Y, at: str) -> alt.Chart:
    titles: dict[str, str | None] = {
        "series:N": " ", "size_mib:Q": "MiB", "mib_per_s:Q": "MiB/s", "seconds:Q": "seconds", "began:N": "began",
    }  # fmt: skip
    rings = _points().mark_point(size=90, strokeWidth=2, filled=False, clip=True, style="touched")
    return touch(rings.encode(x=x, y=y, tooltip=tooltips(titles)), at, "mib_per_s", shown=1)


def _changes() -> list[alt.Chart]:
    """Mark where the level changes, with its interval."""
    own = named("changes")
    tooltip = tooltips({"words:N": "level changes", "at_words:N": "at", "ratio_words:N": "after over before"})
    interval = own.mark_rect(clip=True, opacity=0.25, style="change")
    rule = own.mark_rule(strokeWidth=1.5, strokeDash=[5, 3], style="change")
    name = own.mark_text(align="left", baseline="top", dx=5, dy=2, fontSize=11, clip=True, style="window-name")
    return [
        interval.encode(x=_began("earliest"), x2="latest:T", tooltip=tooltip),
        rule.encode(x=_began("at"), tooltip=tooltip),
        name.encode(x=_began("at"), y=alt.value(0), text="caption:N"),
    ]

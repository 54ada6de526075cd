"""The charts of transfers: throughput by size and over time, times by size, levels by hour, progress within one."""

from __future__ import annotations

from typing import Any

import altair as alt

from stepbench_charts.parts import (
    BY_SHARE,
    LABELS,
    LOW,
    SHAPES,
    SHARE_WITHIN,
    TOP,
    Y_EXTENT,
    framed,
    named,
    rate_axis,
    ring,
    series_legend,
    tooltips,
    touch,
    zoom,
)

HIGH = alt.ExprRef("high")
_RATE = "MiB/s"
_SIZES = "file size, MiB (log scale)"
_FIELD, _OWN = "field", "own"
"""Parameters: by which column the points of a figure are its own (`platform`, `source`), and which they are."""
_SPREAD = 0.07
_DASHES = [[1, 0], [6, 3], [2, 2], [9, 3, 2, 3]]
_SECONDS_TEXT = "datum.value < 1 ? format(datum.value * 1000, '~g') + ' ms' : format(datum.value, '~g') + ' s'"
_LEADING_DIGIT = "round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))"
_WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
HOURS_PX = 20


def size_scatter() -> alt.LayerChart | alt.FacetChart:
    """
    Draw every transfer's rate over its file's size, with the mean of each size and its 95 % interval as a band.

    Source:
        Stubbs (2024), the plots of throughput by file size; there with a linear axis of sizes.
    """
    scale = alt.Scale(type="log", nice=False, domain=[LOW, HIGH])
    axis = alt.Axis(values=alt.ExprRef("sizes"), format="~g", labelOverlap="greedy", grid=False)
    x = alt.X("x_mib:Q", title=_SIZES, scale=scale, axis=axis)
    mean_x = alt.X("size_mib:Q", title=_SIZES, scale=scale)
    top = alt.Scale(domain=[0, TOP], nice=False)
    y = alt.Y("mib_per_s:Q", title=_RATE, scale=top, axis=rate_axis())
    color = _color(symbolStrokeWidth=0, symbolOpacity=1)
    points = _points().mark_point(size=14, filled=True, opacity=0.35, clip=True)
    band = _own("means").mark_area(opacity=0.3, clip=True).encode(x=mean_x, y=_y("low", top), y2="high:Q", color=color)
    titles = {"size_mib:Q": "MiB", "mean:Q": "mean (MiB/s)", "low:Q": "95 % from", "high:Q": "95 % to", "n:Q": "n"}
    line = _own("means").mark_line(strokeWidth=2, clip=True).encode(x=mean_x, y=_y("mean", top), color=color)
    marks = (
        _own("means")
        .mark_point(size=50, filled=True, opacity=1, clip=True)
        .encode(
            x=mean_x,
            y=_y("mean", top),
            color=color,
            shape=alt.Shape("series:N", title=None, scale=alt.Scale(domain=LABELS, range=SHAPES)),
            tooltip=[alt.Tooltip("series:N", title=" "), *tooltips(dict(titles))],
        )
    )
    layers = alt.layer(
        points.encode(x=x, y=y, color=color), band, line, _touch(x, y, "x_mib"), marks
    )  # the means' own numbers lie above the points'
    return framed(layers, 280, **_params(sizes=[1]))


def rate_over_time() -> alt.LayerChart | alt.FacetChart:
    """Draw every transfer's rate over the time at which it began, and where the level changes."""
    x = _began("at")
    y = alt.Y("mib_per_s:Q", title=_RATE, scale=alt.Scale(domain=[0, TOP], nice=False), axis=rate_axis())
    points = _points().mark_point(size=18, filled=True, opacity=1, fillOpacity=0.45, clip=True)
    look = {"symbolOpacity": 1, "symbolSize": 60}
    scale = alt.Scale(domain=LABELS, range=SHAPES)
    shape = alt.Shape("series:N", title=None, scale=scale, legend=series_legend(**look))
    drawn = points.encode(x=x, y=y, color=_color(**look), shape=shape).add_params(zoom())
    return framed(alt.layer(drawn, _touch(x, y, "at"), *_changes()), 240, **_params())


def time_curves() -> alt.LayerChart | alt.FacetChart:
    """Draw the distribution of the transfer times of each size; a curve's size stands on it."""
    digit = f"indexof([1, 2, 5], {_LEADING_DIGIT}) >= 0 ? ({_SECONDS_TEXT}) : ''"
    axis = alt.Axis(labelExpr=digit, labelOverlap="greedy")
    scale = alt.Scale(type="log", nice=False, domain=[LOW, HIGH])
    x = alt.X("seconds:Q", title="transfer time (log scale)", scale=scale, axis=axis)
    shares = alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".0%", minExtent=Y_EXTENT)
    y = alt.Y("probability:Q", title="share of transfers", scale=alt.Scale(domain=[0, 1]), axis=shares)
    color = alt.Color("curve:N", title=None, legend=None, scale=alt.Scale(domain=LABELS))
    line = named("curves").mark_line(interpolate="step-after", strokeWidth=1.8, clip=True)
    tooltip = [*tooltips({"curve:N": "file", "seconds:Q": "seconds"}), SHARE_WITHIN]
    halo = named("names").mark_text(fontSize=11, fontWeight=600, clip=True, style="halo")
    name = named("names").mark_text(fontSize=11, fontWeight=600, clip=True)
    at = {"x": x, "y": y, "text": alt.Text("label:N")}
    layers = alt.layer(
        line.encode(x=x, y=y, color=color, detail="curve:N", order=BY_SHARE).add_params(zoom()),
        touch(ring("curves").encode(x=x, y=y, tooltip=tooltip), "curve", "seconds", "probability", shown=1),
        halo.encode(**at),
        name.encode(**at, color=color),
    )
    return framed(layers, 240, labels=[], low=0.1, high=1)


def hour_map() -> alt.LayerChart | alt.FacetChart:
    """Draw how rates of each hour of each weekday lie to those of their sizes: 1 is what is usual."""
    x = alt.X("hour:O", title="hour, UTC", scale=alt.Scale(domain=[*range(24)]), axis=_hours_axis())
    y = alt.Y("day:O", title=None, sort=None, scale=alt.Scale(domain=alt.ExprRef("days")), axis=alt.Axis(ticks=False))
    scale = alt.Scale(type="log", scheme="viridis", domain=[LOW, TOP], clamp=True)
    legend = alt.Legend(
        orient="bottom",
        direction="horizontal",
        gradientLength=160,
        titleOrient="left",
        format=".2~f",
        values=alt.ExprRef("[low, 1, top]"),
    )
    color = alt.Color("relative:Q", title="× the usual rate", scale=scale, legend=legend)  # noqa: RUF001 -- times
    tooltip = [
        *tooltips({"day:O": "day", "hour:O": "hour (UTC)", "relative:Q": "× the usual rate"}),  # noqa: RUF001
        alt.Tooltip("n:Q", title="transfers"),
    ]
    tiles = named("hours").mark_rect(stroke=None).encode(x=x, y=y, color=color)
    touched = touch(
        named("hours").mark_rect(color="#808a94").encode(x=x, y=y, tooltip=tooltip),
        "day",
        "hour",
        shown=0.5,
        nearest=False,
    )
    return framed(alt.layer(tiles, touched), 7 * HOURS_PX, days=_WEEKDAYS, low=0.5, top=2)


def progress_curves() -> alt.LayerChart | alt.FacetChart:
    """Draw how many MiB of some transfers were there after how long; a stall is a level line."""
    x = alt.X(
        "seconds:Q",
        title="seconds since the start",
        scale=alt.Scale(domainMin=0, nice=False),
        axis=alt.Axis(grid=False),
    )
    y = alt.Y("mib:Q", title="MiB received", scale=alt.Scale(domainMin=0, nice=False), axis=rate_axis())
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
    return {
        _FIELD: "platform",
        _OWN: "lambda",
        "labels": [],
        "entry_px": 100,
        "names": {},
        "low": 0.5,
        "high": 1000,
        "top": 1,
        **more,
    }


def _color(**look: Any) -> alt.Color:  # noqa: ANN401 -- Altair's own
    return alt.Color("series:N", title=None, legend=series_legend(**look), scale=alt.Scale(domain=LABELS))


def _y(field: str, scale: alt.Scale) -> alt.Y:
    return alt.Y(f"{field}:Q", title=_RATE, scale=scale, axis=rate_axis())


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


def _hours_axis() -> alt.Axis:
    return alt.Axis(labelAngle=0, values=[0, 3, 6, 9, 12, 15, 18, 21], ticks=False)

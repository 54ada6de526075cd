"""Charts over time: a trial, a phase with its load steps (Fig. 7 of the TriggerPerf paper), a store of DAGs."""

from __future__ import annotations

from typing import Any

import altair as alt

from stepbench_charts import (
    LATENCY,
    SHADE,
    TIMES,
    TOP,
    Figure,
    framed,
    lines,
    log_between,
    log_scale,
    named,
    rate_axis,
    seconds,
    time_axis,
    tooltips,
    touch,
)

_SENT = ("offered", "sent", "acknowledged")
_ARRIVED = ("offered", "acknowledged", "arrived")
_WINDOW_PX = (21, 35)
"""The page ends the upright axes where they leave room for these above the lines."""
_CHANGE: dict[str, Any] = {"strokeWidth": 1.5, "strokeDash": [5, 3]}


def latency() -> Figure:
    """Draw one trial's p50, p90 and maximum of each second over its phases."""
    y = {name: alt.Y(f"{name}_ms:Q", scale=log_scale(18), axis=time_axis("y"), title=LATENCY) for name in TIMES}
    layers = alt.layer(*_phases(), *lines(y, seconds("second")), _touch_second(_ARRIVED), *_stalls())
    return framed(layers, 200)


def rates(*names: str) -> Figure:
    """Draw one trial's offered, acknowledged and (of triggers) arrived events per second over its phases."""
    y = _upright(names, "events per second")
    layers = alt.layer(*_phases(), *lines(y, seconds("second")), _touch_second(names), *_stalls())
    return framed(layers, 140, top=1)


def concurrency() -> Figure:
    """Draw how many invocations of a measured function ran at once, over the trial's phases."""
    y = _upright(("running",), "invocations at once")
    titles: dict[str, str | None] = {"second:Q": "second", "running:Q": "at once, at most"}
    tooltip = tooltips(titles | {"began:Q": "began", "failed:Q": "of these, not all processed"})
    rules = named("points").mark_rule(clip=True).encode(x=seconds("second"), tooltip=tooltip)
    drawn = lines(y, seconds("second"), "points", steps=True)
    return framed(alt.layer(*_phases(), *drawn, touch(rules, "second", shown=0.5)), 140, top=1)


def _upright(names: tuple[str, ...], title: str) -> dict[str, alt.Y]:
    scale = alt.Scale(domainMin=0, domainMax=TOP, nice=False)
    return {name: alt.Y(f"{name}:Q", axis=rate_axis(), title=title, scale=scale) for name in names}


def _touch_second(names: tuple[str, ...]) -> alt.Chart:
    """Show all numbers of the nearest second."""
    numbers = {f"{name}:Q": name for name in names} | {f"{name}_ms:Q": f"{name} (ms)" for name in TIMES}
    tooltip = [alt.Tooltip("second:Q", title="second", format=","), *tooltips({"phase:N": "phase", **numbers})]
    rules = named("seconds").mark_rule(clip=True).encode(x=seconds("second"), tooltip=tooltip)
    return touch(rules, "second", shown=0.5)


def _bands(
    source: str,
    x: alt.X,
    kinds: dict[str, float],
    caption: str = "",
    y_px: int = 0,
    **look: Any,  # noqa: ANN401 -- Altair's
) -> list[alt.Chart]:
    """Draw spans of time as backgrounds, by their kinds more or less dark, with their names."""
    shade = alt.Scale(domain=list(kinds), range=list(kinds.values()))
    band = named(source).mark_rect(clip=True, color=SHADE)
    text = named(source).mark_text(align="left", baseline="top", fontSize=11, clip=True, **look)
    name = text.encode(x=x, y=alt.value(y_px), text="caption:N")
    return [
        band.encode(x=x, x2="to_s:Q", opacity=alt.Opacity("kind:O", legend=None, scale=shade)),
        name.transform_calculate(caption=caption) if caption else name,
    ]


def _phases() -> list[alt.Chart]:
    """Draw the phases, darker where nothing counts."""
    caption = "datum.phase + (datum.kind === 'measured' ? '' : ' (not measured)')"
    kinds = {"measured": 0.07, "not measured": 0.24}
    return _bands("phases", seconds("from_s"), kinds, caption, dx=4, dy=3, style="phase-name")


def _stalls() -> list[alt.Chart]:
    """Mark where the store answered nothing: shaded, with an edge that a short one still has in a long trial."""
    titles = {"from_s:Q": "no answer from (s)", "to_s:Q": "to (s)"}
    tooltip = tooltips({**titles, "in_flight:Q": "requests in flight", "events:Q": "events that waited"})
    band = named("stalls").mark_rect(clip=True, opacity=0.3, style="stall")
    edge = named("stalls").mark_rule(clip=True, strokeWidth=1.5, style="stall")
    return [
        band.encode(x=seconds("from_s"), x2="to_s:Q", tooltip=tooltip),
        edge.encode(x=seconds("from_s"), tooltip=tooltip),
    ]


def step_latency() -> Figure:
    """Draw p50, p90 and maximum of each second over a phase of several steps, with windows and change points."""
    y = {name: alt.Y(f"{name}_ms:Q", scale=log_between(), axis=time_axis("y"), title=LATENCY) for name in TIMES}
    times = {f"{name}_ms:Q": f"{name} (ms)" for name in TIMES}
    tooltip = tooltips({"second:Q": "second", **times, **dict.fromkeys(f"{name}:Q" for name in _ARRIVED)})
    rules = named("seconds").mark_rule(clip=True).encode(x=_of_phase("second"), tooltip=tooltip)
    touched = touch(rules, "second", shown=0.5)
    marks = (*_windows(), *_changes("latency_ms"))
    return framed(alt.layer(*_steps(), *lines(y, _of_phase("second")), touched, *marks), 240, low=0.1, top=1, end=1)


def time_line(*, named_above: bool) -> Figure:
    """Draw p50 and p90 of each second of one trial, a row of a figure whose first row alone has the legend."""
    y = {name: alt.Y(f"{name}_ms:Q", scale=log_between(), axis=time_axis("y"), title=None) for name in TIMES[:2]}
    tooltip = tooltips({"second:Q": "second", **{f"{name}_ms:Q": f"{name} (ms)" for name in TIMES}})
    rules = named("seconds").mark_rule(clip=True).encode(x=_of_phase("second"), tooltip=tooltip)
    drawn = lines(y, _of_phase("second"), named_above=named_above)
    layers = alt.layer(*_steps(), *drawn, touch(rules, "second", shown=0.5), *_windows())
    return framed(layers, 130, low=0.1, top=1, end=1)


def step_rates() -> Figure:
    """Draw the events due, sent and acknowledged in each bin, per second."""
    x = _of_phase("from_s")
    drawn = lines(_upright(_SENT, "events per second"), x, "rates", steps=True)
    touched = _touch_bins("rates", x, "from (s)", tooltips({"detail:N": "sent, per bin"}))
    layers = alt.layer(*_steps(), *drawn, touched, *_windows(), *_changes("achieved_per_s"))
    return framed(layers, 170, top=1, end=1)


def step_strip() -> Figure:
    """Draw the bins as counted, 5 s to either side of a step: a bar for what was sent, so that a gap shows."""
    x = alt.X("from_s:Q", title="seconds since the step", scale=alt.Scale(nice=False), axis=alt.Axis(tickCount=10))
    y = _upright(_SENT, "events in a bin")
    bars = named("bins").mark_rect(clip=True, opacity=0.3, style="sent-bin")
    sent = bars.encode(x=x, x2="to_s:Q", y=y["sent"], y2=alt.YDatum(0))
    step = named("step").mark_rule(**_CHANGE).encode(x="at_s:Q")
    touched = _touch_bins("bins", x, "from (s after the step)", [])
    return framed(alt.layer(sent, *lines(y, x, "bins", steps=True), step, touched), 130, top=1)


def _of_phase(field: str) -> alt.X:
    return seconds(field, "seconds since the phase began", [0, alt.ExprRef("end")])


def _steps() -> list[alt.Chart]:
    """Draw the load's steps, the first without any background."""
    return _bands("steps", _of_phase("from_s"), {"even": 0, "odd": 0.16}, y_px=4, dx=6, style="phase-name")


def _windows() -> list[alt.Chart]:
    """Draw the windows that are compared, as labelled bars over the lines."""
    top, bottom = _WINDOW_PX
    tooltip = tooltips({"window:N": None, "from_s:Q": "from (s)", "to_s:Q": "to (s)"})
    bar = named("windows").mark_rect(clip=True, fillOpacity=0.1, strokeWidth=1, style="window")
    name = named("windows").mark_text(baseline="middle", fontSize=11, clip=True, style="window-name")
    return [
        bar.encode(x=_of_phase("from_s"), x2="to_s:Q", y=alt.value(top), y2=alt.value(bottom), tooltip=tooltip),
        name.encode(x=_of_phase("middle_s"), y=alt.value((top + bottom) / 2), text="window:N"),
    ]


def _changes(series: str) -> list[alt.Chart]:
    """Mark where the series changes its level, with its interval."""
    own = named("changes").transform_filter(alt.FieldEqualPredicate(field="series", equal=series))
    tooltip = tooltips({"words:N": "level changes at", "before:N": None, "after:N": None, "p:N": "by chance"})
    interval = own.mark_rect(clip=True, opacity=0.3, style="change").transform_filter("isValid(datum.low_s)")
    return [
        interval.encode(x=_of_phase("low_s"), x2="high_s:Q", tooltip=tooltip),
        own.mark_rule(**_CHANGE, style="change").encode(x=_of_phase("at_s"), tooltip=tooltip),
    ]


def _touch_bins(source: str, x: alt.X, title: str, more: list[alt.Tooltip]) -> alt.Chart:
    """Show the bin's own counts."""
    tooltip = [*tooltips({"from_s:Q": title, **dict.fromkeys(f"{name}:Q" for name in _SENT)}), *more]
    bins = named(source).mark_rect(clip=True, color=SHADE)
    whole = bins.encode(x=x, x2="to_s:Q", y=alt.value(0), y2=alt.value("height"), tooltip=tooltip)
    return touch(whole, "from_s", shown=0.4, nearest=False)


def store_over_time() -> Figure:
    """Draw what the store was given and asked for over time, and where it was configured anew or was not."""
    y = _upright(("put", "get"), "MiB/s")
    tooltip = tooltips(
        {"second:Q": "second", "phase:N": "phase", "put:Q": "put (MiB/s)", "get:Q": "get (MiB/s)",
         "puts:Q": "objects put", "gets:Q": "objects got", "completed:Q": "executions completed"}
    )  # fmt: skip
    phases = _bands("phases", seconds("from_s"), {"even": 0, "odd": 0.14}, dx=4, dy=3)
    rules = named("bins").mark_rule(clip=True).encode(x=seconds("second"), tooltip=tooltip)
    drawn = lines(y, seconds("second"), "bins", steps=True)
    return framed(alt.layer(*phases, *drawn, touch(rules, "second", shown=0.5), *_decisions()), 170, top=1)


def _decisions() -> list[alt.Chart]:
    """Mark each decision: a line, thick where the store was configured anew, and a band for as long as it was away."""
    tooltip = tooltips({"words:N": " ", "outage:N": "away", "at:Q": "second"})
    away = named("marks").transform_filter("datum.to > datum.at").mark_rect(clip=True, opacity=0.3, style="stall")
    rule = named("marks").mark_rule(clip=True, strokeDash=[5, 3], style="change")
    width = alt.StrokeWidth("changed:Q", scale=None, legend=None)
    return [
        away.encode(x=seconds("at"), x2="to:Q", tooltip=tooltip),
        rule.encode(x=seconds("at"), strokeWidth=width, tooltip=tooltip),
    ]

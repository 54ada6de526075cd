"""What a load step did (Fig. 7 of the TriggerPerf paper): latency and rates across it, and 10 s around it."""

from __future__ import annotations

import altair as alt

from stepbench.report.chart_parts import (
    LATENCY,
    LOW,
    SHADE,
    TIMES,
    TOP,
    lines,
    named,
    rate_axis,
    seconds,
    time_axis,
)

_RATES = ["offered", "sent", "acknowledged"]
_SINCE_PHASE = "seconds since the phase began"
_SINCE_STEP = "seconds since the step"
_END = alt.param(name="end", value=1)
_WINDOW_PX = (21, 35)
"""The page ends the upright axes where they leave room for these above the lines."""


def step_latency() -> alt.LayerChart | alt.FacetChart:
    """p50, p90 and maximum of each second over a phase of several steps; windows and change points on it."""
    scale = alt.Scale(type="log", nice=False, domain=[LOW, TOP])
    y = {name: alt.Y(f"{name}_ms:Q", scale=scale, axis=time_axis("y"), title=LATENCY) for name in TIMES}
    layers = alt.layer(*_steps(), *_windows(), *_changes("latency_ms"), *lines(y, _x("second")), _touch_latency())
    params = [alt.param(name="low", value=0.1), alt.param(name="top", value=1), _END]
    return layers.add_params(*params).properties(width="container", height=240)


def step_rates() -> alt.LayerChart | alt.FacetChart:
    """Events due, sent and acknowledged in each bin, per second."""
    layers = alt.layer(
        *_steps(),
        *_windows(),
        *_changes("achieved_per_s"),
        *lines(_rates("events per second"), _x("from_s"), "rates", steps=True),
        _touch_rates("rates", _x("from_s"), "from (s)"),
    )
    return layers.add_params(alt.param(name="top", value=1), _END).properties(width="container", height=170)


def step_strip() -> alt.LayerChart | alt.FacetChart:
    """The bins as they were counted, 5 s to either side of a step: a bar for what was sent, so that a gap shows."""
    x = alt.X("from_s:Q", title=_SINCE_STEP, scale=alt.Scale(nice=False), axis=alt.Axis(tickCount=10))
    y = _rates("events in a bin")
    sent = (
        named("bins")
        .mark_rect(clip=True, opacity=0.3, style="sent-bin")
        .encode(x=x, x2="to_s:Q", y=y["sent"], y2=alt.YDatum(0))
    )
    step = named("step").mark_rule(strokeWidth=1.5, strokeDash=[5, 3]).encode(x="at_s:Q")
    layers = alt.layer(sent, *lines(y, x, "bins", steps=True), step, _touch_rates("bins", x, "from (s after the step)"))
    return layers.add_params(alt.param(name="top", value=1)).properties(width="container", height=130)


def _x(field: str) -> alt.X:
    return seconds(field, _SINCE_PHASE, [0, alt.ExprRef("end")])


def _rates(title: str) -> dict[str, alt.Y]:
    scale = alt.Scale(domainMin=0, domainMax=TOP, nice=False)
    return {name: alt.Y(f"{name}:Q", axis=rate_axis(), title=title, scale=scale) for name in _RATES}


def _steps() -> list[alt.Chart]:
    """The load's steps as backgrounds, the first without any."""
    shade = alt.Opacity("kind:O", legend=None, scale=alt.Scale(domain=["even", "odd"], range=[0, 0.16]))
    tooltip = [
        alt.Tooltip("caption:N", title="offered"),
        alt.Tooltip("from_s:Q", title="from (s)", format=",.4~r"),
        alt.Tooltip("to_s:Q", title="to (s)", format=",.4~r"),
    ]
    band = named("steps").mark_rect(clip=True, color=SHADE)
    name = named("steps").mark_text(align="left", baseline="top", dx=6, fontSize=11, clip=True, style="phase-name")
    return [
        band.encode(x=_x("from_s"), x2="to_s:Q", opacity=shade, tooltip=tooltip),
        name.encode(x=_x("from_s"), y=alt.value(4), text=alt.Text("caption:N")),
    ]


def _windows() -> list[alt.Chart]:
    """The windows that are compared, as labelled bars over the lines."""
    top, bottom = _WINDOW_PX
    tooltip = [
        alt.Tooltip("window:N"),
        alt.Tooltip("from_s:Q", title="from (s)", format=",.4~r"),
        alt.Tooltip("to_s:Q", title="to (s)", format=",.4~r"),
    ]
    bar = named("windows").mark_rect(clip=True, fillOpacity=0.1, strokeWidth=1, style="window")
    name = named("windows").mark_text(baseline="middle", fontSize=11, clip=True, style="window-name")
    return [
        bar.encode(x=_x("from_s"), x2="to_s:Q", y=alt.value(top), y2=alt.value(bottom), tooltip=tooltip),
        name.encode(x=_x("middle_s"), y=alt.value((top + bottom) / 2), text="window:N"),
    ]


def _changes(series: str) -> list[alt.Chart]:
    """Where the series changes its level, with its interval."""
    own = alt.FieldEqualPredicate(field="series", equal=series)
    tooltip = [
        alt.Tooltip("words:N", title="level changes at"),
        alt.Tooltip("before:N"),
        alt.Tooltip("after:N"),
        alt.Tooltip("p:N", title="by chance"),
    ]
    at, low = _x("at_s"), _x("low_s")
    interval = named("changes").transform_filter(own).mark_rect(clip=True, opacity=0.3, style="change")
    rule = named("changes").transform_filter(own).mark_rule(strokeWidth=1.5, strokeDash=[5, 3], style="change")
    return [
        interval.transform_filter("isValid(datum.low_s)").encode(x=low, x2="high_s:Q", tooltip=tooltip),
        rule.encode(x=at, tooltip=tooltip),
    ]


def _touch_latency() -> alt.Chart:
    tooltip = [
        alt.Tooltip("second:Q", title="second", format=",.4~r"),
        *[alt.Tooltip(f"{name}_ms:Q", title=f"{name} (ms)", format=",.4~r") for name in TIMES],
        *[alt.Tooltip(f"{name}:Q", format=",.4~r") for name in ("offered", "acknowledged", "arrived")],
    ]
    chart: alt.Chart = (
        named("seconds").mark_rule(opacity=0, strokeWidth=6, clip=True).encode(x=_x("second"), tooltip=tooltip)
    )
    return chart


def _touch_rates(source: str, x: alt.X, title: str) -> alt.Chart:
    """What the pointer finds: the bin's own counts."""
    tooltip = [
        alt.Tooltip("from_s:Q", title=title, format=",.4~r"),
        *[alt.Tooltip(f"{name}:Q", format=",.4~r") for name in _RATES],
        alt.Tooltip("detail:N", title="sent, per bin"),
    ]
    shown = tooltip if source == "rates" else tooltip[:-1]
    chart: alt.Chart = (
        named(source)
        .mark_rect(opacity=0, clip=True)
        .encode(x=x, x2="to_s:Q", y=alt.value(0), y2=alt.value("height"), tooltip=shown)
    )
    return chart

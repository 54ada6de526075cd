"""The charts of a load step (Fig. 7 of the TriggerPerf paper): latency and rates across it, and 10 s around it."""

from __future__ import annotations

import altair as alt

from stepbench_charts.parts import (
    LATENCY,
    LOW,
    SHADE,
    TIMES,
    TOP,
    framed,
    lines,
    named,
    rate_axis,
    seconds,
    time_axis,
    tooltips,
    touch,
)

_RATES = ["offered", "sent", "acknowledged"]
_SINCE_PHASE = "seconds since the phase began"
_SINCE_STEP = "seconds since the step"
_WINDOW_PX = (21, 35)
"""The page ends the upright axes where they leave room for these above the lines."""


def step_latency() -> alt.LayerChart | alt.FacetChart:
    """Draw p50, p90 and maximum of each second over a phase of several steps, with windows and change points."""
    scale = alt.Scale(type="log", nice=False, domain=[LOW, TOP])
    y = {name: alt.Y(f"{name}_ms:Q", scale=scale, axis=time_axis("y"), title=LATENCY) for name in TIMES}
    layers = alt.layer(*_steps(), *lines(y, _x("second")), _touch_latency(), *_windows(), *_changes("latency_ms"))
    return framed(layers, 240, low=0.1, top=1, end=1)


def step_rates() -> alt.LayerChart | alt.FacetChart:
    """Draw the events due, sent and acknowledged in each bin, per second."""
    layers = alt.layer(
        *_steps(),
        *lines(_rates("events per second"), _x("from_s"), "rates", steps=True),
        _touch_rates("rates", _x("from_s"), "from (s)"),
        *_windows(),
        *_changes("achieved_per_s"),
    )
    return framed(layers, 170, top=1, end=1)


def step_strip() -> alt.LayerChart | alt.FacetChart:
    """Draw the bins as counted, 5 s to either side of a step: a bar for what was sent, so that a gap shows."""
    x = alt.X("from_s:Q", title=_SINCE_STEP, scale=alt.Scale(nice=False), axis=alt.Axis(tickCount=10))
    y = _rates("events in a bin")
    sent = (
        named("bins")
        .mark_rect(clip=True, opacity=0.3, style="sent-bin")
        .encode(x=x, x2="to_s:Q", y=y["sent"], y2=alt.YDatum(0))
    )
    step = named("step").mark_rule(strokeWidth=1.5, strokeDash=[5, 3]).encode(x="at_s:Q")
    layers = alt.layer(sent, *lines(y, x, "bins", steps=True), step, _touch_rates("bins", x, "from (s after the step)"))
    return framed(layers, 130, top=1)


def _x(field: str) -> alt.X:
    return seconds(field, _SINCE_PHASE, [0, alt.ExprRef("end")])


def _rates(title: str) -> dict[str, alt.Y]:
    scale = alt.Scale(domainMin=0, domainMax=TOP, nice=False)
    return {name: alt.Y(f"{name}:Q", axis=rate_axis(), title=title, scale=scale) for name in _RATES}


def _steps() -> list[alt.Chart]:
    """Draw the load's steps as backgrounds, the first without any."""
    shade = alt.Opacity("kind:O", legend=None, scale=alt.Scale(domain=["even", "odd"], range=[0, 0.16]))
    band = named("steps").mark_rect(clip=True, color=SHADE)
    name = named("steps").mark_text(align="left", baseline="top", dx=6, fontSize=11, clip=True, style="phase-name")
    return [
        band.encode(x=_x("from_s"), x2="to_s:Q", opacity=shade),
        name.encode(x=_x("from_s"), y=alt.value(4), text=alt.Text("caption:N")),
    ]


def _windows() -> list[alt.Chart]:
    """Draw the windows that are compared, as labelled bars over the lines."""
    top, bottom = _WINDOW_PX
    tooltip = tooltips({"window:N": None, "from_s:Q": "from (s)", "to_s:Q": "to (s)"})
    bar = named("windows").mark_rect(clip=True, fillOpacity=0.1, strokeWidth=1, style="window")
    name = named("windows").mark_text(baseline="middle", fontSize=11, clip=True, style="window-name")
    return [
        bar.encode(x=_x("from_s"), x2="to_s:Q", y=alt.value(top), y2=alt.value(bottom), tooltip=tooltip),
        name.encode(x=_x("middle_s"), y=alt.value((top + bottom) / 2), text="window:N"),
    ]


def _changes(series: str) -> list[alt.Chart]:
    """Mark where the series changes its level, with its interval."""
    own = alt.FieldEqualPredicate(field="series", equal=series)
    tooltip = tooltips({"words:N": "level changes at", "before:N": None, "after:N": None, "p:N": "by chance"})
    at, low = _x("at_s"), _x("low_s")
    interval = named("changes").transform_filter(own).mark_rect(clip=True, opacity=0.3, style="change")
    rule = named("changes").transform_filter(own).mark_rule(strokeWidth=1.5, strokeDash=[5, 3], style="change")
    return [
        interval.transform_filter("isValid(datum.low_s)").encode(x=low, x2="high_s:Q", tooltip=tooltip),
        rule.encode(x=at, tooltip=tooltip),
    ]


def _touch_latency() -> alt.Chart:
    times = {f"{name}_ms:Q": f"{name} (ms)" for name in TIMES}
    rates = dict.fromkeys(("offered:Q", "acknowledged:Q", "arrived:Q"))
    tooltip = tooltips({"second:Q": "second", **times, **rates})
    return touch(named("seconds").mark_rule(clip=True).encode(x=_x("second"), tooltip=tooltip), "second", shown=0.5)


def _touch_rates(source: str, x: alt.X, title: str) -> alt.Chart:
    """Show the bin's own counts."""
    tooltip = tooltips({"from_s:Q": title, **dict.fromkeys(f"{name}:Q" for name in _RATES)})
    shown = [*tooltip, *tooltips({"detail:N": "sent, per bin"})] if source == "rates" else tooltip
    bins = named(source).mark_rect(clip=True, color=SHADE)
    whole = bins.encode(x=x, x2="to_s:Q", y=alt.value(0), y2=alt.value("height"), tooltip=shown)
    return touch(whole, "from_s", shown=0.4, nearest=False)

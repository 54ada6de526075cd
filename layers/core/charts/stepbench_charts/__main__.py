"""
The figures as declarative specifications, written with Altair.

The data are named, not inlined, so the specifications are constants: `charts.json` holds what
`python -m stepbench_charts` prints. It is a product, made by `layers/core/Makefile` for the layer and for a
checkout, so rendering a report needs no Altair. These modules import Altair and what is pure, since that build has no
other library. Colours, fonts and widths are the page's business (`templates/page.js`): it knows light, dark and narrow.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import altair as alt

from stepbench_charts.dataflow import (
    end_to_end_bars,
    gantt,
    per_dollar_bars,
    store_over_time,
    time_parts,
    transfer_parts,
)
from stepbench_charts.distributions import box_plot, clock_curves, share_bars
from stepbench_charts.operations import heat_map, line_up, percentile_plot, scaling_plot
from stepbench_charts.parts import (
    FORMULA,
    LABELS,
    LATENCY,
    SHADE,
    SHAPES,
    SHARE_WITHIN,
    TIMES,
    Y_EXTENT,
    distribution,
    framed,
    lines,
    log_scale,
    named,
    named_curves,
    rate_axis,
    seconds,
    series_legend,
    time_axis,
    tooltips,
    touch,
    touch_points,
    zoom,
)
from stepbench_charts.steps import step_latency, step_rates, step_strip
from stepbench_charts.transfers import hour_map, progress_curves, rate_over_time, size_scatter, time_curves

_RATES = ["offered", "acknowledged", "arrived"]


def charts() -> dict[str, dict[str, Any]]:
    """Return all specifications by name; each names its data sets, such as `curves` and `quantiles`."""
    specified = {
        "ecdf": _ecdf(),
        "boxes": box_plot(),
        "latency": _latency(),
        "rates": _rates(_RATES),
        "operation-rates": _rates(_RATES[:2]),
        "percentiles": percentile_plot(),
        "percentiles-runs": percentile_plot(repeated=True),
        "scaling": scaling_plot(),
        "step-latency": step_latency(),
        "step-rates": step_rates(),
        "step-strip": step_strip(),
        "line-up": line_up(),
        "heat-map": heat_map(),
        "shares": share_bars(),
        "clock": clock_curves(),
        "transfer-sizes": size_scatter(),
        "transfer-time": rate_over_time(),
        "transfer-curves": time_curves(),
        "transfer-hours": hour_map(),
        "transfer-progress": progress_curves(),
        "dataflow-gantt": gantt(),
        "dataflow-time-parts": time_parts(),
        "dataflow-transfer-parts": transfer_parts(),
        "dataflow-end-to-end": end_to_end_bars(),
        "dataflow-per-dollar": per_dollar_bars(),
        "dataflow-over-time": store_over_time(),
    }
    return {name: chart.to_dict() for name, chart in specified.items()}


def _ecdf() -> alt.LayerChart | alt.FacetChart:
    """Overlay distributions on a log axis (Fig. 5 of the TriggerPerf paper), with quantiles and their intervals."""
    x = alt.X("latency_ms:Q", scale=log_scale(), axis=time_axis("x"), title=f"{LATENCY}, {FORMULA} (log scale)")
    shares = alt.Axis(values=[0, 0.25, 0.5, 0.75, 0.9, 1], format=".0%", minExtent=Y_EXTENT)
    y = alt.Y("probability:Q", title="share of events", scale=alt.Scale(domain=[0, 1]), axis=shares)
    pick = alt.selection_point(name="pick", fields=["series"], bind="legend")
    shade = alt.condition(pick, alt.value(1.0), alt.value(0.15))
    legend = series_legend(symbolStrokeWidth=0)
    color = alt.Color("series:N", title=None, legend=legend, scale=alt.Scale(domain=LABELS))
    curves = distribution("curves", x, y, color).encode(opacity=shade).add_params(pick, zoom())
    tooltip = tooltips({"curve:N": "trial", "latency_ms:Q": "latency (ms)"})
    points = touch_points("curves", x, y, tooltip=[*tooltip, SHARE_WITHIN])
    layers = alt.layer(curves, *points, _intervals(y, color, shade), _quantiles(x, y, color, shade))
    return framed(layers, 340, labels=[], entry_px=100)


def _intervals(y: alt.Y, color: alt.Color, shade: Any) -> alt.Chart:  # noqa: ANN401 -- an Altair condition
    """Draw a bar from end to end of a quantile's 95 % interval."""
    chart: alt.Chart = (
        named_curves("quantiles")
        .mark_rule(strokeWidth=4, strokeOpacity=0.4, clip=True)
        .encode(x=alt.X("low_ms:Q", scale=log_scale()), x2="high_ms:Q", y=y, color=color, opacity=shade)
        .transform_filter("isValid(datum.low_ms)")
    )
    return chart


def _quantiles(x: alt.X, y: alt.Y, color: alt.Color, shade: Any) -> alt.Chart:  # noqa: ANN401 -- an Altair condition
    tooltip = tooltips({"curve:N": "trial", "quantile:N": "quantile", "latency_ms:Q": "latency (ms)"})
    tooltip += tooltips({"low_ms:Q": "95 % from (ms)", "high_ms:Q": "95 % to (ms)"})
    shape = alt.Shape("series:N", title=None, scale=alt.Scale(domain=LABELS, range=SHAPES))
    chart: alt.Chart = (
        named_curves("quantiles")
        .mark_point(size=55, filled=True, opacity=1, clip=True)
        .encode(x=x, y=y, color=color, shape=shape, opacity=shade, tooltip=tooltip)
    )
    return chart


def _latency() -> alt.LayerChart | alt.FacetChart:
    """Draw one trial's p50, p90 and maximum of each second over its phases."""
    y = {name: alt.Y(f"{name}_ms:Q", scale=log_scale(18), axis=time_axis("y"), title=LATENCY) for name in TIMES}
    layers = alt.layer(_bands(), _band_names(), *lines(y, seconds("second")), _touch(_RATES), *_stalls())
    return layers.properties(width="container", height=200)


def _rates(names: list[str]) -> alt.LayerChart | alt.FacetChart:
    """Draw one trial's offered, acknowledged and (of triggers) arrived events per second over its phases."""
    scale = alt.Scale(domainMin=0, domainMax=alt.ExprRef("top"), nice=False)
    y = {name: alt.Y(f"{name}:Q", axis=rate_axis(), title="events per second", scale=scale) for name in names}
    layers = alt.layer(_bands(), _band_names(), *lines(y, seconds("second")), _touch(names), *_stalls())
    return framed(layers, 140, top=1)


def _touch(rates: list[str]) -> alt.Chart:
    """Show all numbers of the nearest second."""
    numbers = [*rates, *[f"{name}_ms" for name in TIMES]]
    tooltip = [
        alt.Tooltip("second:Q", title="second", format=","),
        *tooltips({"phase:N": "phase", **{f"{name}:Q": name.replace("_ms", " (ms)") for name in numbers}}),
    ]
    rules = named("seconds").mark_rule(clip=True).encode(x=seconds("second"), tooltip=tooltip)
    return touch(rules, "second", shown=0.5)


def _bands() -> alt.Chart:
    """Draw the phases as backgrounds, darker where nothing counts."""
    chart: alt.Chart = (
        named("phases")
        .mark_rect(clip=True, color=SHADE)
        .encode(
            x=seconds("from_s"),
            x2="to_s:Q",
            opacity=alt.Opacity(
                "kind:O", legend=None, scale=alt.Scale(domain=["measured", "not measured"], range=[0.07, 0.24])
            ),
        )
    )
    return chart


def _band_names() -> alt.Chart:
    chart: alt.Chart = (
        named("phases")
        .mark_text(align="left", baseline="top", dx=4, dy=3, fontSize=11, clip=True, style="phase-name")
        .encode(x=seconds("from_s"), y=alt.value(0), text=alt.Text("caption:N"))
        .transform_calculate(caption="datum.phase + (datum.kind === 'measured' ? '' : ' (not measured)')")
    )
    return chart


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


if __name__ == "__main__":
    json.dump(charts(), sys.stdout, separators=(",", ":"), sort_keys=True)
    sys.stdout.write("\n")

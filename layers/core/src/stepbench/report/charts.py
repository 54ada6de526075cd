"""
The figures as declarative specifications, written with Altair.

The data are named, not inlined, so the specifications are constants: `charts.json`, which the package ships, holds
what `python -m stepbench.report.charts` prints, and a test keeps it current. Rendering a report therefore needs
no Altair. Colours, fonts and widths are the page's business (`templates/page.js`): it knows light, dark and narrow.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import altair as alt

from stepbench.report.chart_boxes import box_plot
from stepbench.report.chart_clock import clock_curves
from stepbench.report.chart_matrix import heat_map, line_up
from stepbench.report.chart_operations import percentile_plot, scaling_plot
from stepbench.report.chart_parts import (
    FORMULA,
    LABELS,
    LATENCY,
    SHADE,
    SHAPES,
    TIMES,
    Y_EXTENT,
    distribution,
    lines,
    log_scale,
    named,
    rate_axis,
    seconds,
    time_axis,
    zoom,
)
from stepbench.report.chart_shares import share_bars
from stepbench.report.chart_step import step_latency, step_rates, step_strip

_RATES = ["offered", "acknowledged", "arrived"]


def charts() -> dict[str, dict[str, Any]]:
    """All specifications by name; each names its data sets, such as `curves` and `quantiles`."""
    made = {
        "ecdf": _ecdf(),
        "boxes": box_plot(),
        "latency": _latency(),
        "rates": _rates(_RATES),
        "operation-rates": _rates(_RATES[:2]),
        "percentiles": percentile_plot(),
        "scaling": scaling_plot(),
        "step-latency": step_latency(),
        "step-rates": step_rates(),
        "step-strip": step_strip(),
        "line-up": line_up(),
        "heat-map": heat_map(),
        "shares": share_bars(),
        "clock": clock_curves(),
    }
    return {name: chart.to_dict() for name, chart in made.items()}


def _ecdf() -> alt.LayerChart | alt.FacetChart:
    """Overlaid distributions with a log axis (Fig. 5 of the TriggerPerf paper), quantiles and their intervals."""
    x = alt.X("latency_ms:Q", scale=log_scale(), axis=time_axis("x"), title=f"{LATENCY}, {FORMULA} (log scale)")
    y = alt.Y("probability:Q", title="share of events", scale=alt.Scale(domain=[0, 1]), axis=_share_axis())
    pick = alt.selection_point(name="pick", fields=["curve"], bind="legend")
    shade = alt.condition(pick, alt.value(1.0), alt.value(0.15))
    legend = alt.Legend(symbolStrokeWidth=0)
    color = alt.Color("curve:N", title=None, legend=legend, scale=alt.Scale(domain=LABELS))
    curves = distribution("curves", x, y, color).encode(opacity=shade).add_params(pick, zoom())
    touch = (
        named("curves")
        .mark_point(size=90, opacity=0, filled=True, clip=True)
        .encode(x=x, y=y, color=color, tooltip=_ecdf_tooltip())
    )
    layers = alt.layer(curves, touch, _intervals(y, color, shade), _quantiles(x, y, color, shade))
    return layers.add_params(alt.param(name="labels", value=[])).properties(width="container", height=340)


def _ecdf_tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("curve:N", title="store"),
        alt.Tooltip("latency_ms:Q", title="latency (ms)", format=",.4~r"),
        alt.Tooltip("probability:Q", title="share within", format=".1%"),
    ]


def _intervals(y: alt.Y, color: alt.Color, shade: Any) -> alt.Chart:  # noqa: ANN401 -- an Altair condition
    """A bar from end to end of a quantile's 95 % interval."""
    chart: alt.Chart = (
        named("quantiles")
        .mark_rule(strokeWidth=4, strokeOpacity=0.4, clip=True)
        .encode(x=alt.X("low_ms:Q", scale=log_scale()), x2="high_ms:Q", y=y, color=color, opacity=shade)
        .transform_filter("isValid(datum.low_ms)")
    )
    return chart


def _quantiles(x: alt.X, y: alt.Y, color: alt.Color, shade: Any) -> alt.Chart:  # noqa: ANN401 -- an Altair condition
    tooltip = [
        alt.Tooltip("curve:N", title="store"),
        alt.Tooltip("quantile:N", title="quantile"),
        alt.Tooltip("latency_ms:Q", title="latency (ms)", format=",.4~r"),
        alt.Tooltip("low_ms:Q", title="95 % from (ms)", format=",.4~r"),
        alt.Tooltip("high_ms:Q", title="95 % to (ms)", format=",.4~r"),
    ]
    shape = alt.Shape("curve:N", title=None, scale=alt.Scale(domain=LABELS, range=SHAPES))
    chart: alt.Chart = (
        named("quantiles")
        .mark_point(size=55, filled=True, opacity=1, clip=True)
        .encode(x=x, y=y, color=color, shape=shape, opacity=shade, tooltip=tooltip)
    )
    return chart


def _latency() -> alt.LayerChart | alt.FacetChart:
    """One trial's p50, p90 and maximum of each second over its phases."""
    y = {name: alt.Y(f"{name}_ms:Q", scale=log_scale(18), axis=time_axis("y"), title=LATENCY) for name in TIMES}
    return alt.layer(_bands(), _band_names(), *lines(y, seconds("second")), _touch(_RATES)).properties(
        width="container", height=200
    )


def _rates(names: list[str]) -> alt.LayerChart | alt.FacetChart:
    """One trial's offered, acknowledged and (of triggers) arrived events per second over its phases."""
    scale = alt.Scale(domainMin=0, domainMax=alt.ExprRef("top"), nice=False)
    y = {name: alt.Y(f"{name}:Q", axis=rate_axis(), title="events per second", scale=scale) for name in names}
    layers = alt.layer(_bands(), _band_names(), *lines(y, seconds("second")), _touch(names))
    return layers.add_params(alt.param(name="top", value=1)).properties(width="container", height=140)


def _touch(rates: list[str]) -> alt.Chart:
    """What the pointer finds: all numbers of the second."""
    numbers = [*rates, *[f"{name}_ms" for name in TIMES]]
    tooltip = [
        alt.Tooltip("second:Q", title="second", format=","),
        alt.Tooltip("phase:N", title="phase"),
        *[alt.Tooltip(f"{name}:Q", title=name.replace("_ms", " (ms)"), format=",.4~r") for name in numbers],
    ]
    chart: alt.Chart = (
        named("seconds").mark_rule(opacity=0, strokeWidth=8, clip=True).encode(x=seconds("second"), tooltip=tooltip)
    )
    return chart


def _bands() -> alt.Chart:
    """The phases as backgrounds: darker where nothing counts."""
    chart: alt.Chart = (
        named("phases")
        .mark_rect(clip=True, color=SHADE)
        .encode(
            x=seconds("from_s"),
            x2="to_s:Q",
            opacity=alt.Opacity(
                "kind:O", legend=None, scale=alt.Scale(domain=["measured", "not measured"], range=[0.07, 0.24])
            ),
            tooltip=[
                alt.Tooltip("phase:N"),
                alt.Tooltip("kind:N", title=" "),
                alt.Tooltip("from_s:Q", title="from (s)", format=",.4~r"),
                alt.Tooltip("to_s:Q", title="to (s)", format=",.4~r"),
            ],
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


def _share_axis() -> alt.Axis:
    return alt.Axis(values=[0, 0.25, 0.5, 0.75, 0.9, 1], format=".0%", minExtent=Y_EXTENT)


if __name__ == "__main__":
    json.dump(charts(), sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")

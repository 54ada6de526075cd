"""Box plots on a log axis (Fig. 6 of the TriggerPerf paper); what lies beyond the drain limit stays open."""

from __future__ import annotations

import altair as alt

from stepbench.report.boxes import ROW_PX
from stepbench.report.chart_parts import FORMULA, LABELS, LATENCY, LOW, TOP, named, time_axis, zoom

_BOX_PX = 16
_NAME_PX = -15
_EDGES = {"start": alt.value(0), "end": alt.value("width")}
_ARROWS = {"start": alt.value(6), "end": alt.value(alt.ExprRef("width - 6"))}
_TITLE = f"{LATENCY}, {FORMULA} (log scale)"
_QUANTILES = ("p1", "p25", "p50", "p75", "p90", "p99")


def box_plot() -> alt.LayerChart | alt.FacetChart:
    """
    One row a window: the box from p25 to p75, the median, whiskers to p1 and p99, a tick at p90.

    The page makes the figure as high as it has rows.
    A part that is `open` runs, dashed, to the edge of the plot: its end is not known to be anywhere.
    """
    solid = [
        _part("box").mark_bar(size=_BOX_PX, clip=True, fillOpacity=0.3, strokeWidth=1.5, style="box"),
        _part("whisker").mark_rule(strokeWidth=1.5, clip=True, style="box"),
    ]
    whole = [chart.encode(x=_x("from_ms"), x2="to_ms:Q", y=_y(), tooltip=_tooltip()) for chart in solid]
    marks = [_tick("p1", 8), _tick("p99", 8), _tick("p90", _BOX_PX / 2), _tick("p50", _BOX_PX + 4, 3.5)]
    params = [alt.param(name="labels", value=[]), alt.param(name="low", value=0.1), alt.param(name="top", value=1)]
    return alt.layer(whole[0].add_params(*params, zoom()), *whole[1:], *_open(), *marks, _names()).properties(
        width="container", height=ROW_PX
    )


def _open() -> list[alt.Chart]:
    """Dashed to the edge, and an arrow there."""
    boxes = [
        _part("open-box")
        .mark_bar(size=_BOX_PX, clip=True, fillOpacity=0.12, strokeDash=[3, 3], style="box")
        .encode(x=_x("from_ms"), x2=_EDGES["end"], y=_y(), tooltip=_tooltip()),
        _part("open-whisker")
        .mark_rule(strokeWidth=1.5, strokeDash=[3, 3], clip=True, style="box")
        .encode(x=_x("from_ms"), x2=_EDGES["end"], y=_y(), tooltip=_tooltip()),
        _part("open-start")
        .mark_rule(strokeWidth=1.5, strokeDash=[3, 3], clip=True, style="box")
        .encode(x=_x("to_ms"), x2=_EDGES["start"], y=_y(), tooltip=_tooltip()),
    ]
    arrows = [
        named("parts")
        .transform_filter(alt.FieldOneOfPredicate(field="part", oneOf=parts))
        .mark_point(shape=shape, size=70, filled=True, opacity=1, dx=0, style="box-end")
        .encode(x=x, y=_y(), tooltip=_tooltip())
        for parts, shape, x in (
            (["open-box", "open-whisker"], "triangle-right", _ARROWS["end"]),
            (["open-start"], "triangle-left", _ARROWS["start"]),
        )
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
        .encode(x=_x(quantile), y=_y(), tooltip=_tooltip())
    )
    return chart


def _names() -> alt.Chart:
    """The rows' names over their boxes: beside them, they would leave no room on a phone."""
    chart: alt.Chart = (
        named("boxes")
        .mark_text(align="left", baseline="middle", dy=_NAME_PX, fontSize=12, style="box-name")
        .encode(x=alt.value(0), y=_y(), text="caption:N")
    )
    return chart


def _x(field: str) -> alt.X:
    scale = alt.Scale(type="log", nice=False, domain=[LOW, TOP])
    return alt.X(f"{field}:Q", scale=scale, axis=time_axis("x"), title=_TITLE, stack=None)


def _y() -> alt.Y:
    return alt.Y("label:N", sort=None, scale=alt.Scale(domain=LABELS), axis=None)


def _tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("label:N", title="window"),
        alt.Tooltip("n:Q", format=","),
        *[alt.Tooltip(f"{name}_words:N", title=name) for name in _QUANTILES],
    ]

"""
The report's figures as declarative specifications; here the parts that they share.

Scales, axes, touching, zooming, rows with their names, lines over time.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import altair as alt

_MS_TEXT = (
    "abs(datum.value) >= 1000 ? format(datum.value / 1000, '~g') + ' s' : "
    "abs(datum.value) < 1 ? format(datum.value * 1000, '~g') + ' µs' : format(datum.value, '~g') + ' ms'"
)
LEADING_DIGIT = "round(datum.value / pow(10, floor(log(datum.value) / LN10 + 1e-9)))"
_DECADES = "log(domain('{scale}')[1] / domain('{scale}')[0]) / LN10"
LEGEND_PX = "(min(1200, windowSize()[0]) - 140)"
Y_EXTENT = 52
"""All plots begin at the same place, so that those of one trial stand over each other."""
DASHES = [[1, 0], [6, 3], [2, 2], [9, 3, 2, 3], [4, 1]]
"""There are as many as `curves.DASHES` says."""
WIDTHS = [3.2, 2.2, 1.4]
"""The first lies widest and lowest: lines that coincide stay visible."""
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"]
SHADE = "#808a94"
LATENCY, FORMULA, JUDGED = "{latency}", "{formula}", "{judged}"
"""Placeholders in titles: the name of the experiment's latency, its two times, and what the run is judged by."""
TIMES = ["p50", "p90", "max"]
LABELS = alt.ExprRef("labels")
"""The names in order, as the page gives them: one domain for all channels, or their legends would not merge."""
LOW, HIGH, TOP = alt.ExprRef("low"), alt.ExprRef("high"), alt.ExprRef("top")
"""Ends of an axis, as the page gives them."""
SHARE_WITHIN = alt.Tooltip("probability:Q", title="share within", format=".1%")
_WHEEL = "wheel![event.ctrlKey || event.metaKey]"
"""Zoom with a modifier only: a page has to scroll under the pointer."""
_TOUCHED = "touched"
_MOUSE_DRAG = "[pointerdown[event.pointerType !== 'touch'], window:pointerup] > window:pointermove!"


def named(source: str) -> alt.Chart:
    """Return a chart over a data set that comes with the page."""
    return alt.Chart(alt.NamedData(name=source))


def tooltips(titles: dict[str, str | None]) -> list[alt.Tooltip]:
    """Show fields by their titles (None: by their own names), numbers with four significant digits."""
    return [
        alt.Tooltip(field, title=title or alt.Undefined, format=",.4~r" if field.endswith(":Q") else alt.Undefined)
        for field, title in titles.items()
    ]


def touch(marks: alt.Chart, *fields: str, shown: float, nearest: bool = True) -> alt.Chart:
    """
    Make the marks the figure's answer to pointer, finger and keyboard: each is seen while it is touched.

    Every figure has one such layer; `page.js` knows it by its name. Marks with tooltips of their own lie above it.

    Args:
        marks: of one datum each, with a tooltip.
        fields: what distinguishes one mark from the others.
        shown: the opacity of the one that is touched.
        nearest: whether any place in the plot belongs to the mark that is nearest; else a mark has its own room only.
    """
    touched = alt.selection_point(
        name=_TOUCHED,
        on="pointerover",
        clear="pointerout",
        toggle=False,
        nearest=nearest,
        empty=False,
        fields=list(fields),
    )
    opacity = alt.when(touched).then(alt.value(shown)).otherwise(alt.value(0))
    chart: alt.Chart = marks.encode(opacity=opacity).add_params(touched).properties(name="touch")
    return chart


def ring(source: str) -> alt.Chart:
    """Circle what is touched: the mark itself stays to be seen."""
    chart: alt.Chart = named(source).mark_point(size=120, strokeWidth=2, filled=False, clip=True, style=_TOUCHED)
    return chart


def row_axis(field: str) -> alt.Y:
    """Return the axis of rows, in the page's order and without labels: their names stand over their bars."""
    return alt.Y(f"{field}:N", sort=None, scale=alt.Scale(domain=LABELS), axis=None)


def row_names(source: str, y: alt.Y, above_px: float) -> alt.Chart:
    """Draw the rows' names over their bars: beside them, they would leave no room on a phone."""
    text = named(source).mark_text(align="left", baseline="middle", dy=-above_px, fontSize=12, style="box-name")
    chart: alt.Chart = text.encode(x=alt.value(0), y=y, text="caption:N")
    return chart


def touch_rows(source: str, y: alt.Y, tooltip: list[alt.Tooltip], field: str = "row") -> alt.Chart:
    """Show a row's numbers wherever the row is touched, from edge to edge."""
    whole = named(source).mark_rect(color=SHADE).encode(x=alt.value(0), x2=alt.value("width"), y=y, tooltip=tooltip)
    return touch(whole, field, shown=0.15, nearest=False)


def touch_points(source: str, x: alt.X, y: alt.Y, **channels: Any) -> list[alt.Chart]:  # noqa: ANN401 -- Altair's own
    """Mark the nearest point, and draw lines through it from axis to axis."""
    points = ring(source).encode(x=x, y=y, **channels)
    names = {axis: str(channel.shorthand).split(":")[0] for axis, channel in (("x", x), ("y", y))}
    at = {axis: f"{_TOUCHED}.{name} ? scale('{axis}', {_TOUCHED}.{name}[0]) : -9" for axis, name in names.items()}
    rule = named(source).transform_aggregate(rows="count()").mark_rule(opacity=0.5, clip=True)
    lines = [rule.encode(**{axis: alt.value(alt.ExprRef(place))}) for axis, place in at.items()]
    return [touch(points, *names.values(), shown=1), *lines]


Figure: TypeAlias = alt.LayerChart | alt.FacetChart


def framed(layers: Figure, height_px: int, **params: Any) -> Figure:  # noqa: ANN401 -- any JSON
    """Give the layers a height, the width of their place on the page, and parameters with their defaults."""
    declared = [alt.param(name=name, value=value) for name, value in params.items()]
    return layers.add_params(*declared).properties(width="container", height=height_px)


def zoom() -> alt.Parameter:
    """Let the reader move and stretch the horizontal axis."""
    return alt.selection_interval(name="zoom", bind="scales", encodings=["x"], zoom=_WHEEL, translate=_MOUSE_DRAG)


def linear() -> alt.Scale:
    """Return a linear scale from 0 to where the page ends it."""
    return alt.Scale(domain=[0, TOP], nice=False)


def log_between(high: alt.ExprRef = TOP) -> alt.Scale:
    """Return a logarithmic scale whose ends the page gives."""
    return alt.Scale(type="log", nice=False, domain=[LOW, high])


def log_scale(padding_px: int = 8) -> alt.Scale:
    """Return a logarithmic scale from the least to the greatest number."""
    return alt.Scale(type="log", nice=False, padding=padding_px)


def time_axis(scale: str) -> alt.Axis:
    """Label a log axis with units; the wider it spans, the fewer of 1, 2, 3 … 9 get a label."""
    decades = _DECADES.format(scale=scale)
    shown = f"{decades} > 2.5 ? {LEADING_DIGIT} === 1 : {decades} < 0.7 || indexof([1, 2, 5], {LEADING_DIGIT}) >= 0"
    return alt.Axis(
        labelExpr=f"({shown}) ? ({_MS_TEXT}) : ''", labelOverlap=True, minExtent=Y_EXTENT if scale == "y" else 0
    )


def named_curves(source: str) -> alt.Chart:
    """Return a chart over the points of curves, which know the full name only: with each one's series and dash."""
    names = alt.LookupData(data=alt.NamedData(name=f"{source}-names"), key="curve", fields=["series", "dash"])
    chart: alt.Chart = named(source).transform_lookup(lookup="curve", from_=names)
    return chart


def series_legend(**look: Any) -> alt.Legend:  # noqa: ANN401 -- Altair's own
    """
    Return a legend of as many columns as the labels leave room for: one that is cut short may read like another.

    The room follows from the window's size: the plot's own width is not yet known when Vega lays out the legend.
    """
    columns = alt.ExprRef(f"max(1, floor({LEGEND_PX} / entry_px))")
    return alt.Legend(columns=columns, labelLimit=alt.ExprRef(LEGEND_PX), **look)


def series_color(**look: Any) -> alt.Color:  # noqa: ANN401 -- Altair's own
    """Return the colour of each series, with its legend."""
    return alt.Color("series:N", title=None, legend=series_legend(**look), scale=alt.Scale(domain=LABELS))


def series_shape(**channel: Any) -> alt.Shape:  # noqa: ANN401 -- Altair's own
    """Return the shape of each series."""
    return alt.Shape("series:N", title=None, scale=alt.Scale(domain=LABELS, range=SHAPES), **channel)


def run_dash() -> alt.StrokeDash:
    """Return the dash of each curve; in a legend of series it has no place."""
    return alt.StrokeDash("dash:N", legend=None, scale=alt.Scale(domain=[*range(len(DASHES))], range=DASHES))


BY_SHARE = alt.Order("probability:Q")


def distribution(source: str, x: alt.X, y: alt.Y, color: alt.Color) -> alt.Chart:
    """Draw empirical distributions as steps, one line for each curve: from share to share, so that none ever falls."""
    line = named_curves(source).mark_line(interpolate="step-after", strokeWidth=2, clip=True)
    chart: alt.Chart = line.encode(x=x, y=y, color=color, strokeDash=run_dash(), detail="curve:N", order=BY_SHARE)
    return chart


def rate_axis() -> alt.Axis:
    """Return ticks of a linear axis of counts or rates."""
    return alt.Axis(format=",~r", tickCount=4, minExtent=Y_EXTENT)


def seconds(field: str, title: str = "seconds since the first intended send", domain: list[Any] | None = None) -> alt.X:
    """Return the time axis; without a `domain`, it is as long as the data."""
    axis = alt.Axis(tickCount=12, tickMinStep=1)
    return alt.X(f"{field}:Q", title=title, scale=alt.Scale(nice=False, domain=domain or alt.Undefined), axis=axis)


def lines(
    measures: dict[str, alt.Y], x: alt.X, source: str = "seconds", *, steps: bool = False, named_above: bool = False
) -> list[alt.Chart]:
    """
    Draw one line for each measure; its points are marked, since a lone one between gaps makes no line.

    `steps`: a value holds until the next; then there is no point to mark. `named_above`: a chart above has the legend.
    """
    names = list(measures)
    legend = None if named_above else alt.Legend(symbolType="stroke", symbolSize=420, symbolStrokeWidth=2)
    color, dash = alt.Scale(domain=names), alt.Scale(domain=names, range=DASHES[: len(names)])
    marked = False if steps else alt.OverlayMarkDef(size=9, filled=True)
    drawn = [
        named(source)
        .transform_calculate(series=f"'{name}'")
        .mark_line(strokeWidth=width, clip=True, point=marked, interpolate="step-after" if steps else alt.Undefined)
        .encode(
            x=x,
            y=y,
            color=alt.Color("series:N", scale=color, title=None, legend=legend),
            strokeDash=alt.StrokeDash("series:N", scale=dash, title=None),
        )
        for (name, y), width in zip(measures.items(), WIDTHS, strict=False)
    ]
    return [drawn[0].add_params(zoom()), *drawn[1:]]

"""
The section on how latencies are distributed: curves, boxes, and whether there are several modes.

What a log axis cannot show, and what lies beyond the drain limit, is said beside the figure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.experiment import HEADLINE_QUANTILES, QUANTILES, measure_of
from stepbench.report import BOX_QUANTILES, BOX_ROW_PX, numbers
from stepbench.report import document as doc
from stepbench.report.changes import describe_modality
from stepbench.report.curves import by_series, curve_of, figure_parts, legend_of
from stepbench.report.figures import Drawing
from stepbench.report.numbers import BEYOND
from stepbench.report.run import columns, drawn_interval, drawn_windows, short, window_label

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.chart_data import BoxStats, EcdfCurve
    from stepbench.contracts.findings import Modality
    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.result import TrialResult
    from stepbench.report.curves import Legend
    from stepbench.report.run import Row, RunView, TrialView, WindowRow

    WindowCurve = tuple[WindowRow, EcdfCurve]
    Box = tuple[WindowRow, BoxStats]

BOXES_PER_FIGURE = 12
_ROOM = 1.12
"""How far beyond the quantiles the boxes' axis goes, as a factor: arrows of open ends need it."""
_LIGHT, _FULL = 0.2, 0.6
"""How opaque boxes are: of a trial's first window, and of those after it."""
_BOX_WORDS = tuple(f"{name}_words" for name in BOX_QUANTILES)


def distribution_section(run: RunView) -> doc.Section:
    """Return the section."""
    curves = tuple(curve_folds(run.results))
    nodes: list[doc.Node] = [*curves, *box_folds(run.results)]
    if any(view.summary.modality for view in run.trials):
        nodes.append(doc.Fold("Does a window's latency have more than one mode?", (_modes(run),)))
    nothing = () if curves else (doc.Sentence("No events, no distribution."),)
    return doc.Section("distribution", "Distribution", (*nothing, *nodes), link="Distribution")


def curve_folds(results: Sequence[TrialResult]) -> Iterator[doc.Fold]:
    """
    Yield all windows' curves, a few to a figure, in the order of the report.

    The first is folded, too, where a section before it has shown the same as percentiles.
    """
    drawn = [(row, curve) for row, curve in drawn_windows(results, "ecdf") if curve.latency_ms]
    answered = any(window.operations for result in results for window in result.summary.windows)
    for place, part in enumerate(figure_parts(drawn, lambda pair: pair[0])):
        measure, legend = measure_of(part[0][0].trial.experiment), legend_of([curve_of(row) for row, _ in part])
        plain = place == 0 and (measure.arrives or not answered)
        yield doc.Fold(f"{measure.title} of {legend.some}", (_curve(place, part, legend),), plain=plain)


def _curve(place: int, part: Sequence[WindowCurve], legend: Legend) -> doc.Figure:
    experiment = part[0][0].trial.experiment
    measure = measure_of(experiment)
    points = columns(("curve", "latency_ms", "probability"), [point for each in part for point in _points(*each)])
    names = ("curve", "quantile", "probability", "latency_ms", "low_ms", "high_ms")
    marks = columns(names, [mark for row, _ in part for mark in _quantile_marks(row)])
    data = {"curves": points, "quantiles": marks, "curves-names": legend.names, "quantiles-names": legend.names}
    drawing = Drawing(f"ecdf-{place}", "ecdf", data, legend.params, experiment=experiment)
    caption = (
        f"Empirical distribution of {measure.name}.{legend.common_words}{legend.line_words} Each mark is a quantile "
        f"(p50, p90, p95, p99), the bar through it its {doc.NINETY_FIVE} interval, where it has "
        f"one.{f' A curve that ends below 100{digits.NBSP}% lost the rest.' if measure.arrives else ''}"
    )
    for row, curve in part:
        if share := _hidden(curve):
            caption += (
                f" Of {row.label}, {share * 100:.1f}{digits.NBSP}% lie at or below 0{digits.NBSP}ms (clock error) and "
                "cannot be drawn on a log axis."
            )
    chart = doc.Chart(drawing, f"Empirical distribution of {measure.name} for {legend.text}")
    return doc.Figure((chart,), caption, "named")


def _hidden(curve: EcdfCurve) -> float:
    """Return which share lies at or below 0 ms, which a log axis cannot show."""
    points = zip(curve.latency_ms, curve.probability, strict=True)
    return max((share for latency_ms, share in points if latency_ms <= 0), default=0.0)


def _points(row: WindowRow, curve: EcdfCurve) -> Iterator[Row]:
    """Yield the points that can be drawn, before them the foot of the first step."""
    visible = [(x, share) for x, share in zip(curve.latency_ms, curve.probability, strict=True) if x > 0]
    if visible:
        yield (row.label, short(visible[0][0]), _hidden(curve))
    yield from ((row.label, short(x), round(share, 6)) for x, share in visible)


def _quantile_marks(row: WindowRow) -> Iterator[Row]:
    for name in HEADLINE_QUANTILES:
        estimate: Estimate = getattr(row.window.latency_ms, name)
        if estimate.value is not None and estimate.value > 0:
            yield (row.label, name, QUANTILES[name], estimate.value, *drawn_interval(estimate))


def box_folds(results: Sequence[TrialResult]) -> Iterator[doc.Fold]:
    """Yield all boxes, a few to a figure, in the order of the report, and their numbers as a table."""
    drawn = [(row, stats) for row, stats in drawn_windows(results, "boxes") if stats.n]
    ordered = [[box for runs in series for box in runs] for series in by_series(drawn, lambda box: box[0])]
    most = BOXES_PER_FIGURE
    parts = [own[at : at + most] for own in ordered for at in range(0, len(own), most)]
    if not parts:
        return
    compared = _compares_stores([row for row, _ in drawn])
    title = "Boxes: every store's windows beside each other" if compared else "The same as boxes"
    figures = tuple(_box_figure(place, part) for place, part in enumerate(parts))
    yield doc.Fold(title, figures, plain=compared)
    rows = (_box_row(*box) for part in parts for box in part)
    caption = "Quantiles of latency that the boxes are drawn from."
    table = doc.Table("boxes", caption, doc.columns("Window", "n", *BOX_QUANTILES), doc.body(rows), "reference")
    yield doc.Fold("The numbers of the boxes", (table,), style="")


def _compares_stores(rows: Sequence[WindowRow]) -> bool:
    """Return whether several stores have several windows each: their boxes are what the run is for."""
    stores = {row.trial.store for row in rows}
    return len(stores) > 1 and all(
        len({(r.window.phase, r.window.name) for r in rows if r.trial.store == store}) > 1 for store in stores
    )


def _quantiles(stats: BoxStats) -> dict[str, float | None]:
    """Return milliseconds by name, ascending; None in the missing mass."""
    return {name: getattr(stats, name) for name in BOX_QUANTILES}


def _box_figure(place: int, part: Sequence[Box]) -> doc.Figure:
    experiment, labels = part[0][0].trial.experiment, tuple(row.label for row, _ in part)
    measure, legend = measure_of(experiment), legend_of([curve_of(row) for row, _ in part])
    values = [value for _, stats in part for value in _quantiles(stats).values() if value is not None and value > 0]
    low_ms, top_ms = short(min(values, default=0.1) / _ROOM), short(max(values, default=1.0) * _ROOM)
    boxes = [_box(*box, caption) for box, caption in zip(part, legend.captions, strict=True)]
    first = {row.trial.index: row.label for row, _ in reversed(part)}
    windows = any(len(row.trial.windows) > 1 for row, _ in part)
    lines = [
        (row.label, *line, *_tip(stats), _FULL if windows and first[row.trial.index] != row.label else _LIGHT)
        for row, stats in part
        for line in _parts(stats)
    ]
    data = {
        "boxes": columns(("label", "caption", "n", *BOX_QUANTILES, *_BOX_WORDS), boxes),
        "parts": columns(("label", "part", "from_ms", "to_ms", "n", *_BOX_WORDS, "fill"), lines),
    }
    axis = {"labels": labels, "low": low_ms, "top": top_ms}
    drawing = Drawing(f"boxes-{place}", "boxes", data, axis, BOX_ROW_PX * len(labels), experiment)
    filled = " Lightly filled: a trial's first window." if windows else ""
    caption = (
        f"{measure.title} as boxes: from p25 to p75, the thick line the median, whiskers to p1 and p99, the small tick "
        f"p90. Dashed, with an arrow: open, since the end lies beyond what can be drawn.{filled}{legend.common_words}"
    )
    reasons = tuple(
        doc.Span(f"Of {row.label}, {why}.", "doubt", data={"box": row.label})
        for row, stats in part
        if (why := _describe_not_drawn(stats))
    )
    chart = doc.Chart(drawing, f"Box plot of {measure.name} for {legend.text}")
    return doc.Figure((chart,), doc.joined((caption, *reasons), " "), "zooms")


def _box(row: WindowRow, stats: BoxStats, caption: str) -> Row:
    values = [None if value is None else short(value) for value in _quantiles(stats).values()]
    n, *words = _tip(stats)
    return (row.label, f"{caption} (emulated)" if row.trial.emulated else caption, n, *values, *words)


def _tip(stats: BoxStats) -> Row:
    return (stats.n, *map(_words, _quantiles(stats).values()))


def _words(value: float | None) -> str:
    return BEYOND if value is None else digits.latency(value)


def _parts(stats: BoxStats) -> Iterator[tuple[str, float | None, float | None]]:
    """
    Yield what is drawn: (part, from, to) in ms.

    An end in the missing mass is open to the right; one at or below 0 ms, which a log axis cannot show, to the left.
    """
    found = {name: value for name, value in _quantiles(stats).items() if value is not None}
    visible = {name: short(value) for name, value in found.items() if value > 0}
    if not visible:
        return
    if len(visible) < len(found):
        yield ("open-start", None, next(iter(visible.values())))
    begin = "p25" if "p25" in visible else "p50"
    for part, low, high in (("whisker", "p1", "p25"), ("box", begin, "p75"), ("whisker", "p75", "p99")):
        if low in visible and high in visible:
            yield (part, visible[low], visible[high])
    if "p99" not in found:
        last = list(visible)[-1]
        yield from _open_end(visible, last)


def _open_end(visible: dict[str, float], last: str) -> Iterator[tuple[str, float | None, float | None]]:
    """Yield the open end. From where p75 is unknown the box itself is open; before the box, only the whisker is."""
    if last in {"p25", "p50"}:
        yield ("open-box", visible.get("p25", visible[last]), None)
        return
    if last == "p90" and "p75" in visible:
        yield ("whisker", visible["p75"], visible["p90"])
    yield ("open-whisker", visible[last], None)


def _describe_not_drawn(stats: BoxStats) -> str:
    """Describe which quantiles the drawing does not show, and why; empty where it shows all."""
    missing = [name for name, value in _quantiles(stats).items() if value is None]
    known = {name: value for name, value in _quantiles(stats).items() if value is not None}
    hidden = [f"{name} ({digits.latency(value)})" for name, value in known.items() if value <= 0]
    reasons = (
        (missing, "beyond the drain limit: the drawing is open to the right"),
        (hidden, "at or below 0 ms (clock error), where a log axis ends"),
    )
    return "; ".join(f"{digits.listed(own)} {'lies' if len(own) == 1 else 'lie'} {why}" for own, why in reasons if own)


def _box_row(row: WindowRow, stats: BoxStats) -> doc.Row:
    cells = (numbers.value(f"box.{name}", value, _words(value), unit="ms") for name, value in _quantiles(stats).items())
    data: doc.Data = {"trial": row.trial.index, "window": stats.window, "phase": stats.phase}
    return doc.Row(doc.Cell((row.label, doc.badges(row.trial))), (numbers.number("n", stats.n), *cells), data)


def _modes(run: RunView) -> doc.Table:
    caption = (
        "Whether a window's latency has more than one mode (Silverman's test, on a logarithmic axis), and the "
        "probability of what was seen if it had one."
    )
    columns = doc.columns("Window", doc.words("In words", "words"), "p")
    rows = (_mode_row(view, each) for view in run.trials for each in view.summary.modality)
    return doc.Table("modes", caption, columns, doc.body(rows))


def _mode_row(view: TrialView, each: Modality) -> doc.Row:
    trial = view.summary
    window = f" · {window_label(trial, each.phase, each.window)}" if len(view.rows) > 1 else ""
    data: doc.Data = {"trial": trial.index, "window": each.window, "phase": each.phase, "modes": len(each.modes_ms)}
    cells = (doc.Cell(doc.sentence_case(describe_modality(each))), numbers.p_value(each.p_value))
    return doc.Row(doc.Cell((f"{view.label}{window}", doc.badges(trial))), cells, data)

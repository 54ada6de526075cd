"""The section on how latencies are distributed: curves, boxes, and whether there are several modes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.experiment import measure_of
from stepbench.report import BOX_QUANTILES, BOX_ROW_PX, numbers
from stepbench.report import document as doc
from stepbench.report.boxes import BEYOND, box_figures, box_quantiles
from stepbench.report.changes import describe_modality
from stepbench.report.datasets import ecdf_figures
from stepbench.report.figures import Drawing
from stepbench.report.run import window_label

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.findings import Modality
    from stepbench.report.boxes import Box, BoxFigure
    from stepbench.report.datasets import EcdfFigure
    from stepbench.report.run import RunView, TrialView


def distribution_section(run: RunView) -> doc.Section:
    """Return the section."""
    curves, boxes = ecdf_figures(run.results), box_figures(run.results)
    nodes = [*_curves(curves, run), *_boxes(boxes)]
    if any(view.summary.modality for view in run.trials):
        nodes.append(doc.Fold("Does a window's latency have more than one mode?", (_modes(run),)))
    nothing = () if curves else (doc.Sentence("No events, no distribution."),)
    return doc.Section("distribution", "Distribution", (*nothing, *nodes), link="Distribution")


def _curves(figures: Sequence[EcdfFigure], run: RunView) -> Iterator[doc.Node]:
    """Yield the curves; the first is folded, too, where a section before it has shown the same as percentiles."""
    answered = any(row.window.operations for row in run.rows)
    for place, figure in enumerate(figures):
        measure = measure_of(figure.experiment)
        seen = answered and not measure.arrives
        summary = f"{measure.title} of {figure.legend.some}"
        yield doc.Fold(summary, (_curve(place, figure),), plain=place == 0 and not seen)


def _curve(place: int, figure: EcdfFigure) -> doc.Figure:
    measure, legend = measure_of(figure.experiment), figure.legend
    names = {"curves-names": legend.names, "quantiles-names": legend.names}
    data = {"curves": figure.curves, "quantiles": figure.quantiles, **names}
    drawing = Drawing(f"ecdf-{place}", "ecdf", data, legend.params, experiment=figure.experiment)
    caption = (
        f"Empirical distribution of {measure.name}.{legend.common_words}{legend.line_words} Each mark is a quantile "
        f"(p50, p90, p95, p99), the bar through it its {doc.NINETY_FIVE} interval, where it has "
        f"one.{f' A curve that ends below 100{digits.NBSP}% lost the rest.' if measure.arrives else ''}"
    )
    for label, share in figure.not_drawn:
        caption += (
            f" Of {label}, {share * 100:.1f}{digits.NBSP}% lie at or below 0{digits.NBSP}ms (clock error) and cannot "
            "be drawn on a log axis."
        )
    return doc.Figure(
        (doc.Chart(drawing, f"Empirical distribution of {measure.name} for {legend.text}"),), caption, "named"
    )


def _boxes(figures: Sequence[BoxFigure]) -> Iterator[doc.Node]:
    if not figures:
        return
    yield doc.Fold("The same as boxes", tuple(_box_figure(place, figure) for place, figure in enumerate(figures)))
    columns = doc.columns("Window", "n", *BOX_QUANTILES)
    rows = (_box_row(box) for figure in figures for box in figure.drawn)
    table = doc.Table(
        "boxes", "Quantiles of latency that the boxes are drawn from.", columns, doc.body(rows), "reference"
    )
    yield doc.Fold("The numbers of the boxes", (table,), style="")


def _box_figure(place: int, figure: BoxFigure) -> doc.Figure:
    measure, labels = measure_of(figure.experiment), figure.labels
    axis = {"labels": labels, "low": figure.low_ms, "top": figure.top_ms}
    data = {"boxes": figure.boxes, "parts": figure.parts}
    drawing = Drawing(f"boxes-{place}", "boxes", data, axis, BOX_ROW_PX * len(labels), figure.experiment)
    caption = (
        f"{measure.title} as boxes: from p25 to p75, the thick line the median, whiskers to p1 and p99, the small tick "
        f"p90. Dashed, with an arrow: open, since the end lies beyond what can be drawn.{figure.legend.common_words}"
    )
    reasons = tuple(
        doc.Span(f"Of {box.row.label}, {box.not_drawn}.", "doubt", data={"box": box.row.label})
        for box in figure.drawn
        if box.not_drawn
    )
    chart = doc.Chart(drawing, f"Box plot of {measure.name} for {figure.legend.text}")
    return doc.Figure((chart,), doc.joined((caption, *reasons), " "), "zooms")


def _box_row(box: Box) -> doc.Row:
    stats = box.stats
    cells = (
        numbers.value(f"box.{name}", value, BEYOND if value is None else digits.latency(value), unit="ms")
        for name, value in box_quantiles(stats)
    )
    data: doc.Data = {"trial": box.row.trial.index, "window": stats.window, "phase": stats.phase}
    return doc.Row(doc.Cell((box.row.label, doc.badges(box.row.trial))), (numbers.number("n", stats.n), *cells), data)


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

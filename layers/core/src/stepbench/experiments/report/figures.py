"""The figures that show all trials of a run together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench.experiments.operations.percentiles import percentile_figures
from stepbench.report.boxes import ROW_PX, BoxFigure, box_figures
from stepbench.report.datasets import EcdfFigure, ecdf_figures
from stepbench.report.figures import Drawing
from stepbench.report.shares import ROW_PX as SHARE_ROW_PX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.result import TrialResult
    from stepbench.experiments.operations.percentiles import PercentileFigure
    from stepbench.experiments.operations.report import ScalingFigure
    from stepbench.report.matrix import MatrixFigure
    from stepbench.report.shares import ShareFigure


@dataclass(frozen=True)
class Figures:
    """It holds the figures that show all trials together."""

    curves: tuple[EcdfFigure, ...]
    boxes: tuple[BoxFigure, ...]
    matrix: tuple[MatrixFigure, ...]
    shares: tuple[ShareFigure, ...]
    percentiles: tuple[PercentileFigure, ...]
    scaling: tuple[ScalingFigure, ...]


def run_figures(
    results: Sequence[TrialResult],
    matrix: tuple[MatrixFigure, ...],
    shares: tuple[ShareFigure, ...],
    scaling: tuple[ScalingFigure, ...] = (),
) -> Figures:
    """Return the figures of all trials together."""
    return Figures(ecdf_figures(results), box_figures(results), matrix, shares, percentile_figures(results), scaling)


def run_drawings(figures: Figures) -> Iterator[Drawing]:
    """Yield the drawings of distributions, boxes, matrices, shares, and what only operations have."""
    for place, curves in enumerate(figures.curves):
        names = curves.legend.names
        data = {
            "curves": curves.curves, "curves-names": names, "quantiles": curves.quantiles, "quantiles-names": names
        }  # fmt: skip
        yield Drawing(f"ecdf-{place}", "ecdf", data, curves.legend.params, experiment=curves.experiment)
    for place, boxes in enumerate(figures.boxes):
        axis = {"labels": boxes.labels, "low": boxes.low_ms, "top": boxes.top_ms}
        data = {"boxes": boxes.boxes, "parts": boxes.parts}
        yield Drawing(f"boxes-{place}", "boxes", data, axis, ROW_PX * len(boxes.labels), boxes.experiment)
    for place, each in enumerate(figures.matrix):
        yield Drawing(f"matrix-{place}", each.chart, each.data, each.params, each.height_px, each.experiment)
    for place, share in enumerate(figures.shares):
        height_px = SHARE_ROW_PX * len(share.labels)
        yield Drawing(
            f"shares-{place}", "shares", {"shares": share.bars}, {"labels": share.labels, "top": share.top}, height_px
        )
    yield from _operation_drawings(figures)


def _operation_drawings(figures: Figures) -> Iterator[Drawing]:
    for place, curves in enumerate(figures.percentiles):
        legend = curves.legend
        data = {"percentiles": curves.percentiles, "percentiles-names": legend.names}
        chart = "percentiles-runs" if legend.repeated else "percentiles"
        yield Drawing(f"percentiles-{place}", chart, data, legend.params, experiment="operations")
    for place, scaling in enumerate(figures.scaling):
        yield Drawing(f"scaling-{place}", "scaling", scaling.data, scaling.params)

"""Box plots: what of each box can be drawn, and a sentence on the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.report import BOX_QUANTILES
from stepbench.report.curves import curve_of, legend_of
from stepbench.report.datasets import by_series
from stepbench.report.run import columns, drawn_windows, short

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.chart_data import BoxStats
    from stepbench.contracts.experiment import ExperimentName
    from stepbench.contracts.result import TrialResult
    from stepbench.report.curves import Legend
    from stepbench.report.run import Columns, Row, WindowRow

BOXES_PER_FIGURE = 12
_BOX_COLUMNS = ("label", "caption", "n", *BOX_QUANTILES, *[f"{name}_words" for name in BOX_QUANTILES])
_ROOM = 1.12
"""How far beyond the quantiles the axis goes, as a factor: arrows of open ends need it."""
BEYOND = "> drain limit"


@dataclass(frozen=True)
class Box:
    """It holds one window's box, and a sentence on what of it cannot be drawn (empty: all can)."""

    row: WindowRow
    stats: BoxStats
    not_drawn: str


@dataclass(frozen=True)
class BoxFigure:
    """
    It holds up to `BOXES_PER_FIGURE` boxes that share an axis; `boxes` are their quantiles, `parts` what is drawn.

    `labels`: the rows' full names. `legend`: what they are captioned with. `low_ms`, `top_ms`: ends of the axis.
    """

    boxes: Columns
    parts: Columns
    labels: tuple[str, ...]
    legend: Legend
    drawn: tuple[Box, ...]
    low_ms: float
    top_ms: float
    experiment: ExperimentName = "trigger"


def box_figures(results: Sequence[TrialResult]) -> tuple[BoxFigure, ...]:
    """Return all boxes, a few to a figure, in the order of the report."""
    pairs = drawn_windows(results, "boxes")
    drawn = [Box(row, stats, _describe_not_drawn(stats)) for row, stats in pairs if stats.n]
    ordered = [[box for runs in series for box in runs] for series in by_series(drawn, lambda box: box.row)]
    most = BOXES_PER_FIGURE
    return tuple(_figure(tuple(own[at : at + most])) for own in ordered for at in range(0, len(own), most))


def box_quantiles(stats: BoxStats) -> tuple[tuple[str, float | None], ...]:
    """Return names and milliseconds, ascending; None in the missing mass."""
    return tuple((name, getattr(stats, name)) for name in BOX_QUANTILES)


def _figure(drawn: tuple[Box, ...]) -> BoxFigure:
    parts = [(box.row.label, *part) for box in drawn for part in _parts(box.stats)]
    tips = {box.row.label: _tip(box) for box in drawn}
    names = ("label", "part", "from_ms", "to_ms", "n", *[f"{name}_words" for name in BOX_QUANTILES])
    legend = legend_of([curve_of(box.row) for box in drawn])
    visible = [value for box in drawn for _, value in box_quantiles(box.stats) if value is not None and value > 0]
    return BoxFigure(
        columns(_BOX_COLUMNS, [_row(*each) for each in zip(drawn, legend.captions, strict=True)]),
        columns(names, [(*part, *tips[str(part[0])]) for part in parts]),
        tuple(box.row.label for box in drawn),
        legend,
        drawn,
        short(min(visible, default=0.1) / _ROOM),
        short(max(visible, default=1.0) * _ROOM),
        drawn[0].row.trial.experiment,
    )


def _row(box: Box, caption: str) -> Row:
    numbers = [None if value is None else short(value) for _, value in box_quantiles(box.stats)]
    n, *latencies = _tip(box)
    caption = f"{caption} (emulated)" if box.row.trial.emulated else caption
    return (box.row.label, caption, n, *numbers, *latencies)


def _tip(box: Box) -> Row:
    values = box_quantiles(box.stats)
    return (box.stats.n, *[BEYOND if value is None else digits.latency(value) for _, value in values])


def _parts(stats: BoxStats) -> Iterator[tuple[str, float | None, float | None]]:
    """
    Yield what is drawn: (part, from, to) in ms.

    An end in the missing mass is open to the right; one at or below 0 ms, which a log axis cannot show, to the left.
    """
    found = {name: value for name, value in box_quantiles(stats) if value is not None}
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
    missing = [name for name, value in box_quantiles(stats) if value is None]
    known = [(name, value) for name, value in box_quantiles(stats) if value is not None]
    hidden = [f"{name} ({digits.latency(value)})" for name, value in known if value <= 0]
    sentences = []
    if missing:
        verb = "lies" if len(missing) == 1 else "lie"
        sentences.append(f"{digits.listed(missing)} {verb} beyond the drain limit: the drawing is open to the right")
    if hidden:
        verb = "lies" if len(hidden) == 1 else "lie"
        sentences.append(f"{digits.listed(hidden)} {verb} at or below 0 ms (clock error), where a log axis ends")
    return "; ".join(sentences)

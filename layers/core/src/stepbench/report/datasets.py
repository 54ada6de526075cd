"""
The numbers behind the figures, as columns that the page carries and its charts draw.

Long trials are thinned to at most `MAX_POINTS` points on the time axis; nothing is left out silently (`bin_s`).
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from stepbench import digits
from stepbench.contracts.experiment import HEADLINE_QUANTILES, QUANTILES
from stepbench.report.curves import curve_of, legend_of, series_of
from stepbench.report.run import columns, drawn_windows, short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from stepbench.contracts.chart_data import EcdfCurve, SeriesPoint
    from stepbench.contracts.experiment import ExperimentName
    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.result import TrialResult
    from stepbench.report.curves import Legend
    from stepbench.report.run import Columns, Row, WindowRow

T = TypeVar("T")
MAX_POINTS = 400
SERIES_PER_FIGURE = 8
REPEATED_PER_FIGURE = 7
"""As many as there are colours (`page.js`): with repeats, dashes tell runs apart and not series."""
_SHORT_PAUSE_S = 0.5
_STALLS_SHOWN = 3
SECOND_COLUMNS = ("second", "phase", "offered", "acknowledged", "arrived", "p50_ms", "p90_ms", "max_ms")


@dataclass(frozen=True)
class EcdfFigure:
    """
    It holds the curves of up to `SERIES_PER_FIGURE` series, with all their runs, on the same axes.

    `not_drawn` names curves with a part at or below 0 ms, which a log axis cannot show, and that part's share.
    """

    curves: Columns
    quantiles: Columns
    legend: Legend
    not_drawn: tuple[tuple[str, float], ...]
    experiment: ExperimentName = "trigger"


@dataclass(frozen=True)
class TimeFigure:
    """
    It shows one trial over time; a point stands for `bin_s` seconds.

    `stalls`: where the store answered nothing. `not_drawn`: points at or below 0 ms. `top_per_s`: where the rates'
    axis ends, a little above all of them.
    """

    seconds: Columns
    phases: Columns
    stalls: Columns
    bin_s: int
    not_drawn: int
    top_per_s: float

    @property
    def has_latency(self) -> bool:
        """Return whether any second has a latency: of events that were all lost there is none to draw."""
        return any(value is not None for value in self.seconds["max_ms"])

    @property
    def stalled(self) -> str:
        """Return when the store stalled, for the first three times; empty where it never did."""
        spans = list(zip(self.stalls["from_s"], self.stalls["to_s"], strict=True))
        shown = ", ".join(f"{from_s:.1f} to {to_s:.1f} s" for from_s, to_s in spans[:_STALLS_SHOWN])
        rest = len(spans) - _STALLS_SHOWN
        return f"{shown}, and {digits.counted(rest, 'time')} more" if rest > 0 else shown


def ecdf_figures(results: Sequence[TrialResult]) -> tuple[EcdfFigure, ...]:
    """Return all windows' curves, a few to a figure, in the order of the report."""
    drawn = [(row, curve) for row, curve in drawn_windows(results, "ecdf") if curve.latency_ms]
    return tuple(_ecdf_figure(part) for part in figure_parts(drawn, lambda pair: pair[0]))


def figure_parts(drawn: Sequence[T], row_of: Callable[[T], WindowRow]) -> Iterable[list[T]]:
    """Split into figures of so many series at most, each with all its runs, and of about as many as the others have."""
    for series in by_series(drawn, row_of):
        most = SERIES_PER_FIGURE if all(len(runs) == 1 for runs in series) else REPEATED_PER_FIGURE
        figures = -(-len(series) // most)
        for number in range(figures):
            start, end = (len(series) * place // figures for place in (number, number + 1))
            yield [each for runs in series[start:end] for each in runs]


def by_series(drawn: Sequence[T], row_of: Callable[[T], WindowRow]) -> Iterable[list[list[T]]]:
    """Yield each experiment's series, since their latencies differ; of each series all runs."""
    for experiment in ("trigger", "operations", "dataflow"):
        series: dict[str, list[T]] = {}
        for each in drawn:
            if row_of(each).trial.experiment == experiment:
                series.setdefault(series_of(row_of(each)), []).append(each)
        yield list(series.values())


def time_figure(result: TrialResult) -> TimeFigure | None:
    """Return a trial over time, or None where nothing was recorded."""
    if not result.series:
        return None
    seconds = math.ceil(max(point.second for point in result.series)) + 1
    bin_s = -(-seconds // MAX_POINTS)
    points = [point for group in binned(result.series, bin_s) for point in group]
    drawn = columns(SECOND_COLUMNS, points)
    spans = [
        (span.name, "measured" if span.measured else "not measured", span.from_s, span.to_s) for span in result.phases
    ]
    phases = columns(("phase", "kind", "from_s", "to_s"), spans)
    stalled = [(round(stall.from_s, 3), round(stall.to_s, 3), stall.in_flight, stall.events) for stall in result.stalls]
    stalls = columns(("from_s", "to_s", "in_flight", "events"), stalled)
    return TimeFigure(drawn, phases, stalls, bin_s, hide_non_positive(drawn), _top(drawn))


def _ecdf_figure(drawn: Sequence[tuple[WindowRow, EcdfCurve]]) -> EcdfFigure:
    points: list[Row] = []
    marks: list[Row] = []
    not_drawn: list[tuple[str, float]] = []
    for row, curve in drawn:
        visible = [(x, p) for x, p in zip(curve.latency_ms, curve.probability, strict=True) if x > 0]
        hidden = max((p for x, p in zip(curve.latency_ms, curve.probability, strict=True) if x <= 0), default=0.0)
        if hidden:
            not_drawn.append((row.label, hidden))
        if visible:
            points.append((row.label, short(visible[0][0]), hidden))
        points.extend((row.label, short(x), round(p, 6)) for x, p in visible)
        marks.extend(_quantile_marks(row))
    return EcdfFigure(
        columns(("curve", "latency_ms", "probability"), points),
        columns(("curve", "quantile", "probability", "latency_ms", "low_ms", "high_ms"), marks),
        legend_of([curve_of(row) for row, _ in drawn]),
        tuple(not_drawn),
        drawn[0][0].trial.experiment,
    )


def _quantile_marks(row: WindowRow) -> Iterable[Row]:
    times = row.window.latency_ms
    for name in HEADLINE_QUANTILES:
        estimate: Estimate = getattr(times, name)
        if estimate.value is None or estimate.value <= 0:
            continue
        bounded = estimate.low is not None and estimate.low > 0 and estimate.high is not None
        low, high = (estimate.low, estimate.high) if bounded else (None, None)
        yield (row.label, name, QUANTILES[name], estimate.value, low, high)


def binned(series: Sequence[SeriesPoint], bin_s: int) -> Iterable[list[Row]]:
    """Yield, per phase, one point for each `bin_s` seconds; an empty one at a pause, so that lines break there."""
    begin_s: dict[str, float] = {}
    groups: dict[tuple[str, int], list[SeriesPoint]] = {}
    for point in series:
        since_s = point.second - begin_s.setdefault(point.phase, point.second)
        groups.setdefault((point.phase, round(since_s) // bin_s), []).append(point)
    before: tuple[float, str] | None = None
    for (phase, place), points in groups.items():
        rows: list[Row] = []
        at_s = round(begin_s[phase] + place * bin_s, 3)
        if before is not None and at_s > before[0] + bin_s + _SHORT_PAUSE_S:
            rows.append((round(before[0] + bin_s, 3), before[1], *[None] * 6))
        rows.append(_merged(points, at_s))
        yield rows
        before = (at_s, phase)


def _merged(points: Sequence[SeriesPoint], second: float) -> Row:
    """Merge points: rates as means, p50 and p90 as medians of the seconds' own (labelled so), max as the maximum."""

    def merged(name: str, merge: Callable[[list[float]], float]) -> float | None:
        values = [value for point in points if (value := _number(point, name)) is not None]
        found = merge(values) if values else math.inf
        return short(found) if math.isfinite(found) else None

    rates = [merged(name, statistics.fmean) for name in ("offered", "acknowledged", "arrived")]
    middle = [merged(name, statistics.median) for name in ("p50_ms", "p90_ms")]
    return (second, points[0].phase, *rates, *middle, merged("max_ms", max))


def _number(point: SeriesPoint, name: str) -> float | None:
    """
    Return the point's number.

    It is `inf` where a second has events that are to arrive, but its latency lies in the missing mass: such a second
    must not drop out of a median.
    """
    value: float | None = getattr(point, name)
    return math.inf if value is None and point.acknowledged > point.not_matching + point.watch_gap else value


def _top(drawn: Columns) -> float:
    rates = [value for name in ("offered", "acknowledged", "arrived") for value in drawn[name]]
    return 1.25 * max((value for value in rates if isinstance(value, int | float)), default=0) or 1.0


def hide_non_positive(drawn: Columns) -> int:
    """Blank what a log axis cannot show, and return how many numbers that were."""
    hidden = 0
    for name in ("p50_ms", "p90_ms", "max_ms"):
        for place, value in enumerate(drawn[name]):
            if isinstance(value, int | float) and value <= 0:
                drawn[name][place] = None
                hidden += 1
    return hidden

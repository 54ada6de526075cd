"""
The sections on all times of all windows, and on each trial over time.

Long trials are thinned to at most `MAX_POINTS` points on the time axis; nothing is left out silently (`bin_s`).
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.contracts.experiment import QUANTILES
from stepbench.report import document as doc
from stepbench.report import numbers
from stepbench.report.figures import Drawing
from stepbench.report.run import columns, short

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from stepbench.contracts.chart_data import SeriesPoint
    from stepbench.contracts.experiment import ExperimentName
    from stepbench.contracts.measures import Latency, WindowResult
    from stepbench.contracts.result import TrialResult
    from stepbench.report.run import Columns, Row, RunView, TrialView, WindowRow

MAX_POINTS = 400
_SHORT_PAUSE_S = 0.5
_STALLS_SHOWN = 3
SECOND_COLUMNS = ("second", "phase", "offered", "acknowledged", "arrived", "p50_ms", "p90_ms", "max_ms")
_LATENESS = ("lateness_ms", "Lateness of the generator", "t1 − t0")  # noqa: RUF001 -- a minus sign
_MEASURES: dict[ExperimentName, tuple[tuple[str, str, str], ...]] = {
    "trigger": (
        ("latency_ms", "Trigger latency", "t4 − t1"),  # noqa: RUF001
        ("after_ack_ms", "After acknowledgement", "t4 − t2"),  # noqa: RUF001
        ("to_event_ms", "Send to the store's event time", "t3 − t1"),  # noqa: RUF001
        ("from_event_ms", "The store's event time to the function", "t4 − t3"),  # noqa: RUF001
        ("response_trigger_ms", "Response time, trigger", "t4 − t0"),  # noqa: RUF001
        ("response_write_ms", "Response time, write", "t2 − t0"),  # noqa: RUF001
        ("service_ms", "Service time, write", "t2 − t1"),  # noqa: RUF001
        _LATENESS,
    ),
    "operations": (
        ("latency_ms", "Service time", "t2 − t1"),  # noqa: RUF001
        ("response_write_ms", "Response time", "t2 − t0"),  # noqa: RUF001
        _LATENESS,
    ),
    "dataflow": (
        ("response_trigger_ms", "End-to-end time", "t4 − t0"),  # noqa: RUF001
        ("latency_ms", "Execution latency", "t4 − t1"),  # noqa: RUF001
        ("after_ack_ms", "After acknowledgement", "t4 − t2"),  # noqa: RUF001
        ("service_ms", "StartExecution", "t2 − t1"),  # noqa: RUF001
        _LATENESS,
    ),
    "transfer": (),
}


def times_section(run: RunView) -> doc.Section:
    """Return the section on all times."""
    nothing = doc.Sentence("No window was measured.")
    summary = "All times of all windows, each from t0, t1 or t2, with p99.9, least, mean and largest"
    node = doc.Fold(summary, (_table(run),)) if run.rows else nothing
    return doc.Section("times", "Response and service times", (node,), link="Times")


def _table(run: RunView) -> doc.Table:
    t4 = "; t4: first statement of the function. " if run.triggered else ". "
    t3 = (
        "t3: when the event happened, by the store and its own clock, whose offset nobody has measured; given to 1,000 "
        f"ms it is rounded down, so that t3 {digits.MINUS} t1 may be up to a second more than stated, and t4 "
        f"{digits.MINUS} t3 as much less. "
        if any(row.window.to_event_ms for row in run.rows)
        else ""
    )
    scheduled = ", where load is on a schedule," if run.answered else ""
    caption = (
        f"All times of all windows. t0: intended send; t1: handed to the kernel; t2: acknowledged{t4}{t3}Response "
        f"times start at t0 and so{scheduled} are free of coordinated omission."
    )
    headings = ("n", "p50", "p90", "p95", "p99", "p99.9", "min", "mean", "max")
    columns = doc.columns("Time", *headings)
    return doc.Table("all-times", caption, columns, tuple(map(_window, run.rows)), "reference")


def _window(row: WindowRow) -> doc.Body:
    window = row.window
    rates = f"{digits.rate(window.offered_per_s)}/s offered, {digits.rate(window.achieved_per_s)}/s achieved"
    note = doc.Span(f"window {window.name}, phase {window.phase}; {rates}", "note")
    found = ((each, getattr(window, each[0])) for each in _MEASURES[row.trial.experiment])
    rows = (_row(measure, times, window) for measure, times in found if times)
    return doc.Body(tuple(rows), (row.label, doc.badges(row.trial), " ", note), doc.of_window(row))


def _row(measure: tuple[str, str, str], times: Latency, window: WindowResult) -> doc.Row:
    field, title, formula = measure
    note = (" ", doc.Span(_resolution(window.event_resolution_ms), "note")) if "event" in field else ""
    missing = doc.Span(f"{digits.count(times.missing)} missing", "note") if times.missing else ""
    cells = (
        numbers.value(f"{field}.n", times.n, (digits.count(times.n), missing), missing=times.missing),
        *(numbers.estimate(f"{field}.{quantile}", getattr(times, quantile)) for quantile in QUANTILES),
        *(numbers.time(f"{field}.{point}", getattr(times, point)) for point in ("min", "mean", "max")),
    )
    return doc.Row(doc.Cell((f"{title} ", doc.Span(formula, "formula"), note)), cells)


def _resolution(resolution_ms: float | None) -> str:
    """Return how exactly the store's own event times are."""
    unit = digits.unit_for(resolution_ms or 0)
    return (
        "" if resolution_ms is None else f"t3 is given to {digits.rounded(resolution_ms * unit.per_ms, 1)} {unit.name}"
    )


def over_time_section(run: RunView) -> doc.Section:
    """Return the section on each trial over time."""
    found = [(view, figure) for view in run.trials if (figure := time_figure(view.result)) is not None]
    alone = len(run.trials) == 1 and not any(any(bins.offered) for bins in run.trials[0].result.rates)
    folds = [
        doc.Fold(f"{view.label}, second by second", (doc.Figure(*_drawn(view, figure), style="pair"),), plain=alone)
        for view, figure in found
    ]
    summary = f"{digits.counted(len(found), 'trial')}, second by second"
    parts = tuple(folds) or (doc.Sentence("No events, no series."),)
    return doc.Section(
        "time", "Over time", (doc.Fold(summary, parts, plain=len(found) <= doc.MAX_SENTENCES),), link="Over time"
    )


def _drawn(view: TrialView, figure: TimeFigure) -> tuple[tuple[doc.Node, ...], str]:
    measure, arrives = view.measure, view.measure.arrives
    counted = "were acknowledged, and arrived by the drain limit" if arrives else "acknowledged"
    caption = (
        f"{view.label}: {measure.name} of the {'events' if arrives else 'operations'} whose intended send falls in "
        f"each second of a phase, and how many of these were offered{', ' if arrives else ' and '}{counted}."
    )
    if figure.bin_s > 1:
        caption += (
            f" One point stands for {figure.bin_s}{digits.NBSP}s: rates are means, p50 and p90 the median of the "
            "seconds' own, max the maximum."
        )
    caption += not_drawn_words(figure.not_drawn)
    stalled = f"; coloured, with an edge where it begins: the store answered nothing ({figure.stalled})"
    caption += f" Shaded: phases, darker where nothing counts{stalled if figure.stalled else ''}."
    return (doc.Heading((view.label, doc.badges(view.summary))), *_charts(view, figure)), caption


def not_drawn_words(points: int) -> str:
    """Return how many points a log axis cannot show, after a space; empty where it shows all."""
    many = (
        f" {digits.counted(points, 'point')} at or below 0{digits.NBSP}ms (clock error) cannot be drawn on a log axis."
    )
    return many if points else ""


def _charts(view: TrialView, figure: TimeFigure) -> Iterator[doc.Node]:
    """Yield a trial over time: latency above rates."""
    arrives, of = view.measure.arrives, view.label
    data = {"seconds": figure.seconds, "phases": figure.phases, "stalls": figure.stalls}
    if figure.has_latency:
        drawing = Drawing(f"latency-{view.anchor}", "latency", data, {}, experiment=view.summary.experiment)
        yield doc.Chart(drawing, f"p50, p90 and maximum {view.measure.name} of {of} for each second")
    else:
        why = "nothing arrived" if arrives else "nothing was answered with success"
        yield doc.Sentence(
            f"No second has a {view.measure.name} to draw{'' if figure.not_drawn else f': {why}'}.", "note"
        )
    what = "Offered, acknowledged and arrived events" if arrives else "Offered and acknowledged operations"
    rates = Drawing(f"rates-{view.anchor}", "rates" if arrives else "operation-rates", data, {"top": figure.top_per_s})
    yield doc.Chart(rates, f"{what} per second of {of}")


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

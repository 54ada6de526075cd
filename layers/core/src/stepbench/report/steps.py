"""A phase of several load steps on its own time axis: latency, rates, windows, change points, steps close up."""

from __future__ import annotations

import math
from itertools import zip_longest
from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.report import document as doc
from stepbench.report.changes import (
    AROUND_S,
    bins_around,
    change_tables,
    compared_sentences,
    format_level,
    step_gap,
    step_starts,
)
from stepbench.report.figures import Drawing
from stepbench.report.run import columns, short
from stepbench.report.times import MAX_POINTS, SECOND_COLUMNS, binned, hide_non_positive, not_drawn_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.chart_data import PhaseSpan, RateBins
    from stepbench.contracts.findings import ChangePoint
    from stepbench.contracts.result import TrialResult
    from stepbench.report.changes import StepGap
    from stepbench.report.run import Columns, Row, RunView, TrialView

MAX_STRIPS = 4
MAX_ROWS = 8
_COUNTED = ("offered", "sent", "acknowledged")
_ROOM = 1.45
"""How far above its lines the rates' axis goes, for the names of steps and windows."""
_LOG_ROOM = 0.3
"""Latency's axis has this room, as a share of the axis."""


def steps_section(run: RunView) -> doc.Section | None:
    """Return the section on what changed, and when; None of a run without steps, comparisons and change points."""
    found = [(view, number, bins) for view in run.trials for number, bins in enumerate(recorded_phases(view.result))]
    folds = [
        doc.Fold(
            f"{view.label}, phase {bins.phase}, step by step",
            (step_figure(view, number, bins),),
            plain=len(found) == 1,
        )
        for view, number, bins in found
    ]
    nodes = (*compared_sentences(run), *_time_lines(run), *folds, *change_tables(run))
    return doc.Section("steps", "What changed, and when", nodes, link="Changes") if nodes else None


def _time_lines(run: RunView) -> Iterator[doc.Fold]:
    """Yield trials' time lines below each other, where several have a phase of several steps; of repeats the first."""
    firsts = [view for view in run.trials if not view.summary.repeat]
    rows = [(view, bins) for view in firsts for bins in recorded_phases(view.result)[:1]]
    parts = [rows[at : at + MAX_ROWS] for at in range(0, len(rows), MAX_ROWS)]
    for number, part in enumerate(parts if len(rows) > 1 else ()):
        of = "" if len(firsts) == len(run.trials) else ", of repeats the first"
        title = f"Time lines below each other{of}: {digits.listed([view.label for view, _ in part])}"
        yield doc.Fold(title, (time_line_figure(number, part),), plain=number == 0)


def time_line_figure(number: int, rows: Sequence[tuple[TrialView, RateBins]]) -> doc.Figure:
    """Return p50 and p90 of each second over the trials' first phases with steps, with one time axis for all rows."""
    spans = [next((each for each in view.result.phases if each.name == bins.phase), None) for view, bins in rows]
    end_s = max(
        span.to_s - span.from_s if span else len(bins.offered) * bins.bin_s
        for span, (_, bins) in zip(spans, rows, strict=True)
    )
    nodes: list[doc.Node] = []
    bins_s, not_drawn = 1, 0
    for place, ((view, bins), span) in enumerate(zip(rows, spans, strict=True)):
        seconds, bin_s = _seconds(view.result, bins.phase, span)
        bins_s, not_drawn = max(bins_s, bin_s), not_drawn + hide_non_positive(seconds)
        low_ms, top_ms = _latency_axis(seconds, ("p50_ms", "p90_ms"))
        data = {"seconds": seconds, "steps": _steps(span), "windows": _windows(span)}
        chart = "time-line" if place else "time-line-first"
        axis = {"low": low_ms, "top": top_ms, "end": end_s}
        name = f"time-line-{number}-{place}"
        words = f"p50 and p90 {view.measure.name} of {view.label} across the load steps of phase {bins.phase}"
        nodes.append(doc.Heading((f"{view.label} ", doc.badges(view.summary))))
        nodes.append(doc.Chart(Drawing(name, chart, data, axis, experiment=view.summary.experiment), words))
    points = f" (a point stands for up to {bins_s}{digits.NBSP}s)" if bins_s > 1 else ""
    caption = (
        f"p50 and p90 of each second{points} by intended send, a trial a row on a log axis of its own, all on one time "
        "axis. Shaded: every second load step. Bars above the lines: the windows that are compared."
        f"{not_drawn_words(not_drawn)}"
    )
    return doc.Figure(tuple(nodes), caption, "zooms", "step")


def recorded_phases(result: TrialResult) -> tuple[RateBins, ...]:
    """Return the phases whose rates are on record."""
    return tuple(bins for bins in result.rates if any(bins.offered))


def step_figure(view: TrialView, number: int, bins: RateBins) -> doc.Figure:
    """Return a phase across its steps: latency above rates, then the first `MAX_STRIPS` steps close up."""
    result, place = view.result, f"{view.anchor}-{number}"
    span = next((span for span in result.phases if span.name == bins.phase), None)
    seconds, seconds_bin_s = _seconds(result, bins.phase, span)
    not_drawn = hide_non_positive(seconds)
    rates, bin_s = _rates(bins)
    low_ms, top_ms = _latency_axis(seconds)
    end_s = span.to_s - span.from_s if span else _largest(rates, ("to_s",))
    changes = _changes([change for change in result.summary.change_points if change.phase == bins.phase])
    shared = {"steps": _steps(span), "windows": _windows(span), "changes": changes}
    axis, per_s = {"low": low_ms, "top": top_ms, "end": end_s}, {"top": _ROOM * _largest(rates, _COUNTED), "end": end_s}
    data, experiment = {**shared, "seconds": seconds}, view.summary.experiment
    latency = Drawing(f"step-latency-{place}", "step-latency", data, axis, experiment=experiment)
    of = f"{view.label} across the load steps of phase {bins.phase}"
    phase = f", {bins.phase}" if len(recorded_phases(result)) > 1 else ""
    nodes = (
        doc.Heading((f"{view.label}{phase} ", doc.badges(view.summary))),
        doc.Chart(latency, f"p50, p90 and maximum {view.measure.name} of {of}"),
        doc.Chart(
            Drawing(f"step-rates-{place}", "step-rates", {**shared, "rates": rates}, per_s),
            f"Offered, sent and acknowledged events per second of {of}",
        ),
        *_strips(place, bins, step_starts(span)),
    )
    caption = _caption(view, bins, (seconds_bin_s, bin_s), not_drawn, changing=bool(changes["at_s"]))
    gaps = [_gap(step_gap(bins, step_s)) for step_s in step_starts(span)]
    return doc.Figure(nodes, doc.joined((caption, *gaps), " "), "zooms", "pair step")


def _seconds(result: TrialResult, phase: str, span: PhaseSpan | None) -> tuple[Columns, int]:
    own = [point for point in result.series if point.phase == phase]
    begin_s = span.from_s if span else min((point.second for point in own), default=0.0)
    shifted = [point.model_copy(update={"second": round(point.second - begin_s, 3)}) for point in own]
    bin_s = max(1, -(-len(shifted) // MAX_POINTS))
    return columns(SECOND_COLUMNS, [row for group in binned(shifted, bin_s) for row in group]), bin_s


def _strips(place: str, bins: RateBins, steps_s: Sequence[float]) -> Iterator[doc.Node]:
    """Yield the first steps close up, in bins as they were counted: a step inside a bin is not moved to its edge."""
    for number, step_s in enumerate(steps_s[:MAX_STRIPS]):
        first, last = bins_around(bins, step_s)
        counts = list(zip_longest(bins.offered, bins.sent, bins.acknowledged, fillvalue=0))[first:last]
        rows: list[Row] = [
            (round(at * bins.bin_s - step_s, 4), round((at + 1) * bins.bin_s - step_s, 4), *numbers)
            for at, numbers in enumerate(counts, first)
        ]
        drawn = columns(("from_s", "to_s", *_COUNTED), rows)
        data, top = {"bins": drawn, "step": columns(("at_s",), [(0.0,)])}, 1.15 * _largest(drawn, _COUNTED)
        around = f"{AROUND_S:g} s to either side of the step at {step_s:g} s"
        yield doc.Sentence(f"Close up: {around}, in bins of {digits.latency(bins.bin_s * 1000)}", "strip-title")
        drawing = Drawing(f"step-strip-{place}-{number}", "step-strip", data, {"top": top})
        yield doc.Chart(drawing, f"Events in each bin around the step at {step_s:g} seconds")


def _rates(bins: RateBins) -> tuple[Columns, float]:
    """Sum bins to a readable width, as events per second; `detail` has the counts of the bins themselves."""
    length_s = len(bins.offered) * bins.bin_s
    wanted_s = max(1.0, math.ceil(length_s / MAX_POINTS))
    each = max(1, round(wanted_s / bins.bin_s))
    rows: list[Row] = []
    for first in range(0, len(bins.offered), each):
        part = slice(first, first + each)
        width_s = len(bins.offered[part]) * bins.bin_s
        sums = [sum(counts[part]) / width_s for counts in (bins.offered, bins.sent, bins.acknowledged)]
        sent = bins.sent[part]
        detail = f"{digits.count(min(sent))} to {digits.count(max(sent))}" if sent else digits.NONE
        begin_s = round(first * bins.bin_s, 3)
        rows.append((begin_s, round(begin_s + width_s, 3), *map(short, sums), detail))
    if rows:  # the last step lasts until its end
        rows.append((rows[-1][1], rows[-1][1], *rows[-1][2:]))
    return columns(("from_s", "to_s", "offered", "sent", "acknowledged", "detail"), rows), each * bins.bin_s


def _steps(span: PhaseSpan | None) -> Columns:
    rows = [
        (f"{digits.rate(step.rate_per_s)}/s", step.from_s, step.to_s, "odd" if number % 2 else "even")
        for number, step in enumerate(span.steps if span else ())
    ]
    return columns(("caption", "from_s", "to_s", "kind"), rows)


def _windows(span: PhaseSpan | None) -> Columns:
    """Return the windows that are parts of the phase: one that is all of it needs no mark."""
    if span is None:
        return columns(("window", "from_s", "to_s", "middle_s"), [])
    parts = [each for each in span.windows if each.to_s - each.from_s < span.to_s - span.from_s - 1e-6]
    rows = [(each.name, each.from_s, each.to_s, (each.from_s + each.to_s) / 2) for each in parts]
    return columns(("window", "from_s", "to_s", "middle_s"), rows)


def _changes(found: Sequence[ChangePoint]) -> Columns:
    rows: list[Row] = []
    for change in found:
        if change.at_s.value is None or change.p_value is None:
            continue
        at = str(digits.shown(change.at_s, digits.SECONDS_AS_SUCH))
        levels = [format_level(change, value) for value in (change.before, change.after)]
        p = digits.p_value(change.p_value)
        rows.append((change.series, change.at_s.value, change.at_s.low, change.at_s.high, at, *levels, p))
    return columns(("series", "at_s", "low_s", "high_s", "words", "before", "after", "p"), rows)


def _latency_axis(seconds: Columns, names: Sequence[str] = ("p50_ms", "p90_ms", "max_ms")) -> tuple[float, float]:
    """Return the ends of the log axis, in ms, with room above."""
    values = [value for name in names for value in seconds[name] if isinstance(value, float | int)]
    if not values:
        return 0.1, 1.0
    low, high = min(values) * 0.8, max(values)
    return short(low), short(high * (high / low) ** (_LOG_ROOM / (1 - _LOG_ROOM)))


def _largest(drawn: Columns, names: Sequence[str]) -> float:
    return (
        float(max((value for name in names for value in drawn[name] if isinstance(value, int | float)), default=1))
        or 1.0
    )


def _caption(view: TrialView, bins: RateBins, bins_s: tuple[int, float], not_drawn: int, *, changing: bool) -> str:
    """Return what a figure shows; `bins_s`: what a point of latency stands for, and one of rates."""
    points = (
        f" (a point stands for {bins_s[0]}{digits.NBSP}s: p50 and p90 the median of the seconds' own, max the maximum)"
    )
    span = next((span for span in view.result.phases if span.name == bins.phase), None)
    steps = len(step_starts(span))
    dashes = f" Upright dashes: where the level changes, its {doc.NINETY_FIVE} interval shaded."
    close_up = f" Close up: the first {MAX_STRIPS} of {steps} steps."
    return (
        f"{view.label}, phase {bins.phase}: {view.measure.name} of each second by intended "
        f"send{points if bins_s[0] > 1 else ''}, and events due, sent and acknowledged in bins of "
        f"{bins_s[1]:g}{digits.NBSP}s. Shaded: every second load step. Bars above the lines: the windows that are "
        f"compared.{dashes if changing else ''}{close_up if steps > MAX_STRIPS else ''}{not_drawn_words(not_drawn)}"
    )


def _gap(gap: StepGap) -> doc.Span:
    data: doc.Data = {
        "metric": "step_gap",
        "step": gap.step_s,
        "value": gap.gap_s,
        "bins": gap.bins,
        "due": gap.due,
        "unit": "s",
    }
    return doc.Span(f"{doc.sentence_case(str(gap))}.", "gap bad" if gap.due else "gap", data=data)

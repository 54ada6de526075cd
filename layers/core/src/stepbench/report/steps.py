"""A phase of several load steps on its own time axis: latency, rates, windows, change points, steps close up."""

from __future__ import annotations

import math
from dataclasses import dataclass
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
_ROOM = 1.45
"""How far above its lines the rates' axis goes, for the names of steps and windows."""
_LOG_ROOM = 0.3
"""Latency's axis has this room, as a share of the axis."""


@dataclass(frozen=True)
class Strip:
    """It holds the bins around one step; `top` ends the axis."""

    step_s: float
    bins: Columns
    step: Columns
    top: float


@dataclass(frozen=True)
class StepFigure:
    """
    It shows one phase. All times are seconds since its start.

    `bin_s`: what a point of `rates` stands for; `seconds_bin_s`: the same of `seconds`. `gaps` has one entry a step,
    `strips` the first `MAX_STRIPS` of them. `end_s`, `low_ms`, `top_ms`, `top_per_s`: ends of the axes.
    """

    phase: str
    seconds: Columns
    rates: Columns
    steps: Columns
    windows: Columns
    changes: Columns
    strips: tuple[Strip, ...]
    gaps: tuple[StepGap, ...]
    bin_s: float
    counted_s: float
    seconds_bin_s: int
    not_drawn: int
    end_s: float
    low_ms: float
    top_ms: float
    top_per_s: float


def step_figures(result: TrialResult) -> tuple[StepFigure, ...]:
    """Return one figure for each phase whose rates are on record."""
    spans = {span.name: span for span in result.phases}
    return tuple(_figure(result, bins, spans.get(bins.phase)) for bins in result.rates if any(bins.offered))


def _figure(result: TrialResult, bins: RateBins, span: PhaseSpan | None) -> StepFigure:
    seconds, seconds_bin_s = _seconds(result, bins.phase, span)
    not_drawn = hide_non_positive(seconds)
    rates, bin_s = _rates(bins)
    low_ms, top_ms = _latency_axis(seconds)
    steps_s = step_starts(span)
    return StepFigure(
        phase=bins.phase,
        seconds=seconds,
        rates=rates,
        steps=_steps(span),
        windows=_windows(span),
        changes=_changes([change for change in result.summary.change_points if change.phase == bins.phase]),
        strips=tuple(_strip(bins, step_s) for step_s in steps_s[:MAX_STRIPS]),
        gaps=tuple(step_gap(bins, step_s) for step_s in steps_s),
        bin_s=bin_s,
        counted_s=bins.bin_s,
        seconds_bin_s=seconds_bin_s,
        not_drawn=not_drawn,
        end_s=span.to_s - span.from_s if span else _largest(rates, ("to_s",)),
        low_ms=low_ms,
        top_ms=top_ms,
        top_per_s=_ROOM * _largest(rates, ("offered", "sent", "acknowledged")),
    )


def _seconds(result: TrialResult, phase: str, span: PhaseSpan | None) -> tuple[Columns, int]:
    own = [point for point in result.series if point.phase == phase]
    begin_s = span.from_s if span else min((point.second for point in own), default=0.0)
    shifted = [point.model_copy(update={"second": round(point.second - begin_s, 3)}) for point in own]
    bin_s = max(1, -(-len(shifted) // MAX_POINTS))
    return columns(SECOND_COLUMNS, [row for group in binned(shifted, bin_s) for row in group]), bin_s


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


def _strip(bins: RateBins, step_s: float) -> Strip:
    """Return the bins where they were counted: a step inside a bin is not moved to its edge."""
    first, last = bins_around(bins, step_s)
    counts = list(zip_longest(bins.offered, bins.sent, bins.acknowledged, fillvalue=0))[first:last]
    rows: list[Row] = [
        (round((first + place) * bins.bin_s - step_s, 4), round((first + place + 1) * bins.bin_s - step_s, 4), *numbers)
        for place, numbers in enumerate(counts)
    ]
    drawn = columns(("from_s", "to_s", "offered", "sent", "acknowledged"), rows)
    top = 1.15 * _largest(drawn, ("offered", "sent", "acknowledged"))
    return Strip(step_s, drawn, columns(("at_s",), [(0.0,)]), top)


def _latency_axis(seconds: Columns) -> tuple[float, float]:
    """Return the ends of the log axis, in ms, with room above."""
    values = [
        value for name in ("p50_ms", "p90_ms", "max_ms") for value in seconds[name] if isinstance(value, float | int)
    ]
    if not values:
        return 0.1, 1.0
    low, high = min(values) * 0.8, max(values)
    return short(low), short(high * (high / low) ** (_LOG_ROOM / (1 - _LOG_ROOM)))


def _largest(drawn: Columns, names: Sequence[str]) -> float:
    return (
        float(max((value for name in names for value in drawn[name] if isinstance(value, int | float)), default=1))
        or 1.0
    )


def steps_section(run: RunView) -> doc.Section | None:
    """Return the section on what changed, and when; None of a run without steps, comparisons and change points."""
    figures = [(view, number, figure) for view in run.trials for number, figure in enumerate(step_figures(view.result))]
    folds = [
        doc.Fold(
            f"{view.label}, phase {figure.phase}, step by step",
            (_drawn(view, f"{view.anchor}-{number}", figure, sum(each[0] is view for each in figures)),),
            plain=len(figures) == 1,
        )
        for view, number, figure in figures
    ]
    nodes = (*compared_sentences(run), *folds, *change_tables(run))
    return doc.Section("steps", "What changed, and when", nodes, link="Changes") if nodes else None


def _drawn(view: TrialView, place: str, figure: StepFigure, figures: int) -> doc.Figure:
    phase = f", {figure.phase}" if figures > 1 else ""
    title = doc.Heading((f"{view.label}{phase} ", doc.badges(view.summary)))
    return doc.Figure((title, *_charts(view, place, figure)), _caption(view, figure), "zooms", "pair step")


def _charts(view: TrialView, place: str, figure: StepFigure) -> Iterator[doc.Node]:
    """Yield a phase across its steps: latency above rates, then each step close up."""
    experiment, of = view.summary.experiment, f"{view.label} across the load steps of phase {figure.phase}"
    shared = {"steps": figure.steps, "windows": figure.windows, "changes": figure.changes}
    axis = {"low": figure.low_ms, "top": figure.top_ms, "end": figure.end_s}
    top = {"top": figure.top_per_s, "end": figure.end_s}
    latency = {**shared, "seconds": figure.seconds}
    yield doc.Chart(
        Drawing(f"step-latency-{place}", "step-latency", latency, axis, experiment=experiment),
        f"p50, p90 and maximum {view.measure.name} of {of}",
    )
    rates = Drawing(f"step-rates-{place}", "step-rates", {**shared, "rates": figure.rates}, top)
    yield doc.Chart(rates, f"Offered, sent and acknowledged events per second of {of}")
    for number, strip in enumerate(figure.strips):
        bins = digits.latency(figure.counted_s * 1000)
        yield doc.Sentence(
            f"Close up: {AROUND_S:g} s to either side of the step at {strip.step_s:g} s, in bins of {bins}",
            "strip-title",
        )
        data = {"bins": strip.bins, "step": strip.step}
        drawing = Drawing(f"step-strip-{place}-{number}", "step-strip", data, {"top": strip.top})
        yield doc.Chart(drawing, f"Events in each bin around the step at {strip.step_s:g} seconds")


def _caption(view: TrialView, figure: StepFigure) -> doc.Text:
    points = (
        f" (a point stands for {figure.seconds_bin_s}{digits.NBSP}s: p50 and p90 the median of the seconds' own, max "
        "the maximum)"
    )
    shown, steps = len(figure.strips), len(figure.gaps)
    dashes = f" Upright dashes: where the level changes, its {doc.NINETY_FIVE} interval shaded."
    close_up = f" Close up: the first {shown} of {steps} steps."
    text = (
        f"{view.label}, phase {figure.phase}: {view.measure.name} of each second by intended "
        f"send{points if figure.seconds_bin_s > 1 else ''}, and events due, sent and acknowledged in bins of "
        f"{figure.bin_s:g}{digits.NBSP}s. Shaded: every second load step. Bars above the lines: the windows that are "
        f"compared.{dashes if figure.changes['at_s'] else ''}{close_up if shown < steps else ''}"
        f"{not_drawn_words(figure.not_drawn)}"
    )
    return doc.joined((text, *map(_gap, figure.gaps)), " ")


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

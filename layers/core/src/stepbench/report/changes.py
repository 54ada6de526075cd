"""Sentences on comparisons, change points and modes, and on whether the generator stood still at a load step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from stepbench import digits
from stepbench.analysis.verdict_text import holds_one, loads, other_cause
from stepbench.report import document as doc
from stepbench.report import numbers
from stepbench.report.run import window_label

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.chart_data import PhaseSpan, RateBins
    from stepbench.contracts.findings import ChangePoint, Comparison, Modality
    from stepbench.contracts.measures import Estimate, WindowResult
    from stepbench.contracts.result import TrialSummary
    from stepbench.report.run import RunView, TrialView

AROUND_S = 5.0
_SERIES = {"achieved_per_s": "acknowledged rate", "latency_ms": "latency"}


@dataclass(frozen=True)
class StepGap:
    """
    It is the longest run of bins in which nothing was sent, within `AROUND_S` of a step.

    `bins` is its length (0: every bin has one), `due` how many events were due in it; `bin_s` the width of a bin.
    """

    step_s: float
    bins: int
    due: int
    bin_s: float

    @property
    def gap_s(self) -> float:
        """Return the length in seconds."""
        return self.bins * self.bin_s

    def __str__(self) -> str:
        """Describe the gap, without a full stop."""
        around = f"within {AROUND_S:g} s of the step at {self.step_s:g} s"
        width = digits.latency(self.bin_s * 1000)
        if self.bins == 0:
            return f"no send gap of {width} or more {around}"
        due = f"{digits.counted(self.due, 'event', 'was', 'were') if self.due else 'no event was'} due in it"
        bins = digits.counted(self.bins, "bin")
        gap = digits.latency(self.gap_s * 1000)
        return f"the longest send gap {around} is {gap} or somewhat more ({bins} of {width}); {due}"


def describe_comparison(trial: TrialSummary, comparison: Comparison, phases: Sequence[PhaseSpan] = ()) -> str:
    """Describe what became of the median, then of the spread and the tail, and where the step need not be the cause."""
    step = step_between(comparison, phases)
    lead, (a, b) = _lead(trial, comparison, step), _compared_windows(trial, comparison)
    median, spread, tail = comparison.median_ratio, comparison.iqr_ratio, comparison.tail_ratio
    if median.value is None:
        return f"{lead} the median cannot be compared: {median.reason or 'no value'}."
    sentences = [f"{lead} the median was {digits.effect(median)}{_medians(a, b)}{_no_difference(median)}."]
    for what, ratio in (("The interquartile range", spread), ("p90 over median", tail)):
        if ratio.value is not None:
            said = digits.effect(ratio, above="as large")
            sentences.append(f"{what} was {said}{_no_difference(ratio)}.")
    load, blamed = (step[1:], "the step") if step else (loads(a, b) if a and b else (0, 0), "the load")
    why = other_cause(median, comparison.median_shift_ms.value, load, trial.floor_ms, blamed)
    return " ".join([*sentences, why.sentence] if why else sentences)


def step_between(comparison: Comparison, phases: Sequence[PhaseSpan]) -> tuple[float, float, float] | None:
    """Return the one step between two windows of a phase: second, rate before, rate after; None unless it is one."""
    span = next((each for each in phases if comparison.phase_a == comparison.phase_b == each.name), None)
    windows = {window.name: window for window in span.windows} if span else {}
    if span is None or comparison.a not in windows or comparison.b not in windows:
        return None
    a, b = windows[comparison.a], windows[comparison.b]
    found = [
        (after.from_s, before.rate_per_s, after.rate_per_s)
        for before, after in pairwise(span.steps)
        if a.to_s <= after.from_s + 1e-6 and after.from_s <= b.from_s + 1e-6
    ]
    return found[0] if len(found) == 1 else None


def describe_change(change: ChangePoint, steps_s: Sequence[float] = ()) -> str:
    """Describe whether a series changes its level, where, from what to what, and how far from the step."""
    if change.p_value is None:
        return f"not judged: {change.at_s.reason}"
    p = digits.p_value(change.p_value)
    if change.at_s.value is None:
        return f"no change seen ({p})"
    levels = ""
    if change.before is not None and change.after is not None:
        levels = f" from {format_level(change, change.before)} to {format_level(change, change.after)}"
    at = digits.shown(change.at_s, digits.SECONDS_AS_SUCH).in_sentence()
    return f"changes{levels} at {at}{_from_step(change.at_s.value, steps_s)} ({p})"


def format_level(change: ChangePoint, value: float | None) -> str:
    """Format a value of the change point's series, with its unit."""
    if value is None:
        return digits.NONE
    return f"{digits.rate(value)}/s" if change.series == "achieved_per_s" else digits.latency(value)


def describe_modality(modality: Modality) -> str:
    """Describe how many modes the test leaves, and where they lie."""
    if modality.p_value is None:
        return f"unknown: {digits.brief(modality.reason or 'no value')}"
    p = digits.p_value(modality.p_value)
    modes = [digits.latency(mode) for mode in modality.modes_ms]
    if len(modes) > 1:
        return f"{len(modes)} modes, near {', '.join(modes[:-1])} and {modes[-1]} ({p} for one)"
    return f"one mode{f' near {modes[0]}' if modes else ''}; no second one seen ({p})"


def step_gap(bins: RateBins, step_s: float) -> StepGap:
    """Find the gap around a step at so many seconds of the phase; bins after the last event due do not count."""
    first, last = bins_around(bins, step_s)
    best: list[int] = []
    for silent, run in groupby(range(first, last), key=lambda place: bins.sent[place] == 0):
        places = list(run)
        if silent and len(places) > len(best):
            best = places
    return StepGap(step_s, len(best), sum(bins.offered[place] for place in best), bins.bin_s)


def bins_around(bins: RateBins, step_s: float) -> tuple[int, int]:
    """Return the first bin within `AROUND_S` of the step and the one after the last, within the time with load."""
    loaded = max((place + 1 for place, due in enumerate(bins.offered) if due), default=0)
    first = math.floor((step_s - AROUND_S) / bins.bin_s + 1e-6)
    last = math.ceil((step_s + AROUND_S) / bins.bin_s - 1e-6)
    return max(0, first), min(loaded, len(bins.sent), last)


def _lead(trial: TrialSummary, comparison: Comparison, step: tuple[float, float, float] | None) -> str:
    if step is None:
        b = window_label(trial, comparison.phase_b, comparison.b)
        return f"In {b}, against {window_label(trial, comparison.phase_a, comparison.a)},"
    _, before, after = step
    return f"After the step from {digits.rate(before)}/s to {digits.rate(after)}/s"


def _medians(a: WindowResult | None, b: WindowResult | None) -> str:
    """Format the two medians of which the ratio is; empty where they are not known."""
    if a is None or b is None or a.latency_ms.p50.value is None or b.latency_ms.p50.value is None:
        return ""
    return f", {digits.latency(b.latency_ms.p50.value)} against {digits.latency(a.latency_ms.p50.value)}"


def _no_difference(ratio: Estimate) -> str:
    return ", so no difference is shown" if holds_one(ratio) else ""


def _compared_windows(trial: TrialSummary, comparison: Comparison) -> tuple[WindowResult | None, WindowResult | None]:
    found = {(window.phase, window.name): window for window in trial.windows}
    return found.get((comparison.phase_a, comparison.a)), found.get((comparison.phase_b, comparison.b))


def _from_step(at_s: float, steps_s: Sequence[float]) -> str:
    if not steps_s:
        return ""
    step_s = min(steps_s, key=lambda each: abs(each - at_s))
    away_s = abs(at_s - step_s)
    if away_s < 0.005:  # noqa: PLR2004 -- half of a hundredth, the finest that is printed
        return ", at the step"
    return f", {digits.fixed(away_s, 2)} s {'after' if at_s > step_s else 'before'} the step"


def compared_sentences(run: RunView) -> Iterator[doc.Node]:
    """Yield a sentence for each window that is compared with the one before it."""
    said = tuple(
        doc.named(view.label, view.summary, describe_comparison(view.summary, each, view.result.phases))
        for view in run.trials
        for each in view.summary.comparisons
    )
    if said:
        yield doc.Sentences(said, "The other windows")


def change_tables(run: RunView) -> Iterator[doc.Node]:
    """Yield the same comparisons as a table, then where each series changes its level most."""
    compared = [(view, each) for view in run.trials for each in view.summary.comparisons]
    changing = [(view, each) for view in run.trials for each in view.summary.change_points]
    if compared:
        caption = (
            f"{run.latency_title} of one window against the one before, with {doc.NINETY_FIVE} intervals from "
            "resampling blocks of time. Tail: p90 over median. A ratio whose interval holds 1 shows no difference."
        )
        headings = ("Median, shift", "Median, ratio", "Interquartile range, ratio", "Tail, ratio")
        columns = doc.columns("Windows", *headings)
        table = doc.Table("comparisons", caption, columns, doc.body(_compared(*each) for each in compared))
        yield doc.Fold("Each window against the one before it in a table", (table,))
    if changing:
        caption = (
            "Where each series changes its level most, in seconds of the phase, and the probability of so large a "
            "change by chance."
        )
        columns = doc.columns("Series", doc.words("In words", "words"), "At", "p")
        table = doc.Table("changes", caption, columns, doc.body(_changed(*each) for each in changing))
        yield doc.Fold("Where each series changes its level most", (table,))


def _compared(view: TrialView, each: Comparison) -> doc.Row:
    trial = view.summary
    windows = (window_label(trial, each.phase_b, each.b), window_label(trial, each.phase_a, each.a))
    cells = (
        numbers.estimate("median_shift_ms", each.median_shift_ms),
        numbers.estimate("median_ratio", each.median_ratio, "ratio"),
        numbers.estimate("iqr_ratio", each.iqr_ratio, "ratio"),
        numbers.estimate("tail_ratio", each.tail_ratio, "ratio"),
    )
    return doc.Row(
        doc.head(view.label, trial, " against ".join(windows)), cells, {"trial": trial.index, "a": each.a, "b": each.b}
    )


def _changed(view: TrialView, each: ChangePoint) -> doc.Row:
    trial = view.summary
    steps_s = next((step_starts(span) for span in view.result.phases if span.name == each.phase), ())
    cells = (
        doc.Cell(doc.sentence_case(describe_change(each, steps_s))),
        numbers.estimate("at_s", each.at_s, "s"),
        numbers.p_value(each.p_value),
    )
    data: doc.Data = {"trial": trial.index, "phase": each.phase, "series": each.series}
    return doc.Row(doc.head(f"{view.label}, {_SERIES[each.series]}", trial, f"phase {each.phase}"), cells, data)


def step_starts(span: PhaseSpan | None) -> tuple[float, ...]:
    """Return when the rate changes, in seconds of the phase."""
    return tuple(after.from_s for _, after in pairwise(span.steps)) if span else ()

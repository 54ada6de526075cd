"""Comparisons, change points and modes in words that a person understands first."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from stepbench.report import digits
from stepbench.report.labels import window_label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.drawn import PhaseSpan
    from stepbench.contracts.measures import ChangePoint, Comparison, Estimate, Modality
    from stepbench.contracts.result import TrialSummary

_SERIES = {"achieved_per_s": "acknowledged rate", "latency_ms": "latency"}


def comparison_sentence(trial: TrialSummary, comparison: Comparison, phases: Sequence[PhaseSpan] = ()) -> str:
    """What became of the median, then of the spread and the tail."""
    lead = _lead(trial, comparison, phases)
    median, spread, tail = comparison.median_ratio, comparison.iqr_ratio, comparison.tail_ratio
    if median.value is None:
        return f"{lead} the median cannot be compared: {median.reason or 'no value'}."
    words = [f"{lead} the median was {_times(median, 'as high')}."]
    if spread.value is not None:
        words.append(f"The middle half of the latencies spread {_times(spread, 'as wide')}.")
    if tail.value is not None:
        words.append(f"p90 over median was {_times(tail, 'as large')}.")
    return " ".join(words)


def step_between(comparison: Comparison, phases: Sequence[PhaseSpan]) -> tuple[float, float, float] | None:
    """The one step between two windows of a phase: its second, the rate before and after; None unless it is one."""
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


def change_words(change: ChangePoint, steps_s: Sequence[float] = ()) -> str:
    """Whether a series changes its level, where, from what to what, and how far from the step."""
    if change.p_value is None:
        return f"not judged: {change.at_s.reason}"
    p = digits.p_value(change.p_value)
    if change.at_s.value is None:
        return f"no change seen ({p})"
    levels = ""
    if change.before is not None and change.after is not None:
        levels = f" from {level(change, change.before)} to {level(change, change.after)}"
    return f"changes{levels} at {_seconds(change.at_s)}{_from_step(change.at_s.value, steps_s)} ({p})"


def series_name(change: ChangePoint) -> str:
    """What the change point is of."""
    return _SERIES[change.series]


def level(change: ChangePoint, value: float | None) -> str:
    """A value of the change point's series, with its unit."""
    if value is None:
        return digits.NONE
    return f"{digits.rate(value)}/s" if change.series == "achieved_per_s" else digits.latency(value)


def modality_words(modality: Modality) -> str:
    """How many modes the test leaves, and where they lie."""
    if modality.p_value is None:
        return f"not told: {modality.reason or 'no value'}"
    p = digits.p_value(modality.p_value)
    modes = [digits.latency(mode) for mode in modality.modes_ms]
    if len(modes) > 1:
        return f"{len(modes)} modes, near {', '.join(modes[:-1])} and {modes[-1]} ({p} for one)"
    return f"one mode{f' near {modes[0]}' if modes else ''}; no second one seen ({p})"


def _lead(trial: TrialSummary, comparison: Comparison, phases: Sequence[PhaseSpan]) -> str:
    step = step_between(comparison, phases)
    if step is None:
        b = window_label(trial, comparison.phase_b, comparison.b)
        return f"In {b}, against {window_label(trial, comparison.phase_a, comparison.a)},"
    _, before, after = step
    return f"After the step from {digits.rate(before)}/s to {digits.rate(after)}/s"


def _times(ratio: Estimate, as_what: str) -> str:
    """An interval that holds 1 shows no difference, which is not the same as showing that there is none."""
    times = digits.factor(ratio)
    if ratio.low is None or ratio.high is None:
        return f"{times} times {as_what} (no interval: {ratio.reason or 'not told'})"
    same = ", which is no difference that can be told from chance" if ratio.low <= 1 <= ratio.high else ""
    interval = times.partition(" ")[2]
    return f"{times.partition(' ')[0]} times {as_what} {interval}{same}"


def _seconds(at_s: Estimate) -> str:
    shown = digits.shown(at_s, digits.SECONDS_AS_SUCH)
    interval = shown.interval.strip("[]").replace(", ", " to ")
    return f"{shown.value} s ({interval})" if interval else f"{shown.value} s"


def _from_step(at_s: float, steps_s: Sequence[float]) -> str:
    if not steps_s:
        return ""
    step_s = min(steps_s, key=lambda each: abs(each - at_s))
    away_s = abs(at_s - step_s)
    if away_s < 0.005:  # noqa: PLR2004 -- half of a hundredth, the finest that is printed
        return ", at the step"
    return f", {digits.fixed(away_s, 2)} s {'after' if at_s > step_s else 'before'} the step"

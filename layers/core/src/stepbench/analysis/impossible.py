"""
Thresholds that a phase cannot keep to any more, whatever is still to come of it (`abort_on_fail`).

Only what is certain counts, by the number of events that the window will have: so many failed that the share of all is
too large; so many slow that the quantile lies among them, however fast the others are. A guess from what came until now
would end runs that recover.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench import digits
from stepbench.analysis import latency
from stepbench.analysis.windows import NS_PER_S, MeasuredWindow
from stepbench.contracts.experiment import QUANTILES, measure_of
from stepbench.contracts.phase import SHORTEST_CHECK_PAUSE_S
from stepbench.contracts.threshold_grammar import parse_threshold

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepbench.contracts.phase import Phase
    from stepbench.contracts.plan import TrialPlan, TrialSpec
    from stepbench.contracts.thresholds import Threshold
    from stepbench.records.join.joined import Joined

SETTLE_S = 15.0
"""What was due, or arrived, is in the records so much later: a flush interval of the writers, and time for the file and
for arrivals."""
_UPPER = ("<", "<=")
_NEEDS_ARRIVAL = frozenset({"latency", "response", "after_ack"})
"""Times of a trigger that end when it arrives."""


class Impossible(NamedTuple):
    """A threshold that cannot be kept, in which window, and what shows it."""

    threshold: str
    window: str
    text: str


def check_pause_s(spec: TrialSpec, phase: int) -> float:
    """Return how long after a check the next is due: all of a trial fit into its history, which has `most_checks`."""
    return max(SHORTEST_CHECK_PAUSE_S, spec.offered.phases[phase].length_s / spec.offered.threshold_checks)


def find_impossible(spec: TrialSpec, joined: Joined, phase: int, start_ns: int, now_ns: int) -> Impossible | None:
    """
    Return the first threshold of the trial that a phase cannot keep to any more; None while all can be.

    Args:
        spec: the trial, with the thresholds that it is ended for.
        joined: its records, as far as they go.
        phase: the phase's number.
        start_ns: its time zero.
        now_ns: when the records were about to be read.
    """
    thresholds = [parse_threshold(text) for text in spec.abort_on]
    return next(_impossible(spec.offered, thresholds, joined, (phase, start_ns), now_ns), None)


def _impossible(
    plan: TrialPlan, thresholds: Sequence[Threshold], joined: Joined, place: tuple[int, int], now_ns: int
) -> Iterator[Impossible]:
    phase, start_ns = place
    for window in plan.phases[phase].all_windows():
        about = [each for each in thresholds if each.window in {None, window.name} and each.kind is None]
        found = MeasuredWindow(joined, plan, start_ns, phase, window, number=0)
        for threshold in about:
            if text := _why(threshold, found, plan, now_ns):
                yield Impossible(threshold.text, window.name, text)


def _why(threshold: Threshold, window: MeasuredWindow, plan: TrialPlan, now_ns: int) -> str:
    """Return what shows that a window cannot keep to a threshold, or nothing."""
    if window.offered == 0:
        return ""
    if threshold.statistic == "errors":
        return _too_many_errors(threshold, window)
    upper = threshold.comparison in _UPPER and threshold.quantity == "ms"
    least_ms = _least_ms(threshold, window, plan, now_ns) if upper else None
    if least_ms is None:
        return ""
    slow = int(np.count_nonzero(least_ms > threshold.limit))
    if threshold.comparison == "<":
        slow = int(np.count_nonzero(least_ms >= threshold.limit))
    allowed = most_slow(threshold.statistic, window.offered - window.unacknowledged.size)
    if slow <= allowed:
        return ""
    said = (
        f"{digits.count(slow)} of the {digits.counted(window.offered, 'event')} that the whole window has took longer"
    )
    if threshold.statistic not in QUANTILES:
        return said
    return f"{said}, and with more than {digits.count(allowed)} {threshold.statistic} lies among them"


def most_slow(statistic: str, events: int) -> int:
    """
    Return how many of so many events may lie beyond a limit that a quantile, or the maximum, still keeps to.

    Fewer events, of a window that in the end has some less, may have no more.
    """
    if statistic not in QUANTILES:
        return 0
    return max(0, events - math.floor((events - 1) * QUANTILES[statistic]) - 1)


def _too_many_errors(threshold: Threshold, window: MeasuredWindow) -> str:
    """Return the words on more errors than all that the window has may come to; there are never fewer of them."""
    errors = window.unacknowledged.size
    least = errors / window.offered if threshold.quantity == "share" else errors
    exceeded = least > threshold.limit if threshold.comparison == "==" else not threshold.holds(least)
    if not errors or not exceeded or threshold.comparison not in {*_UPPER, "=="}:
        return ""
    return f"{digits.count(errors)} of the {digits.counted(window.offered, 'event')} that the whole window has failed"


def _least_ms(threshold: Threshold, window: MeasuredWindow, plan: TrialPlan, now_ns: int) -> NDArray[np.float64] | None:
    """
    Return how long each acknowledged event took at least; None where that is not known before the load has ended.

    What has not arrived has waited since its acknowledgement. Of a watcher's events only those that arrived count: it
    may have died, and what it missed is left out in the end. A measured function's arrivals are read from its log when
    the load has ended.
    """
    arrives = measure_of(plan.experiment).arrives
    measures = {
        "latency": latency.latency_of(plan),
        "response": latency.response_trigger if arrives else latency.response_write,
        "service": latency.service,
        "after_ack": latency.after_ack,
        "write_response": latency.response_write,
        "lateness": latency.lateness,
    }
    measure = measures.get(threshold.time)
    if measure is None:
        return None
    times_ms = window.values_ms(measure)
    if not arrives or threshold.time not in _NEEDS_ARRIVAL:
        return times_ms
    if plan.target.function is not None:
        return None
    waited_ms = window.since_acknowledged_ms(now_ns - round(SETTLE_S * NS_PER_S))
    least_ms = np.minimum(times_ms, waited_ms)
    return least_ms[np.isfinite(times_ms)] if plan.pull else least_ms


def ended_text(phase: Phase, offered_s: float, found: Impossible) -> str:
    """Return when and why a phase's load was ended."""
    where = "" if found.window == phase.name else f" in window {found.window}"
    early = f"was ended after {offered_s:.0f} s" if offered_s < phase.length_s - 0.5 else "was about to end"
    return f"Phase {phase.name} {early}: {found.threshold} could not be kept{where} any more. {found.text}."

"""
Phases and windows whose quantiles say less than they seem to.

Events are too few, or resemble each other; the store stalled, a queue grew, or latency drifted; or clients of a closed
loop waited while the store stood still, and offered nothing (coordinated omission).
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.findings import STOPPED_REMEDY
from stepbench.analysis.latency import NS_PER_MS
from stepbench.analysis.windows import NS_PER_S
from stepbench.contracts.experiment import HEADLINE_QUANTILES
from stepbench.contracts.result import Caveat
from stepbench.digits import MOST_TIMES_LONGER, brief, count, counted, latency, listed, longer, rate
from stepbench.stats.over_runs import dependence_in
from stepbench.stats.trend import ENDS_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.findings import Findings
    from stepbench.analysis.stalls import Stall
    from stepbench.analysis.windows import MeasuredWindow
    from stepbench.stats.over_runs import Dependence
    from stepbench.stats.trend import Backlog

_SUBJECTS = {"trigger": "the trigger", "operations": "operations", "dataflow": "executions"}
_MORE = {
    "the trigger": "give the trigger more: larger batches, more shards or concurrency, more memory",
    "operations": "give more to the store, or to the writers where they are late by themselves",
    "executions": "give the functions and the store of the DAG more",
}
_OF_ENDS = f"medians of its first and last {ENDS_WORDS}"
STALL = 10.0
"""An operation that takes so many times p99 belongs to no tail; something stood still."""
PACE = 0.5
"""A schedule at a client's own full pace would have no time to catch up, so it has this share of it."""


def find_short_windows(_evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """
    Report each window that is too short for the interval of a quantile, or whose events depend on one another.

    Of many that do so, a longer load makes few more: what makes them alike has to be found. What fell behind has a
    caveat of its own.
    """
    for place, window in enumerate(findings.windows):
        named = {name: getattr(window.latency_ms, name) for name in HEADLINE_QUANTILES}
        open_ = {
            name: each.reason
            for name, each in named.items()
            if each.value is not None and each.low is None and each.reason and not each.fell_behind
        }
        dependent = {name: found for name, reason in open_.items() if (found := dependence_in(reason))}
        short = [f"{name} {brief(reason)}" for name, reason in open_.items() if name not in dependent]
        if short:
            text = f"Window {window.name} is too short for an interval: {', '.join(short)}."
            remedy = "Offer more events, over a longer time: p99 needs 368 independent ones, p99.9 3,688."
            remedy = STOPPED_REMEDY if findings.cancelled else remedy
            yield Caveat(kind="short_sample", text=text, remedy=remedy, windows=(place,))
        if dependent:
            yield _dependent(window.name, place, dependent)


def _dependent(window: str, place: int, found: Mapping[str, Dependence]) -> Caveat:
    worth = min(found.values())
    text = (
        f"Window {window} has no interval for {listed(list(found))}: its {count(worth.events)} events resemble those "
        f"before them, and are worth {counted(worth.independent, 'independent one')}."
    )
    times = max(each.needed / max(1, each.independent) for each in found.values())
    repeats = (
        ", or in repeats, which do not depend on one another"
        if all(each.counts_over_runs for each in found.values())
        else ""
    )
    remedy = (
        f"Offer load for {longer(times)}{repeats}."
        if times <= MOST_TIMES_LONGER
        else "A longer load hardly helps, nor do such repeats. Look on the time line for what comes in spells "
        "(stalls, a drift, other work on the machine)."
    )
    return Caveat(kind="dependent_sample", text=text, remedy=remedy, windows=(place,))


def find_unsure_phases(_evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report each phase that ended before its quantile was as sure as the plan asks."""
    for phase in findings.stopped:
        if phase.wanted is not None and phase.reason != "sure" and (phase.final is None or phase.final > phase.wanted):
            remedy = "Raise until.max_events, ask for a wider interval, or for a quantile that is easier to know."
            remedy = STOPPED_REMEDY if findings.cancelled else remedy
            yield Caveat(kind="not_sure", text=phase.text, remedy=remedy)


def find_growth(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """
    Report each window in which events came faster than they were worked through, or else the latency drifted.

    What fell behind has no latency of its own: how long the last one waited depends on how long the load went on.
    """
    for place, window in enumerate(findings.measured_windows):
        if window.backlog:
            yield _fell_behind(window.name, _SUBJECTS[evidence.spec.offered.experiment], window.backlog, place)
        elif window.trend:
            before, after = (latency(1_000 * each_s) for each_s in (window.trend.before, window.trend.after))
            text = (
                f"Window {window.name}: latency {'rose' if window.trend.ratio > 1 else 'fell'} all through it, from "
                f"{before} to {after} ({_OF_ENDS}). Its quantiles are a mix of these, and "
                "depend on how long it is."
            )
            remedy = "Lengthen the warm-up, or give steady times a window of their own; the time line shows when."
            yield Caveat(kind="latency_drift", text=text, remedy=remedy, windows=(place,))


def _fell_behind(window: str, subject: str, found: Backlog, place: int) -> Caveat:
    before = latency(1_000 * found.before_s)
    grew = (
        f"latency grew from {before} (median at first) until most events never came through"
        if math.isinf(found.after_s)
        else f"latency grew from {before} to {latency(1_000 * found.after_s)} ({_OF_ENDS})"
    )
    kept_up = rate(round(found.kept_up_per_s, 1))
    text = (
        f"Window {window}: {subject} fell behind: at this rate the number depends on the run's length. Of "
        f"{rate(round(found.accepted_per_s, 1))} events a second {kept_up} were worked through, so {grew}, and "
        f"{count(round(found.waiting))} more events "
        "waited. It decides no verdict and no regression, and of thresholds on times those alone that it surely misses."
    )
    remedy = f"Offer less than {kept_up}/s, or {_MORE[subject]}."
    return Caveat(kind="fell_behind", text=text, remedy=remedy, windows=(place,))


def find_hidden_stalls(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """Report each closed-loop window whose longest operation took more than `STALL` times p99."""
    for place, (window, result) in enumerate(zip(findings.measured_windows, findings.windows, strict=True)):
        p99_ms, longest_ms = result.latency_ms.p99.value, result.latency_ms.max
        if evidence.spec.offered.phases[window.phase].closed is None or p99_ms is None or longest_ms is None:
            continue
        if longest_ms > STALL * p99_ms:
            seen, due = _stalled_shares(evidence, window, STALL * p99_ms)
            text = (
                f"Window {window.name}: the longest operation took {longest_ms:.4g} ms, {longest_ms / p99_ms:.0f} "
                f"times p99 ({p99_ms:.3g} ms). Clients that wait offer nothing, so few operations show it: "
                f"{seen:.2g} % took more than {STALL:g} times p99. Had they been due at an even pace, half as fast, "
                f"{due:.2g} % would have waited so long."
            )
            remedy = "Give load in place of closed: its response times, from t0, contain the waiting."
            yield Caveat(kind="stalls_hidden", text=text, remedy=remedy, windows=(place,))


def _stalled_shares(evidence: Evidence, window: MeasuredWindow, limit_ms: float) -> tuple[float, float]:
    """Return the percentage of operations above the limit, as measured and as a schedule would have had them."""
    service_ms = window.latency_ms()
    client = evidence.joined.extras.get("client")
    numbers = np.zeros(service_ms.size, np.int64) if client is None else client[window.acknowledged]
    length_ms = window.length_s * NS_PER_S / NS_PER_MS
    own = (service_ms[numbers == number] for number in np.unique(numbers).tolist())
    due_ms = [scheduled_response(client_ms, length_ms / client_ms.size / PACE) for client_ms in own]
    seen = np.count_nonzero(service_ms > limit_ms) / service_ms.size
    return 100 * seen, 100 * float(np.count_nonzero(np.concatenate(due_ms) > limit_ms)) / service_ms.size


def scheduled_response(service: NDArray[np.float64], interval: float) -> NDArray[np.float64]:
    """
    Return how long one client's operations would have taken, had one been due every `interval`.

    Each waits until those before it are answered: W' = max(0, W + S - interval), response = W + S. It supposes that
    the store would have answered each as fast as it did, so it says what a client would have waited for at least.

    Args:
        service: shape (n,), one client's service times in order.
        interval: between due times, same unit, at least 0.

    Source:
        Tene (2015), How NOT to measure latency (coordinated omission); Schroeder, Wierman & Harchol-Balter (2006), Open
        versus closed: a cautionary tale, NSDI '06; Lindley (1952), The theory of queues with a single server,
        Mathematical Proceedings of the Cambridge Philosophical Society 48(2); as a reflected random walk, Asmussen
        (2003), Applied Probability and Queues, III.7.
    """
    walk = np.concatenate(([0.0], np.cumsum(service - interval)[:-1])) if service.size else service
    wait = walk - np.minimum.accumulate(walk)
    return wait + service


_SHOWN = 3
_LENGTH = attrgetter("length_ns")


def find_stall_caveats(evidence: Evidence, findings: Findings) -> Iterator[Caveat]:
    """
    Report each measured phase in which the store stalled: when, how long, how much waited.

    Not the others: what is cold at first stands still in a warm-up, and that is what it is for. The time line has them.
    """
    zero_ns = evidence.joined.grid.timetable.first_ns()
    for number, phase in enumerate(evidence.spec.offered.phases):
        own = [stall for stall in findings.stalls if stall.phase == number]
        if not phase.measured or not own:
            continue
        longest = max(own, key=_LENGTH)
        at = datetime.fromtimestamp(longest.begin_ns // NS_PER_S, UTC)
        text = (
            f"Phase {phase.name}: the store answered nothing {_describe_span(longest, zero_ns)} of the trial "
            f"({at:%H:%M:%S} UTC), with {counted(longest.in_flight, 'request')} in flight at its end; "
            f"{counted(longest.events, 'event')} waited."
        )
        if others := [_describe_span(stall, zero_ns) for stall in own if stall is not longest]:
            shown = ", ".join(others[:_SHOWN]) + (", …" if len(others) > _SHOWN else "")
            total = counted(sum(stall.events for stall in own), "event")
            text += f" It was the longest of {len(own)} stalls; the others: {shown}. In all {total} waited."
        remedy = (
            "Look at the store's log of that time (a pause, a flush, a fail-over). Latencies contain the wait; run the "
            "trial again if it is not what you measure."
        )
        about = tuple(
            place
            for place, window in enumerate(findings.measured_windows)
            if window.phase == number and any(window.meets(stall.begin_ns, stall.end_ns) for stall in own)
        )
        yield Caveat(kind="store_stalled", text=text, remedy=remedy, windows=about)


def _describe_span(stall: Stall, zero_ns: int) -> str:
    from_s, to_s = ((each - zero_ns) / NS_PER_S for each in (stall.begin_ns, stall.end_ns))
    return f"between {from_s:.1f} s and {to_s:.1f} s"

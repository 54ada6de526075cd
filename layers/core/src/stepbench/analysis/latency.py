"""Each event's latencies are differences of its four times, computed for a cache-full of events at a time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.contracts.experiment import measure_of
from stepbench.records.join.sent import NarrowTimes, none_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from stepbench.contracts.plan import TrialPlan
    from stepbench.records.join.joined import Joined
    from stepbench.records.join.sent import Ints

    Measure = Callable[[Joined], "Elapsed"]
    Chosen = Iterable[tuple[Joined, NDArray[np.bool_]]]
    """Parts of the events, each with which of its events are chosen."""

NS_PER_MS = 1_000_000


class Elapsed(NamedTuple):
    """It holds times in ns by event, and which events have one; None means that all have."""

    ns: NDArray[np.int64]
    has: NDArray[np.bool_] | None = None


def lateness(part: Joined) -> Elapsed:
    """Return the time from t0 to t1."""
    return Elapsed(part.lateness_ns.astype(np.int64))


def service(part: Joined) -> Elapsed:
    """Return the time from t1 to t2."""
    return Elapsed(part.service_ns.astype(np.int64))


def response_write(part: Joined) -> Elapsed:
    """Return the time from t0 to t2."""
    return Elapsed(part.lateness_ns.astype(np.int64) + part.service_ns)


def response_trigger(part: Joined) -> Elapsed:
    """Return the time from t0 to t4 of events that arrived by the drain limit."""
    return Elapsed(part.first_arrivals.response_ns.astype(np.int64), part.arrived)


def trigger_latency(part: Joined) -> Elapsed:
    """Return the time from t1 to t4."""
    return Elapsed(part.first_arrivals.response_ns.astype(np.int64) - part.lateness_ns, part.arrived)


def after_ack(part: Joined) -> Elapsed:
    """Return the time from t2 to t4, which may be negative."""
    ns = part.first_arrivals.response_ns.astype(np.int64)
    ns -= part.lateness_ns
    ns -= part.service_ns
    return Elapsed(ns, part.arrived)


def to_event(part: Joined) -> Elapsed:
    """Return the time from t1 to t3, where the store reports t3."""
    return Elapsed(part.t3_ns - part.t1_ns, part.arrived & (part.t3_ns != 0))


def from_event(part: Joined) -> Elapsed:
    """Return the time from t3 to t4, where the store reports t3."""
    return Elapsed(part.t4_ns - part.t3_ns, part.arrived & (part.t3_ns != 0))


def handler_time(part: Joined) -> Elapsed:
    """Return how long a measured function's handler took, of the first invocation with each event."""
    found = part.processing
    if found is None:
        return Elapsed(np.zeros(part.size, np.int64), np.zeros(part.size, np.bool_))
    ended = found.handler_ns != none_of(found.handler_ns)
    return Elapsed(found.handler_ns.astype(np.int64), part.arrived & ended)


def to_processed(part: Joined) -> Elapsed:
    """Return the time from t0 to t5 of events that a measured function had processed by the drain limit."""
    found = part.processing
    none = np.zeros(part.size, np.int64)
    return Elapsed(none if found is None else found.processed_ns.astype(np.int64), part.processed)


def latency_of(plan: TrialPlan) -> Measure:
    """Return the experiment's latency: t4 - t1 for triggers, t2 - t1 for operations."""
    return trigger_latency if measure_of(plan.experiment).arrives else service


def collect(measure: Measure, chosen: Chosen, count: int) -> Ints:
    """Collect the chosen events' times in the order of the parts; a missing one is the largest of the column's type."""
    found, at = NarrowTimes(count), 0
    for part, which in chosen:
        ns, has = measure(part)
        if not which.all():
            ns, has = ns[which], None if has is None else has[which]
        found.put(slice(at, at + ns.size), ns, has)
        at += ns.size
    return found.values


def as_ms(times_ns: Ints) -> NDArray[np.float64]:
    """Convert to milliseconds; `inf` where there is none."""
    times_ms: NDArray[np.float64] = times_ns / np.float64(NS_PER_MS)
    times_ms[times_ns == none_of(times_ns)] = np.inf
    return times_ms


class Ascending:
    """
    It holds times in order of size, converted to milliseconds when they are read; `inf` where there is none.

    For quantiles, which look at ten values of ten million.
    """

    def __init__(self, times_ns: Ints) -> None:
        self._times_ns = times_ns
        self._none = none_of(times_ns)

    @property
    def size(self) -> int:
        """Return how many there are."""
        return self._times_ns.size

    def __getitem__(self, place: int) -> float:
        time_ns = int(self._times_ns[place])
        return math.inf if time_ns == self._none else time_ns / NS_PER_MS

    def all_ms(self) -> NDArray[np.float64]:
        """Convert all of them."""
        return as_ms(self._times_ns)

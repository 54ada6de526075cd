"""The measured windows hold the events that count, and give their measures with intervals."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.latency import (
    Ascending,
    after_ack,
    as_ms,
    collect,
    latency_of,
    lateness,
    response_write,
    service,
    to_event,
)
from stepbench.contracts.experiment import measure_of
from stepbench.model.request import Outcome
from stepbench.records.formats.columns import UNSENT
from stepbench.stats.estimates import Sample
from stepbench.stats.trend import find_backlog, find_trend

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.latency import Measure
    from stepbench.contracts.measures import Latency
    from stepbench.contracts.phase import Window
    from stepbench.contracts.plan import TrialPlan
    from stepbench.records.join.joined import Joined
    from stepbench.records.join.sent import Ints
    from stepbench.stats.trend import Backlog, Trend

NS_PER_S = 1_000_000_000
_BEFORE_ARRIVAL = (lateness, service, response_write, to_event)
"""Measures of a trigger that have ended when its queue begins."""
_MOST_LOOKED_AT = 1 << 17
"""Every k-th of more events shows a trend as well."""


class MeasuredWindow:
    """
    A measured window holds its events, and gives their measures.

    `scheduled` are all of them; `sent` is how many of these were sent or tried, and `unacknowledged` which of the
    latter failed or got no answer. `acknowledged` are the OK ones that are to pass the trigger's filter: what a filter
    holds back has no latency, and would be missing from every quantile. Those in a watch gap are left out as well:
    their latency is not the store's.
    `achieved_per_s` is all that the store acknowledged *during* the window, whenever it was due: by t0, a store that
    falls behind and catches up after the window would look as if it had kept pace.
    """

    def __init__(  # noqa: PLR0913 -- what it is a window of
        self, joined: Joined, plan: TrialPlan, phase_start_ns: int, phase: int, window: Window, *, number: int
    ) -> None:
        self.phase = phase
        self.name = window.name
        self.length_s = window.to_s - window.from_s
        self._events = joined.of_phase(phase)
        self._plan = plan
        self._arrives = measure_of(plan.experiment).arrives
        self._seed = (plan.seed, phase, number)
        self.start_ns = phase_start_ns + round(window.from_s * NS_PER_S)
        self._end_ns = phase_start_ns + round(window.to_s * NS_PER_S)
        self._held = np.zeros(self._events.size, dtype=np.bool_)
        self.offered = self.sent = self.unsent = self.n = achieved = 0
        refused, unanswered = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for part, place in self._places():
            inside, done = self._inside(part)
            self.offered += int(np.count_nonzero(inside))
            achieved += int(np.count_nonzero(done))
            sent = inside & (part.outcome <= Outcome.UNKNOWN)
            self.sent += int(np.count_nonzero(sent))
            self.unsent += int(np.count_nonzero(inside & (part.outcome == UNSENT)))
            refused.append(part.first + np.nonzero(sent & (part.outcome != Outcome.OK))[0])
            unanswered.append(part.first + np.nonzero(inside & (part.outcome == Outcome.UNKNOWN))[0])
            self._held[place] = inside & part.timed
            self.n += int(np.count_nonzero(self._held[place]))
        self.achieved_per_s = achieved / self.length_s
        self._refused, self._unanswered = np.concatenate(refused), np.concatenate(unanswered)

    def _places(self) -> Iterator[tuple[Joined, slice]]:
        for part in self._events.parts():
            first = part.first - self._events.first
            yield part, slice(first, first + part.size)

    def _inside(self, part: Joined) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which events were due in the window, and which were acknowledged in it."""
        t0_ns = part.t0_ns
        t2_ns = t0_ns + part.lateness_ns + part.service_ns
        done = (part.outcome == Outcome.OK) & (t2_ns >= self.start_ns) & (t2_ns < self._end_ns)
        return (t0_ns >= self.start_ns) & (t0_ns < self._end_ns), done

    def _chosen(self) -> Iterator[tuple[Joined, NDArray[np.bool_]]]:
        return ((part, self._held[place]) for part, place in self._places())

    def count_duplicates(self) -> int | None:
        """Return how many duplicates its events have (see `Joined.duplicates`); None where nothing is to arrive."""
        if not self._arrives:
            return None
        return sum(int(part.duplicates[self._inside(part)[0]].sum()) for part in self._events.parts())

    def count_lost(self, cut_off_ns: int | None) -> int | None:
        """
        Return how many of its events are lost; None where nothing is to arrive.

        cut_off_ns: as `Joined.lost` takes it.
        """
        if not self._arrives:
            return None
        lost = (self._inside(part)[0] & part.lost(cut_off_ns) for part in self._events.parts())
        return sum(int(np.count_nonzero(each)) for each in lost)

    @cached_property
    def scheduled(self) -> NDArray[np.int64]:
        """Return the numbers of its events in the grid, by ascending t0."""
        held = [part.first + np.nonzero(self._inside(part)[0])[0] for part in self._events.parts()]
        return self._by_time(np.concatenate([np.empty(0, np.int64), *held]))

    @cached_property
    def unacknowledged(self) -> NDArray[np.int64]:
        """Return the numbers of those in the grid that failed or got no answer, by ascending t0."""
        return self._by_time(self._refused) if self._refused.size else self._refused

    @cached_property
    def acknowledged(self) -> NDArray[np.int64]:
        """Return the numbers of its acknowledged events in the grid, by ascending t0."""
        return self._by_time(self._events.first + np.nonzero(self._held)[0])

    def _by_time(self, events: NDArray[np.int64]) -> NDArray[np.int64]:
        return events[np.argsort(self._t0_ns[events - self._events.first], kind="stable")]

    @property
    def _t0_ns(self) -> NDArray[np.int64]:
        return self._events.t0_ns

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        """Return the order of its acknowledged events by ascending t0, as places in the grid's order."""
        return np.argsort(self._t0_ns[self._held], kind="stable")

    def in_grid_order_ns(self, measure: Measure) -> Ints:
        """Return a measure of the acknowledged events, as narrow as can be; the type's largest where missing."""
        return collect(measure, self._chosen(), self.n)

    def ascending(self, measure: Measure) -> Ascending:
        """Return a measure of the acknowledged events in order of size."""
        times_ns = self.in_grid_order_ns(measure)
        times_ns.sort()
        return Ascending(times_ns)

    def values_ms(self, measure: Measure) -> NDArray[np.float64]:
        """Return a measure of the acknowledged events in order of t0."""
        return as_ms(self.in_grid_order_ns(measure)[self._order])

    def since_acknowledged_ms(self, now_ns: int) -> NDArray[np.float64]:
        """Return how long ago each acknowledged event was acknowledged, in order of t0; at least nothing."""
        answered_ms = self.values_ms(response_write)
        return np.maximum(0.0, (now_ns - self._t0_ns[self._held][self._order]) / 1e6 - answered_ms)

    def latency_ms(self) -> NDArray[np.float64]:
        """Return the experiment's latency (see `analysis.latency`), in order of t0."""
        return self.values_ms(latency_of(self._plan))

    def ascending_latency(self) -> Ascending:
        """Return the experiment's latency in order of size."""
        return self.ascending(latency_of(self._plan))

    def after_ack_ms(self) -> NDArray[np.float64] | None:
        """Return t4 - t2, which may be negative; None where nothing is to arrive."""
        return self.values_ms(after_ack) if self._arrives else None

    @cached_property
    def _at_s(self) -> NDArray[np.float64]:
        return self._since_start_s(self._t0_ns[self._held][self._order])

    def _since_start_s(self, t0_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        return (t0_ns - self.start_ns) / NS_PER_S

    def sample(
        self,
        values_ms: NDArray[np.float64],
        purpose: int = 0,
        events: NDArray[np.int64] | None = None,
        *,
        queued: bool = True,
    ) -> Sample:
        """
        Return a measure of all or some acknowledged events; each `purpose` has its own random numbers.

        queued: the measure contains the wait in a queue, where there is one: its quantiles have no interval then. What
            is missing of such a measure of a trigger has waited as long as the drain limit.
        """
        at_s = self._at_s if events is None else self._since_start_s(self._t0_ns[events - self._events.first])
        rng = np.random.default_rng((*self._seed, purpose))
        unsteady = self.backlog.reason if queued and self.backlog else ""
        over_ms = 1_000 * self._plan.drain_limit_s if queued and self._arrives else None
        return Sample(values_ms, at_s, self.length_s, self._plan.drain_limit_s, rng, unsteady, over_ms)

    def latency(self, measure: Measure) -> Latency:
        """Return a measure's quantiles, with intervals."""
        queued = not (self._arrives and measure in _BEFORE_ARRIVAL)
        return self.sample(self.values_ms(measure), queued=queued).latency()

    @cached_property
    def trend(self) -> Trend | None:
        """Return how the experiment's latency rose or fell in the window, in seconds; None where it did not."""
        return find_trend(*self._latency_s, self.length_s)

    @cached_property
    def backlog(self) -> Backlog | None:
        """Return what fell behind: arrivals, or answers to what was due; None in closed loop, where nothing can."""
        if not self._plan.phases[self.phase].is_open:
            return None
        found = find_backlog(*(self._latency_s if self._arrives else self._answers_s()), self.length_s)
        return found and found.times(self._every)

    @cached_property
    def _latency_s(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self._thinned_s(latency_of(self._plan))

    def _answers_s(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return how long after they were due operations were answered, and when that was; `inf` of unknown outcome."""
        elapsed_s, at_s = self._thinned_s(response_write)
        unknown_at_s = self._since_start_s(np.sort(self._t0_ns[self._unanswered - self._events.first])[:: self._every])
        elapsed_s = np.append(elapsed_s, np.full(unknown_at_s.size, np.inf))
        at_s = np.append(at_s, unknown_at_s)
        order = np.argsort(at_s, kind="stable")
        return elapsed_s[order], at_s[order]

    @property
    def _every(self) -> int:
        return 1 + self.n // _MOST_LOOKED_AT

    def _thinned_s(self, measure: Measure) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return a measure of every k-th event, and when each was due since the window's start, in seconds."""
        values_ms = as_ms(self.in_grid_order_ns(measure)[self._order[:: self._every]])
        return values_ms / 1_000, self._at_s[:: self._every]

    def arrival_latency(self, measure: Measure) -> Latency | None:
        """Return the quantiles of a measure that ends at t4; None where nothing is to arrive."""
        return self.latency(measure) if self._arrives else None

    def has_any(self, chosen: NDArray[np.bool_]) -> bool:
        """Return whether some of its scheduled events are among the chosen; shape (n,), by number in the grid."""
        parts = (self._inside(part)[0] & chosen[part.first : part.first + part.size] for part in self._events.parts())
        return any(bool(inside.any()) for inside in parts)

    def meets(self, begin_ns: int, end_ns: int) -> bool:
        """Return whether the window has a moment of [begin_ns, end_ns), in ns since the epoch."""
        return self.start_ns < end_ns and begin_ns < self._end_ns

    def overlaps(self, other: MeasuredWindow) -> bool:
        """Return whether an event could be in both windows."""
        return self.phase == other.phase and self.meets(other.start_ns, other._end_ns)


def measured_windows(evidence: Evidence) -> Iterator[MeasuredWindow]:
    """Yield all windows of the measured phases that were planned, in order."""
    plan, records = evidence.spec.offered, evidence.records
    for phase, planned in enumerate(plan.phases):
        if phase in records.starts_ns:
            for number, window in enumerate(planned.all_windows(evidence.records.offered_s(phase))):
                yield MeasuredWindow(evidence.joined, plan, records.starts_ns[phase], phase, window, number=number)


def windows_with(windows: Sequence[MeasuredWindow], chosen: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the places of the windows that have some of the chosen events, shape (n,), by number in the grid."""
    return tuple(place for place, window in enumerate(windows) if window.has_any(chosen))

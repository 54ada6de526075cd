"""The measured windows: their measures, with intervals."""

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
    response_trigger,
    response_write,
    service,
)
from stepbench.analysis.operations import operations
from stepbench.contracts.drawn import EcdfCurve
from stepbench.contracts.measure import measure_of
from stepbench.contracts.measures import Latency, WindowResult
from stepbench.drivers.protocol import Outcome
from stepbench.stats.curves import ecdf
from stepbench.stats.estimates import Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.latency import Measure
    from stepbench.contracts.plan import TrialPlan, Window
    from stepbench.records.joined import Joined
    from stepbench.records.narrow import Ints

NS_PER_S = 1_000_000_000


class MeasuredWindow:
    """
    Which events a window holds.

    `scheduled` are all of them, `acknowledged` the OK ones that are to pass the trigger's filter: what a filter holds
    back has no latency, and would be missing from every quantile. `achieved_per_s` is all that the store acknowledged
    *during* the window, whenever it was due: by t0, a store that falls behind and catches up after the window would
    look as if it had kept pace.
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
        self.offered = self.n = achieved = 0
        for part, place in self._places():
            inside, done = self._inside(part)
            self.offered += int(np.count_nonzero(inside))
            achieved += int(np.count_nonzero(done))
            self._held[place] = inside & part.acknowledged
            self.n += int(np.count_nonzero(self._held[place]))
        self.achieved_per_s = achieved / self.length_s

    def _places(self) -> Iterator[tuple[Joined, slice]]:
        for part in self._events.parts():
            first = part.first - self._events.first
            yield part, slice(first, first + part.size)

    def _inside(self, part: Joined) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which events were due in the window, and which were acknowledged in it."""
        t0_ns = part.t0_ns
        t2_ns = t0_ns + part.lateness_ns + part.service_ns
        done = (part.outcome == Outcome.OK) & (t2_ns >= self.start_ns) & (t2_ns < self._end_ns)
        return (t0_ns >= self.start_ns) & (t0_ns < self._end_ns), done

    def _chosen(self) -> Iterator[tuple[Joined, NDArray[np.bool_]]]:
        return ((part, self._held[place]) for part, place in self._places())

    @cached_property
    def scheduled(self) -> NDArray[np.int64]:
        """Numbers of its events in the grid, by ascending t0."""
        held = [part.first + np.nonzero(self._inside(part)[0])[0] for part in self._events.parts()]
        return self._by_time(np.concatenate([np.empty(0, np.int64), *held]))

    @cached_property
    def acknowledged(self) -> NDArray[np.int64]:
        """Those of them that were acknowledged."""
        return self._by_time(self._events.first + np.nonzero(self._held)[0])

    def _by_time(self, events: NDArray[np.int64]) -> NDArray[np.int64]:
        return events[np.argsort(self._t0_ns[events - self._events.first], kind="stable")]

    @property
    def _t0_ns(self) -> NDArray[np.int64]:
        return self._events.t0_ns

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        """Where among its acknowledged events in the grid's order those by ascending t0 stand."""
        return np.argsort(self._t0_ns[self._held], kind="stable")

    def in_grid_order_ns(self, measure: Measure) -> Ints:
        """A measure of the acknowledged events, as narrow as can be; the largest of its type for what has none."""
        return collect(measure, self._chosen(), self.n)

    def ascending(self, measure: Measure) -> Ascending:
        """The same in order of size."""
        times_ns = self.in_grid_order_ns(measure)
        times_ns.sort()
        return Ascending(times_ns)

    def values_ms(self, measure: Measure) -> NDArray[np.float64]:
        """The same in order of t0."""
        return as_ms(self.in_grid_order_ns(measure)[self._order])

    def latency_ms(self) -> NDArray[np.float64]:
        """The experiment's latency (see `analysis.latency`), in order of t0."""
        return self.values_ms(latency_of(self._plan))

    def ascending_latency(self) -> Ascending:
        """The same in order of size."""
        return self.ascending(latency_of(self._plan))

    def after_ack_ms(self) -> NDArray[np.float64] | None:
        """Latency after the acknowledgement, t4 - t2, which may be negative; None where nothing is to arrive."""
        return self.values_ms(after_ack) if self._arrives else None

    @cached_property
    def _at_s(self) -> NDArray[np.float64]:
        return self._since_start_s(self._t0_ns[self._held][self._order])

    def _since_start_s(self, t0_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        at_s: NDArray[np.float64] = (t0_ns - self.start_ns) / NS_PER_S
        return at_s

    def sample(
        self, values_ms: NDArray[np.float64], purpose: int = 0, events: NDArray[np.int64] | None = None
    ) -> Sample:
        """A measure of the acknowledged events, or of some; every `purpose` has random numbers of its own."""
        at_s = self._at_s if events is None else self._since_start_s(self._t0_ns[events - self._events.first])
        rng = np.random.default_rng((*self._seed, purpose))
        return Sample(values_ms, at_s, self.length_s, self._plan.drain_limit_s, rng)

    def latency(self, measure: Measure) -> Latency:
        """A measure's quantiles, with intervals."""
        return self.sample(self.values_ms(measure)).latency()

    def arrival_latency(self, measure: Measure) -> Latency | None:
        """The same of one that ends at t4; None where nothing is to arrive."""
        return self.latency(measure) if self._arrives else None

    def overlaps(self, other: MeasuredWindow) -> bool:
        """Whether an event could be in both."""
        return self.phase == other.phase and self.start_ns < other._end_ns and other.start_ns < self._end_ns


def measured_windows(evidence: Evidence) -> Iterator[MeasuredWindow]:
    """All windows of the measured phases that were planned, in order."""
    plan, records = evidence.spec.plan, evidence.records
    for phase, planned in enumerate(plan.phases):
        if phase in records.starts_ns:
            for number, window in enumerate(planned.all_windows(evidence.records.offered_s(phase))):
                yield MeasuredWindow(evidence.joined, plan, records.starts_ns[phase], phase, window, number=number)


def window_result(evidence: Evidence, window: MeasuredWindow) -> WindowResult:
    """What the summary says of a window."""
    return WindowResult(
        name=window.name,
        phase=evidence.spec.plan.phases[window.phase].name,
        n=window.n,
        offered_per_s=window.offered / window.length_s,
        achieved_per_s=window.achieved_per_s,
        latency_ms=window.latency(latency_of(evidence.spec.plan)),
        after_ack_ms=window.arrival_latency(after_ack),
        response_write_ms=window.latency(response_write),
        response_trigger_ms=window.arrival_latency(response_trigger),
        service_ms=window.latency(service),
        lateness_ms=window.latency(lateness),
        operations=operations(evidence, window),
    )


def window_curve(evidence: Evidence, window: MeasuredWindow) -> EcdfCurve:
    """The window's empirical distribution of latency."""
    curve = ecdf(window.ascending_latency().all_ms())
    return EcdfCurve(
        window=window.name,
        phase=evidence.spec.plan.phases[window.phase].name,
        latency_ms=tuple(curve.value.tolist()),
        probability=tuple(curve.probability.tolist()),
    )

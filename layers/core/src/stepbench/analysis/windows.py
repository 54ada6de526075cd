"""The measured windows: their measures, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.latency import NS_PER_MS, latency_ms
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
    from stepbench.contracts.plan import TrialPlan, Window
    from stepbench.records.join import Joined

NS_PER_S = 1_000_000_000


class MeasuredWindow:
    """
    Which events a window holds, by ascending t0.

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
        self._joined = joined
        self._plan = plan
        self._arrives = measure_of(plan.experiment).arrives
        self._seed = (plan.seed, phase, number)
        self.start_ns = phase_start_ns + round(window.from_s * NS_PER_S)
        self._end_ns = phase_start_ns + round(window.to_s * NS_PER_S)
        inside = (joined.phase == phase) & (joined.t0_ns >= self.start_ns) & (joined.t0_ns < self._end_ns)
        held = np.nonzero(inside)[0]
        self.scheduled = held[np.argsort(joined.t0_ns[held], kind="stable")]
        self.acknowledged = self.scheduled[joined.acknowledged[self.scheduled]]
        done = (joined.phase == phase) & (joined.outcome == Outcome.OK)
        done &= (joined.t2_ns >= self.start_ns) & (joined.t2_ns < self._end_ns)
        self.achieved_per_s = int(np.count_nonzero(done)) / self.length_s

    def elapsed_ms(self, until_ns: NDArray[np.int64], since_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """A difference of two of the joined columns, for the acknowledged events."""
        elapsed: NDArray[np.float64] = (until_ns[self.acknowledged] - since_ns[self.acknowledged]) / NS_PER_MS
        return elapsed

    def until_arrival_ms(self, since_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """t4 minus a joined column; `inf` for what had not arrived by the drain limit."""
        elapsed = self.elapsed_ms(self._joined.t4_ns, since_ns)
        elapsed[~self._joined.arrived[self.acknowledged]] = np.inf
        return elapsed

    def latency_ms(self) -> NDArray[np.float64]:
        """The experiment's latency (see `analysis.latency`)."""
        return latency_ms(self._joined, self._plan)[self.acknowledged]

    def arrival_latency(self, since_ns: NDArray[np.int64]) -> Latency | None:
        """Quantiles of t4 minus a joined column; None where nothing is to arrive."""
        return self.latency(self.until_arrival_ms(since_ns)) if self._arrives else None

    def after_ack_ms(self) -> NDArray[np.float64] | None:
        """Latency after the acknowledgement, t4 - t2, which may be negative; None where nothing is to arrive."""
        return self.until_arrival_ms(self._joined.t2_ns) if self._arrives else None

    def sample(
        self, values_ms: NDArray[np.float64], purpose: int = 0, events: NDArray[np.int64] | None = None
    ) -> Sample:
        """A measure of the acknowledged events, or of some; every `purpose` has random numbers of its own."""
        of = self.acknowledged if events is None else events
        at_s = (self._joined.t0_ns[of] - self.start_ns) / NS_PER_S
        rng = np.random.default_rng((*self._seed, purpose))
        return Sample(values_ms, at_s, self.length_s, self._plan.drain_limit_s, rng)

    def latency(self, values_ms: NDArray[np.float64]) -> Latency:
        """The same, with intervals."""
        return self.sample(values_ms).latency()

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
    joined: Joined = evidence.joined
    return WindowResult(
        name=window.name,
        phase=evidence.spec.plan.phases[window.phase].name,
        n=window.acknowledged.size,
        offered_per_s=window.scheduled.size / window.length_s,
        achieved_per_s=window.achieved_per_s,
        latency_ms=window.latency(window.latency_ms()),
        after_ack_ms=window.arrival_latency(joined.t2_ns),
        response_write_ms=window.latency(window.elapsed_ms(joined.t2_ns, joined.t0_ns)),
        response_trigger_ms=window.arrival_latency(joined.t0_ns),
        service_ms=window.latency(window.elapsed_ms(joined.t2_ns, joined.t1_ns)),
        lateness_ms=window.latency(window.elapsed_ms(joined.t1_ns, joined.t0_ns)),
        operations=operations(evidence, window),
    )


def window_curve(evidence: Evidence, window: MeasuredWindow) -> EcdfCurve:
    """The window's empirical distribution of latency."""
    curve = ecdf(np.sort(window.latency_ms()))
    return EcdfCurve(
        window=window.name,
        phase=evidence.spec.plan.phases[window.phase].name,
        latency_ms=tuple(curve.value.tolist()),
        probability=tuple(curve.probability.tolist()),
    )

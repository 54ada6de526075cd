"""The trial on its time axis, which begins with its first t0."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from stepbench.analysis.latency import latency_ms
from stepbench.analysis.windows import NS_PER_S
from stepbench.contracts.drawn import PhaseSpan, SeriesPoint, StepSpan, WindowSpan
from stepbench.drivers.protocol import Outcome
from stepbench.stats.curves import by_second

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.analysis.evidence import Evidence
    from stepbench.contracts.plan import Phase


def phase_spans(evidence: Evidence) -> tuple[PhaseSpan, ...]:
    """Where the planned phases lie."""
    zero_ns = _zero_ns(evidence)
    return tuple(
        PhaseSpan(
            name=evidence.spec.plan.phases[phase].name,
            measured=evidence.spec.plan.phases[phase].measured,
            from_s=(start_ns - zero_ns) / NS_PER_S,
            to_s=(start_ns - zero_ns) / NS_PER_S + evidence.records.offered_s(phase),
            steps=_step_spans(evidence.spec.plan.phases[phase], evidence.records.offered_s(phase)),
            windows=tuple(
                WindowSpan(name=window.name, from_s=window.from_s, to_s=window.to_s)
                for window in evidence.spec.plan.phases[phase].all_windows(evidence.records.offered_s(phase))
            ),
        )
        for phase, start_ns in sorted(evidence.records.starts_ns.items())
    )


def _step_spans(phase: Phase, offered_s: float) -> tuple[StepSpan, ...]:
    if not phase.load:
        return ()  # closed loop has no rate
    ends_s = [*accumulate(step.length_s for step in phase.load[:-1]), offered_s]
    begins_s = [0.0, *ends_s[:-1]]
    return tuple(
        StepSpan(rate_per_s=step.rate_per_s, from_s=begin_s, to_s=end_s)
        for step, begin_s, end_s in zip(phase.load, begins_s, ends_s, strict=True)
    )


def series(evidence: Evidence) -> tuple[SeriesPoint, ...]:
    """
    One point for every second in which events were due; the pauses between phases have none.

    Seconds are counted from the start of each phase, so that an even load has as many events in each.
    """
    joined = evidence.joined
    if joined.t0_ns.size == 0:
        return ()
    phases, begin_s = _seconds(evidence)
    first = np.searchsorted(phases, np.arange(len(evidence.spec.plan.phases)))
    starts_ns = np.array([evidence.records.starts_ns.get(number, 0) for number in range(first.size)], dtype=np.int64)
    second = first[joined.phase] + (joined.t0_ns - starts_ns[joined.phase]) // NS_PER_S
    ok = joined.outcome == Outcome.OK
    elapsed_ms = latency_ms(joined, evidence.spec.plan)
    quantiles = by_second(elapsed_ms[joined.acknowledged], second[joined.acknowledged], phases.size)
    offered = np.bincount(second[joined.offered], minlength=phases.size)
    acknowledged = np.bincount(second[ok], minlength=phases.size)
    not_matching = np.bincount(second[ok & ~joined.matching], minlength=phases.size)
    arrived = np.bincount(second[joined.arrived], minlength=phases.size)
    return tuple(
        SeriesPoint(
            second=float(begin_s[at]),
            phase=evidence.spec.plan.phases[int(phases[at])].name,
            offered=int(offered[at]),
            acknowledged=int(acknowledged[at]),
            not_matching=int(not_matching[at]),
            arrived=int(arrived[at]),
            p50_ms=_finite(quantiles.p50[at]),
            p90_ms=_finite(quantiles.p90[at]),
            max_ms=_finite(quantiles.largest[at]),
        )
        for at in np.nonzero(offered)[0].tolist()
    )


def _seconds(evidence: Evidence) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Of all seconds of the planned phases, one phase after the other: the phase, and where it begins on the axis."""
    zero_ns = _zero_ns(evidence)
    phases: list[NDArray[np.int64]] = []
    begin_s: list[NDArray[np.float64]] = []
    for phase, start_ns in sorted(evidence.records.starts_ns.items()):
        # One more than the length: rounding may put the last t0 on the end itself.
        seconds = math.floor(evidence.spec.plan.phases[phase].length_s) + 1
        phases.append(np.full(seconds, phase))
        begin_s.append((start_ns - zero_ns) / NS_PER_S + np.arange(seconds, dtype=np.float64))
    return np.concatenate(phases), np.concatenate(begin_s)


def _zero_ns(evidence: Evidence) -> int:
    first_t0_ns = evidence.joined.t0_ns.min(initial=np.iinfo(np.int64).max)
    return min(int(first_t0_ns), *evidence.records.starts_ns.values(), np.iinfo(np.int64).max)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None

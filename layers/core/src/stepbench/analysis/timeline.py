"""The trial on its time axis, which begins with its first t0."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.analysis.latency import as_ms, collect, latency_of
from stepbench.analysis.seconds import by_seconds
from stepbench.analysis.windows import NS_PER_S
from stepbench.contracts.drawn import PhaseSpan, SeriesPoint, StepSpan, WindowSpan
from stepbench.drivers.protocol import Outcome
from stepbench.stats.curves import BySecond, by_second

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.latency import Measure
    from stepbench.analysis.seconds import Seconds
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
    zero_ns = _zero_ns(evidence)
    return tuple(point for phase in sorted(evidence.records.starts_ns) for point in _of_phase(evidence, phase, zero_ns))


def _of_phase(evidence: Evidence, phase: int, zero_ns: int) -> Iterator[SeriesPoint]:
    start_ns, measure = evidence.records.starts_ns[phase], latency_of(evidence.spec.plan)
    # One more than the length: rounding may put the last t0 on the end itself.
    seconds = math.floor(evidence.spec.plan.phases[phase].length_s) + 1
    begin_s = (start_ns - zero_ns) / NS_PER_S
    for first, parts in by_seconds(evidence.joined, phase, start_ns, seconds):
        if parts:
            yield from _points(evidence.spec.plan.phases[phase].name, begin_s, first, _Counts.of(parts, measure))


class _Counts(NamedTuple):
    """By second."""

    offered: list[int]
    acknowledged: list[int]
    not_matching: list[int]
    arrived: list[int]
    quantiles: BySecond

    @classmethod
    def of(cls, parts: Sequence[Seconds], measure: Measure) -> _Counts:
        """Of parts that lie in the same seconds."""
        whole = parts[0].whole
        counts = np.zeros((4, whole), np.int64)
        values_ms, second = [np.empty(0)], [np.empty(0, np.int64)]
        for part in parts:
            own, matching = part.events, part.events.matching
            ok = own.outcome == Outcome.OK
            for row, which in enumerate((own.offered, ok, ok & ~matching, own.arrived)):
                counts[row] += part.chosen(which)
            timed = ok & matching
            values_ms.append(as_ms(collect(measure, [(own, timed)], int(np.count_nonzero(timed)))))
            second.append(part.second[timed])
        quantiles = by_second(np.concatenate(values_ms), np.concatenate(second), whole)
        offered, acknowledged, not_matching, arrived = counts.tolist()
        return cls(offered, acknowledged, not_matching, arrived, quantiles)


def _points(phase: str, begin_s: float, first: int, counts: _Counts) -> Iterator[SeriesPoint]:
    for at in (at for at, offered in enumerate(counts.offered) if offered):
        yield SeriesPoint(
            second=begin_s + first + at,
            phase=phase,
            offered=counts.offered[at],
            acknowledged=counts.acknowledged[at],
            not_matching=counts.not_matching[at],
            arrived=counts.arrived[at],
            p50_ms=_finite(counts.quantiles.p50[at]),
            p90_ms=_finite(counts.quantiles.p90[at]),
            max_ms=_finite(counts.quantiles.largest[at]),
        )


def _zero_ns(evidence: Evidence) -> int:
    return evidence.joined.grid.timetable.first_ns()


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None

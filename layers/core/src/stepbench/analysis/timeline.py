"""
The trial on its time axis, which begins with its first t0: phases, stalls, and events by second.

Events are counted by the second in which they were due, some seconds of all writers at a time.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.analysis.latency import as_ms, collect, latency_of
from stepbench.analysis.windows import NS_PER_S
from stepbench.contracts.chart_data import PhaseSpan, SeriesPoint, StallSpan, StepSpan, WindowSpan
from stepbench.model.request import Outcome
from stepbench.stats.quantiles import by_second

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepbench.analysis.evidence import Evidence
    from stepbench.analysis.latency import Measure
    from stepbench.analysis.stalls import Stall
    from stepbench.contracts.phase import Phase
    from stepbench.records.join.joined import Joined

MAX_STALLS = 200
_AT_ONCE = 1 << 18
"""Events, of all writers, that are counted at a time."""


class _Seconds(NamedTuple):
    """
    The events of one slot in some whole seconds.

    second: of each event, counted from the first of these seconds. each: how many events there are in each second.
    """

    events: Joined
    second: NDArray[np.int64]
    each: NDArray[np.int64]

    @property
    def whole(self) -> int:
        """Return how many seconds there are."""
        return self.each.size

    def chosen(self, which: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Count the chosen events in each second."""
        if which.all():
            return self.each
        return np.bincount(self.second[which], minlength=self.whole)


def phase_spans(evidence: Evidence) -> tuple[PhaseSpan, ...]:
    """Return where the planned phases lie."""
    return tuple(_phase_span(evidence, phase) for phase in sorted(evidence.records.starts_ns))


def _phase_span(evidence: Evidence, number: int) -> PhaseSpan:
    phase, offered_s = evidence.spec.offered.phases[number], evidence.records.offered_s(number)
    from_s = (evidence.records.starts_ns[number] - _zero_ns(evidence)) / NS_PER_S
    windows = (WindowSpan(name=each.name, from_s=each.from_s, to_s=each.to_s) for each in phase.all_windows(offered_s))
    return PhaseSpan(
        name=phase.name,
        measured=phase.measured,
        from_s=from_s,
        to_s=from_s + offered_s,
        steps=_step_spans(phase, offered_s),
        windows=tuple(windows),
    )


def stall_spans(evidence: Evidence, stalls: Sequence[Stall]) -> tuple[StallSpan, ...]:
    """Return where stalls lie on the trial's time axis; of very many the longest."""
    zero_ns = _zero_ns(evidence)
    longest = sorted(stalls, key=lambda stall: stall.length_ns, reverse=True)[:MAX_STALLS]
    return tuple(
        StallSpan(
            phase=evidence.spec.offered.phases[stall.phase].name,
            from_s=(stall.begin_ns - zero_ns) / NS_PER_S,
            to_s=(stall.end_ns - zero_ns) / NS_PER_S,
            in_flight=stall.in_flight,
            events=stall.events,
        )
        for stall in sorted(longest)
    )


def series(evidence: Evidence) -> tuple[SeriesPoint, ...]:
    """
    Return one point for every second in which events were due; the pauses between phases have none.

    Seconds are counted from the start of each phase, so that an even load has as many events in each.
    """
    zero_ns = _zero_ns(evidence)
    return tuple(
        point for phase in sorted(evidence.records.starts_ns) for point in _phase_points(evidence, phase, zero_ns)
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


def _phase_points(evidence: Evidence, phase: int, zero_ns: int) -> Iterator[SeriesPoint]:
    start_ns, measure = evidence.records.starts_ns[phase], latency_of(evidence.spec.offered)
    planned = evidence.spec.offered.phases[phase]
    # One more than the length: rounding may put the last t0 on the end itself.
    seconds = math.floor(planned.length_s) + 1
    begin_s = (start_ns - zero_ns) / NS_PER_S
    for first, parts in _by_seconds(evidence.joined, phase, start_ns, seconds):
        if parts:
            yield from _points(planned.name, begin_s + first, parts, measure)


def _points(phase: str, begin_s: float, parts: Sequence[_Seconds], measure: Measure) -> Iterator[SeriesPoint]:
    """Yield the points of parts that lie in the same seconds."""
    counts = np.zeros((5, parts[0].whole), np.int64)
    values_ms, second = [np.empty(0)], [np.empty(0, np.int64)]
    for part in parts:
        own, timed = part.events, part.events.timed
        ok, held_back = own.outcome == Outcome.OK, ~own.matching
        for row, which in enumerate((own.offered, ok, ok & held_back, ok & ~held_back & ~timed, own.arrived)):
            counts[row] += part.chosen(which)
        values_ms.append(as_ms(collect(measure, [(own, timed)], int(np.count_nonzero(timed)))))
        second.append(part.second[timed])
    quantiles = by_second(np.concatenate(values_ms), np.concatenate(second), parts[0].whole)
    for at in np.nonzero(counts[0])[0].tolist():
        offered, acknowledged, not_matching, watch_gap, arrived = counts[:, at].tolist()
        yield SeriesPoint(
            second=begin_s + at,
            phase=phase,
            offered=offered,
            acknowledged=acknowledged,
            not_matching=not_matching,
            watch_gap=watch_gap,
            arrived=arrived,
            p50_ms=_finite(quantiles.p50[at]),
            p90_ms=_finite(quantiles.p90[at]),
            max_ms=_finite(quantiles.largest[at]),
        )


def _by_seconds(joined: Joined, phase: int, start_ns: int, seconds: int) -> Iterator[tuple[int, list[_Seconds]]]:
    """
    Yield some of the phase's seconds after the others: the first of them, and their events, slot by slot.

    Within a slot events are due one after the other, so those of some seconds stand together. (In closed loop they
    may not; then all seconds come at once.)
    """
    events = joined.of_phase(phase)
    slots = np.nonzero(joined.grid.phase == phase)[0].tolist()
    edges = [_edges(joined.of_slot(slot), start_ns, seconds) for slot in slots]
    in_order = [
        (int(joined.grid.base[slot]), found) for slot, found in zip(slots, edges, strict=True) if found is not None
    ]
    if len(in_order) < len(slots):
        whole = [joined.of_slot(slot) for slot in slots]
        yield 0, [_assign_seconds(part, start_ns, seconds) for part in whole if part.size]
        return
    step = max(1, _AT_ONCE * seconds // max(events.size, 1))
    for first in range(0, seconds, step):
        last = min(first + step, seconds)
        parts = [_between(joined, base, found[first : last + 1]) for base, found in in_order]
        yield first, [part for part in parts if part.events.size]


def _edges(events: Joined, start_ns: int, seconds: int) -> NDArray[np.int64] | None:
    """Return where each second's events begin in the slot, and the end; None where they are in no order."""
    t0_ns = events.t0_ns
    if (t0_ns[1:] < t0_ns[:-1]).any():
        return None
    edges = np.searchsorted(t0_ns, start_ns + np.arange(seconds + 1) * NS_PER_S)
    edges[-1] = t0_ns.size
    return edges


def _between(joined: Joined, base: int, edges: NDArray[np.int64]) -> _Seconds:
    each = np.diff(edges)
    events = joined.part(base + int(edges[0]), base + int(edges[-1]))
    return _Seconds(events, np.repeat(np.arange(each.size), each), each)


def _assign_seconds(events: Joined, start_ns: int, seconds: int) -> _Seconds:
    second = (events.t0_ns - start_ns) // NS_PER_S
    return _Seconds(events, second, np.bincount(second, minlength=seconds))


def _zero_ns(evidence: Evidence) -> int:
    return evidence.joined.grid.timetable.first_ns()


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None

"""
Phases with load steps, in short bins: rates, and where throughput and latency change their level.

Bins are short so that a gap in the load or in the answers can be seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from stepbench.analysis.latency import as_ms, collect, latency_of
from stepbench.analysis.windows import NS_PER_S
from stepbench.contracts.chart_data import RateBins
from stepbench.contracts.findings import ChangePoint
from stepbench.contracts.measures import Estimate
from stepbench.errors import InsufficientSampleError
from stepbench.model.request import Outcome
from stepbench.stats.change_point import SIGNIFICANCE, LevelChange, find_change
from stepbench.stats.quantiles import by_second

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from stepbench.analysis.evidence import Evidence
    from stepbench.records.join.joined import Joined

BIN_S = 0.1
MAX_BINS = 20_000
"""Half an hour of bins; those of a longer phase are wider."""
_LATENCY_BIN_S = 1.0
_PURPOSE = 4
"""The change points' random numbers are their own, see `MeasuredWindow.sample`."""


@dataclass(frozen=True)
class PhaseBins:
    """It divides a phase into whole bins of equal width."""

    phase: int
    name: str
    start_ns: int
    bin_ns: int
    bins: int

    def count(self, times_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the times in each bin; what lies before or after is in none."""
        place = (times_ns - self.start_ns) // self.bin_ns
        inside = place[(place >= 0) & (place < self.bins)]
        return np.bincount(inside, minlength=self.bins)

    def sum(self, joined: Joined, times_ns: Callable[[Joined], NDArray[np.int64]]) -> NDArray[np.int64]:
        """Count, in each bin, a time of each of the phase's events."""
        counts = np.zeros(self.bins, np.int64)
        for part in joined.of_phase(self.phase).parts():
            counts += self.count(times_ns(part))
        return counts


class _BinnedSeries(NamedTuple):
    """It holds one series by bin. values: shape (n,). from_s: shape (n + 1,), where each bin begins, and the end."""

    phase: PhaseBins
    name: Literal["achieved_per_s", "latency_ms"]
    values: NDArray[np.float64]
    from_s: NDArray[np.float64]


def rates(evidence: Evidence) -> tuple[RateBins, ...]:
    """Return the due, sent and acknowledged events of each stepped phase."""
    return tuple(
        RateBins(
            phase=stepped.name,
            bin_s=stepped.bin_ns / NS_PER_S,
            offered=tuple(stepped.sum(evidence.joined, lambda part: part.t0_ns[part.offered]).tolist()),
            sent=tuple(stepped.sum(evidence.joined, lambda part: part.t1_ns).tolist()),
            acknowledged=tuple(_acknowledged(evidence, stepped).tolist()),
        )
        for stepped in _stepped_phases(evidence)
    )


def change_points(evidence: Evidence) -> tuple[ChangePoint, ...]:
    """Return two change points for each measured phase with more than one load step."""
    return tuple(_change_point(evidence, series) for series in _binned_series(evidence))


def _stepped_phases(evidence: Evidence, bin_s: float = BIN_S, max_bins: int = MAX_BINS) -> Iterator[PhaseBins]:
    """Yield the measured phases that were planned and have more than one load step."""
    for phase, planned in enumerate(evidence.spec.offered.phases):
        if planned.measured and len(planned.load) > 1 and phase in evidence.records.starts_ns:
            length_s = evidence.records.offered_s(phase)
            wider = max(1, math.ceil(length_s / bin_s / max_bins))
            bin_ns = round(bin_s * wider * NS_PER_S)
            bins = math.floor(length_s * NS_PER_S / bin_ns + 1e-9)
            yield PhaseBins(phase, planned.name, evidence.records.starts_ns[phase], bin_ns, bins)


def _acknowledged(evidence: Evidence, stepped: PhaseBins) -> NDArray[np.int64]:
    """Count the phase's acknowledged events in each bin, by t2."""
    return stepped.sum(evidence.joined, lambda part: part.t2_ns[part.outcome == Outcome.OK])


def _binned_series(evidence: Evidence) -> Iterator[_BinnedSeries]:
    for stepped in _stepped_phases(evidence):
        bin_s = stepped.bin_ns / NS_PER_S
        per_s = _acknowledged(evidence, stepped) / bin_s
        yield _BinnedSeries(stepped, "achieved_per_s", per_s, np.arange(stepped.bins + 1, dtype=np.float64) * bin_s)
    for stepped in _stepped_phases(evidence, _LATENCY_BIN_S):
        yield _latency_series(evidence, stepped)


def _latency_series(evidence: Evidence, stepped: PhaseBins) -> _BinnedSeries:
    """Return medians by t0, without bins that have no acknowledged event that has to arrive."""
    events, bin_s = evidence.joined.of_phase(stepped.phase), stepped.bin_ns / NS_PER_S
    place = (events.t0_ns - stepped.start_ns) // stepped.bin_ns
    held = events.timed & (place >= 0) & (place < stepped.bins)
    elapsed_ms = as_ms(collect(latency_of(evidence.spec.offered), [(events, held)], int(np.count_nonzero(held))))
    medians = by_second(elapsed_ms, place[held], stepped.bins).p50
    some = np.nonzero(~np.isnan(medians))[0]
    return _BinnedSeries(stepped, "latency_ms", medians[some], np.append(some, stepped.bins) * bin_s)


def _change_point(evidence: Evidence, series: _BinnedSeries) -> ChangePoint:
    rng = np.random.default_rng((evidence.spec.offered.seed, series.phase.phase, len(series.name), _PURPOSE))
    try:
        change = find_change(series.values, rng)
    except InsufficientSampleError as shortage:
        at_s = Estimate(value=None, reason=str(shortage))
        return ChangePoint(phase=series.phase.name, series=series.name, at_s=at_s)
    return ChangePoint(
        phase=series.phase.name,
        series=series.name,
        at_s=_at_s(change, series),
        p_value=min(max(change.p_value, 0.0), 1.0),
        before=_level(series.values[: change.bins]),
        after=_level(series.values[change.bins :]),
    )


def _at_s(change: LevelChange, series: _BinnedSeries) -> Estimate:
    if change.p_value >= SIGNIFICANCE:
        return Estimate(value=None, reason=f"no change to be seen (p = {change.p_value:.2f})")
    value, low, high = (float(series.from_s[bins]) for bins in (change.bins, change.low, change.high))
    return Estimate(value=value, low=low, high=high)


def _level(values: NDArray[np.float64]) -> float | None:
    with np.errstate(invalid="ignore"):
        median = float(np.median(values))
    return median if math.isfinite(median) else None

"""Where the throughput and the latency of a phase with load steps change."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from stepbench.analysis.latency import as_ms, collect, latency_of
from stepbench.analysis.rates import PhaseBins, acknowledged, stepped_phases
from stepbench.analysis.windows import NS_PER_S
from stepbench.contracts.measures import ChangePoint, Estimate
from stepbench.errors import InsufficientSampleError
from stepbench.stats.change_point import SIGNIFICANCE, Change, find_change
from stepbench.stats.curves import by_second

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.analysis.evidence import Evidence

LATENCY_BIN_S = 1.0
_PURPOSE = 4


class _Series(NamedTuple):
    """values: shape (n,). from_s: shape (n + 1,), where each bin begins, and where the last ends."""

    phase: PhaseBins
    name: Literal["achieved_per_s", "latency_ms"]
    values: NDArray[np.float64]
    from_s: NDArray[np.float64]


def change_points(evidence: Evidence) -> tuple[ChangePoint, ...]:
    """Two for each measured phase with more than one load step."""
    return tuple(_change_point(evidence, series) for series in _all_series(evidence))


def _all_series(evidence: Evidence) -> Iterator[_Series]:
    for stepped in stepped_phases(evidence):
        bin_s = stepped.bin_ns / NS_PER_S
        per_s = acknowledged(evidence, stepped) / bin_s
        yield _Series(stepped, "achieved_per_s", per_s, np.arange(stepped.bins + 1, dtype=np.float64) * bin_s)
    for stepped in stepped_phases(evidence, LATENCY_BIN_S):
        yield _latency(evidence, stepped)


def _latency(evidence: Evidence, stepped: PhaseBins) -> _Series:
    """Medians by t0; a bin without an acknowledged event that has to arrive has none, and is left out."""
    events, bin_s = evidence.joined.of_phase(stepped.phase), stepped.bin_ns / NS_PER_S
    place = (events.t0_ns - stepped.start_ns) // stepped.bin_ns
    held = events.acknowledged & (place >= 0) & (place < stepped.bins)
    elapsed_ms = as_ms(collect(latency_of(evidence.spec.plan), [(events, held)], int(np.count_nonzero(held))))
    medians = by_second(elapsed_ms, place[held], stepped.bins).p50
    some = np.nonzero(~np.isnan(medians))[0]
    return _Series(stepped, "latency_ms", medians[some], np.append(some, stepped.bins) * bin_s)


def _change_point(evidence: Evidence, series: _Series) -> ChangePoint:
    rng = np.random.default_rng((evidence.spec.plan.seed, series.phase.phase, len(series.name), _PURPOSE))
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


def _at_s(change: Change, series: _Series) -> Estimate:
    if change.p_value >= SIGNIFICANCE:
        return Estimate(value=None, reason=f"no change to be seen (p = {change.p_value:.2f})")
    value, low, high = (float(series.from_s[bins]) for bins in (change.bins, change.low, change.high))
    return Estimate(value=value, low=low, high=high)


def _level(values: NDArray[np.float64]) -> float | None:
    with np.errstate(invalid="ignore"):
        median = float(np.median(values))
    return median if math.isfinite(median) else None

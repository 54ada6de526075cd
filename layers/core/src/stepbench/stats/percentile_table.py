"""
Percentiles with counts, as HdrHistogram prints and plots them: each level halves the distance to 100 %.

A plot's axis is 1 / (1 - q), logarithmic: p90, p99, p99.9 at equal distances.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.contracts.measures import Estimate
from stepbench.stats.quantiles import quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.stats.estimates import Sample

LEVELS = (0.5, 0.75, 0.875, 0.9375, 0.9921875, 0.9990234375, 1.0)
"""Those that Bianchi (2020) prints: 1 - 2^-k for k = 1, 2, 3, 4, 7, 10, and the maximum."""
TICKS_PER_HALF = 5
"""HdrHistogram's default."""


class PercentileRow(NamedTuple):
    """
    One line of the table.

    q: in [0, 1]. estimate: in the sample's unit, with interval; the largest value (q = 1) has none. at_most: how many
    values are at most the estimate; None where there is none. position: on the axis; None for q = 1.
    """

    q: float
    estimate: Estimate
    at_most: int | None
    position: float | None


class CurvePoint(NamedTuple):
    """One point of a percentile plot: `value` at `position` = 1 / (1 - q)."""

    q: float
    position: float
    value: float


def axis_position(q: float) -> float:
    """
    Where a quantile lies on the inverse-logarithmic axis: 1 / (1 - q), to be drawn on a logarithmic scale.

    Source:
        HdrHistogram, AbstractHistogram.outputPercentileDistribution, column 1/(1-Percentile).
    """
    return math.inf if q >= 1 else 1 / (1 - q)


def percentile_table(sample: Sample, levels: tuple[float, ...] = LEVELS) -> tuple[PercentileRow, ...]:
    """A row a level; where the sample is too small for an interval, the reason instead of a value."""
    return tuple(_row(sample, q) for q in levels)


def _row(sample: Sample, q: float) -> PercentileRow:
    estimate = _largest(sample) if q == 1 else sample.estimate(q)
    at_most = None if estimate.value is None else int(np.searchsorted(sample.ascending, estimate.value, side="right"))
    return PercentileRow(q, estimate, at_most, None if q == 1 else axis_position(q))


def _largest(sample: Sample) -> Estimate:
    if sample.values.size == 0:
        return Estimate(value=None, reason="n=0 < 1")
    largest = float(sample.ascending[-1])
    if math.isinf(largest):
        return Estimate(value=None, reason=f"> drain limit ({sample.drain_limit_s:g} s)")
    return Estimate(value=largest)


def curve_levels(n: int, ticks_per_half: int = TICKS_PER_HALF) -> NDArray[np.float64]:
    """
    The levels of a plot, from 0 up to (n - 1) / n: equally many in each half of what is left to 100 %.

    Raises:
        ValueError: n or ticks_per_half below 1.

    Source:
        HdrHistogram, PercentileIterator (reporting ticks per half distance).
    """
    if n < 1 or ticks_per_half < 1:
        message = f"a curve needs values and ticks, not n={n} and {ticks_per_half} a half"
        raise ValueError(message)
    halves = math.ceil(math.log2(n)) + 1
    left = 0.5 ** np.arange(halves)
    steps = np.arange(ticks_per_half) / (2 * ticks_per_half)
    levels = (1 - left[:, None] * (1 - steps)).reshape(-1)
    last = (n - 1) / n
    found: NDArray[np.float64] = np.append(levels[levels < last], last)
    return found


def percentile_curve(ascending: NDArray[np.float64], ticks_per_half: int = TICKS_PER_HALF) -> tuple[CurvePoint, ...]:
    """
    A plot's points; the last is the largest value, at position n. Missing values (`inf`) end the curve before them.

    Args:
        ascending: shape (n,), n >= 1.
        ticks_per_half: points in each half of what is left to 100 %.
    """
    levels = curve_levels(ascending.size, ticks_per_half).tolist()
    values = [*(quantile(ascending, q) for q in levels[:-1]), float(ascending[-1])]
    points = (CurvePoint(q, axis_position(q), value) for q, value in zip(levels, values, strict=True))
    return tuple(point for point in points if math.isfinite(point.value))

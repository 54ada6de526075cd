"""
What changed between two windows: differences and ratios of their quantiles, with intervals.

Each window's true quantiles are drawn from what its sample says of them, by the rules of `stats.estimates`: levels of
order statistics where no autocorrelation is to be seen, resampled blocks of time where there is and 20 of them fit,
levels of n / autocorrelation time values otherwise. A measure of draws from both windows is a draw of the measure, and
the middle 95 % of those are its interval.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.contracts.measures import Estimate
from stepbench.errors import InsufficientSampleError
from stepbench.stats import bootstrap
from stepbench.stats.estimates import NOTHING
from stepbench.stats.quantiles import CONFIDENCE, at_levels, quantile

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from stepbench.stats.estimates import Sample

    Combine = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]

DRAWS = 2_000
_TAIL = (1 - CONFIDENCE) / 2


class Differences(NamedTuple):
    """It compares window b with window a. A reason for a missing number begins with the window that lacks something."""

    median_shift: Estimate
    median_ratio: Estimate
    iqr_ratio: Estimate
    tail_ratio: Estimate


class QuantileMeasure(NamedTuple):
    """It is computed of a window's quantiles `qs`; `compute` maps shape (..., k) to (...,)."""

    name: str
    qs: tuple[float, ...]
    compute: Callable[[NDArray[np.float64]], NDArray[np.float64]]


def compare(a: Sample, b: Sample, rng: np.random.Generator) -> Differences:
    """Return all four. One generator serves both windows: two with one seed would draw the same."""
    return Differences(
        median_shift=median_shift(a, b, rng),
        median_ratio=ratio_between(a, b, METRICS["p50"], METRICS["p50"], rng),
        iqr_ratio=ratio_between(a, b, METRICS["iqr"], METRICS["iqr"], rng),
        tail_ratio=ratio_between(a, b, _TAIL_OVER_MEDIAN, _TAIL_OVER_MEDIAN, rng),
    )


def median_shift(a: Sample, b: Sample, rng: np.random.Generator) -> Estimate:
    """Return the median of b minus the median of a, in the samples' unit."""
    return _estimate(a, b, (METRICS["p50"], METRICS["p50"]), _minus, rng)


def ratio_between(
    a: Sample, b: Sample, measure_a: QuantileMeasure, measure_b: QuantileMeasure, rng: np.random.Generator
) -> Estimate:
    """Return a measure of b over a measure of a, two samples that have no event in common."""
    return _estimate(a, b, (measure_a, measure_b), _over, rng)


def ratio_within(sample: Sample, above: QuantileMeasure, below: QuantileMeasure, rng: np.random.Generator) -> Estimate:
    """Return one measure over another of a sample; both are drawn together, since they err together."""
    qs = tuple(sorted({*above.qs, *below.qs}))
    at_above, at_below = ([qs.index(q) for q in measure.qs] for measure in (above, below))
    if sample.values.size == 0:
        return Estimate(value=None, reason=NOTHING)
    found = np.array([quantile(sample.ascending, q) for q in qs])
    if np.isinf(found).any():
        return Estimate(value=None, reason=f"> drain limit ({sample.drain_limit_s:g} s)")
    value = float(_over(above.compute(found[at_above]), below.compute(found[at_below])))
    if math.isnan(value):
        return Estimate(value=None, reason=f"its {below.name} is not above 0, so there is no ratio to it")
    try:
        drawn = quantile_draws(sample, qs, rng)
    except InsufficientSampleError as shortage:
        return Estimate(value=value, reason=str(shortage))
    return _interval(
        value, _over(above.compute(drawn[:, at_above]), below.compute(drawn[:, at_below])), sample.drain_limit_s
    )


def quantile_draws(
    sample: Sample, qs: tuple[float, ...], rng: np.random.Generator, draws: int = DRAWS
) -> NDArray[np.float64]:
    """
    Draw where the true quantiles may lie, jointly; shape (draws, len(qs)), `inf` in the missing mass.

    Raises:
        InsufficientSampleError: the sample is too small for an interval of one of them; the message says why.

    Source:
        Hutson (1999), Journal of Applied Statistics 26(3), for one quantile, and David & Nagaraja (2003), Order
        Statistics, section 2.5, for several (spacings of uniform order statistics are Dirichlet); blocks as in
        `stats.bootstrap`. Combining such draws: Xie & Singh (2013), International Statistical Review 81(1).
    """
    time = sample.enough_time(*qs)
    blocks = sample.count_blocks(time)
    if blocks >= bootstrap.MIN_BLOCKS:
        levels = _block_levels(sample, qs, time, bootstrap.block_weights(blocks, rng, draws))
    else:
        shares = np.diff([0.0, *qs, 1.0]) * (sample.values.size / time + 1)
        levels = np.cumsum(rng.dirichlet(shares, draws), axis=1)[:, :-1]
    return at_levels(sample.ascending, levels)


def _block_levels(
    sample: Sample, qs: tuple[float, ...], time: float, weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    blocks = weights.shape[1]
    block = bootstrap.block_index(sample.at_s, sample.length_s, blocks)
    widen = bootstrap.seam_factor(sample.values.size / blocks / time) * bootstrap.expansion(blocks)
    deviations = [bootstrap.share_draws(sample.values <= quantile(sample.ascending, q), block, weights) for q in qs]
    levels = np.array(qs) + widen * np.column_stack(deviations)
    sample.check_reach(float(np.quantile(levels[:, -1], 1 - _TAIL)))
    return np.clip(np.maximum.accumulate(levels, axis=1), 0.0, 1.0)


def _estimate(
    a: Sample, b: Sample, measures: tuple[QuantileMeasure, QuantileMeasure], combine: Combine, rng: np.random.Generator
) -> Estimate:
    points, drawn, lacking = [], [], ""
    for label, sample, measure in (("a", a, measures[0]), ("b", b, measures[1])):
        if sample.values.size == 0:
            return Estimate(value=None, reason=f"{label}: {NOTHING}")
        found = np.array([quantile(sample.ascending, q) for q in measure.qs])
        if np.isinf(found).any():
            return Estimate(value=None, reason=f"> drain limit ({sample.drain_limit_s:g} s)")
        points.append(measure.compute(found))
        try:
            drawn.append(measure.compute(quantile_draws(sample, measure.qs, rng)))
        except InsufficientSampleError as shortage:
            lacking = lacking or f"{label}: {shortage}"
    value = float(combine(points[1], points[0]))
    if math.isnan(value):
        return Estimate(value=None, reason=f"a: its {measures[0].name} is not above 0, so there is no ratio to it")
    if lacking:
        return Estimate(value=value, reason=lacking)
    return _interval(value, combine(drawn[1], drawn[0]), max(a.drain_limit_s, b.drain_limit_s))


def _interval(value: float, drawn: NDArray[np.float64], drain_limit_s: float) -> Estimate:
    """Return the interval. An undefined draw (missing over missing, a ratio to 0) could lie at either end."""
    unknown = np.isnan(drawn)
    low = float(np.quantile(np.where(unknown, -np.inf, drawn), _TAIL, method="inverted_cdf"))
    high = float(np.quantile(np.where(unknown, np.inf, drawn), 1 - _TAIL, method="inverted_cdf"))
    low, high = min(low, value), max(high, value)
    if math.isfinite(low) and math.isfinite(high):
        return Estimate(value=value, low=low, high=high)
    if not np.isinf(drawn).any():
        return Estimate(value=value, reason="a measure of a may be 0, so the ratio has no limits")
    return Estimate(
        value=value,
        low=low if math.isfinite(low) else None,
        high=high if math.isfinite(high) else None,
        reason=f"{'upper' if math.isfinite(low) else 'lower'} limit > drain limit ({drain_limit_s:g} s)",
    )


def _first(quantiles: NDArray[np.float64]) -> NDArray[np.float64]:
    return quantiles[..., 0]


def _spread(quantiles: NDArray[np.float64]) -> NDArray[np.float64]:
    return _minus(quantiles[..., 1], quantiles[..., 0])


def _tail(quantiles: NDArray[np.float64]) -> NDArray[np.float64]:
    return _over(quantiles[..., 1], quantiles[..., 0])


def _minus(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the difference; nan where both are missing."""
    with np.errstate(invalid="ignore"):
        difference: NDArray[np.float64] = np.asarray(above - below)
    return difference


def _over(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    """
    Return the ratio; nan where both are missing, and where what is divided by is not above 0.

    Over what is missing it is no number but a limit that is not known: -inf, as in a difference.
    """
    above, below = np.asarray(above), np.asarray(below)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(below > 0, above / below, np.nan)
    return np.where(np.isinf(below) & np.isfinite(above), -np.inf, ratio)


METRICS = {
    "p50": QuantileMeasure("median", (0.5,), _first),
    "p90": QuantileMeasure("p90", (0.9,), _first),
    "p95": QuantileMeasure("p95", (0.95,), _first),
    "p99": QuantileMeasure("p99", (0.99,), _first),
    "p999": QuantileMeasure("p99.9", (0.999,), _first),
    "iqr": QuantileMeasure("interquartile range", (0.25, 0.75), _spread),
}
"""By the names that plans use."""
_TAIL_OVER_MEDIAN = QuantileMeasure("median", (0.5, 0.9), _tail)

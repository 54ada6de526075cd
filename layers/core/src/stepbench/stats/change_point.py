"""Where a binned series changes its level most, and how likely so large a change is by chance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.errors import InsufficientSampleError
from stepbench.stats import dependence
from stepbench.stats.quantiles import CONFIDENCE
from stepbench.stats.tails import kolmogorov_above

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIGNIFICANCE = 0.05
MIN_BINS, MIN_INDEPENDENT = 10, 6
DRAWS = 500
_OVERSHOOT = 0.5826
"""-zeta(1/2) / sqrt(2 pi): by how many steps' deviations a random walk's maximum stays below a Brownian path's."""
_BLOCK_TIMES = 5
_LEVELS_BIAS = 3
"""Of two fitted levels with a place between them that was searched for; found by simulation."""


class LevelChange(NamedTuple):
    """
    It is the most likely change of level in a series of n bins.

    bins: how many bins lie before it, 1...n - 1. p_value: of so large a change in a series without any.
    low, high: a 95 % interval for the place, in bins; 0 and n where the p-value is not below 5 %.
    time: autocorrelation time about the two levels, in bins.
    """

    bins: int
    low: int
    high: int
    p_value: float
    time: float


def find_change(series: NDArray[np.float64], rng: np.random.Generator, longest_time: float = math.inf) -> LevelChange:
    """
    Find the change by Pettitt's rank test, accounting for the autocorrelation left about the two levels.

    Ranks make it indifferent to outliers, scale and ties, so it takes counts as well as latencies (`inf` = missing).
    A constant series has no change: p = 1. The place is that of the two levels which leave the smallest squares of
    ranks. Autocorrelation is measured about those levels, since a step would look like autocorrelation; that it then
    comes out too small is made up for.

    Args:
        series: shape (n,), one value a bin, without nan.
        rng: for the interval.
        longest_time: what the autocorrelation time is at most, in bins, where it is known from elsewhere: a second
            change looks like autocorrelation about two levels.

    Raises:
        InsufficientSampleError: fewer than 10 bins, or than 6 autocorrelation times; the message says so.

    Source:
        Pettitt (1979), Journal of the Royal Statistical Society C 28(2) (statistic); Csorgo & Horvath (1997), Limit
        Theorems in Change-Point Analysis, chapters 2 and 4 (Kolmogorov's limit, long-run variance); Siegmund (1985),
        Sequential Analysis, section 10.3 (continuity correction).
    """
    if series.size < MIN_BINS:
        message = f"{series.size} bins < {MIN_BINS}"
        raise InsufficientSampleError(message)
    ranks = dependence.ranks(series)
    n, variance = ranks.size, float(ranks.var())
    if variance == 0:
        return LevelChange(1, 0, n, 1.0, 1.0)
    bins = int(_place(ranks[None])[0])
    levels = np.where(np.arange(n) < bins, ranks[:bins].mean(), ranks[bins:].mean())
    time = min(dependence.time_about_fit(ranks - levels, _LEVELS_BIAS), longest_time)
    if n / time < MIN_INDEPENDENT:
        message = f"{int(n / time)} of {n} bins independent < {MIN_INDEPENDENT}"
        raise InsufficientSampleError(message)
    excursion = float(np.abs(_cusum(ranks)).max()) / math.sqrt(variance)
    p_value = kolmogorov_above((excursion + _OVERSHOOT) / math.sqrt(n * time))
    low, high = _interval(levels, ranks - levels, bins, time, rng) if p_value < SIGNIFICANCE else (0, n)
    return LevelChange(bins, low, high, p_value, time)


def local_time(series: NDArray[np.float64], parts: int) -> float:
    """
    Return the median of the autocorrelation times of equally long parts of a series, in bins.

    Changes of level make that of the few parts too long in which they lie.
    """
    pieces = np.array_split(dependence.ranks(series), parts)
    return float(np.median([dependence.time_about_fit(piece - piece.mean(), _LEVELS_BIAS) for piece in pieces]))


def _cusum(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum deviations from the mean over the first 1...n - 1 bins, along the last axis."""
    return np.cumsum(ranks - ranks.mean(axis=-1, keepdims=True), axis=-1)[..., :-1]


def _place(ranks: NDArray[np.float64]) -> NDArray[np.int64]:
    """
    Return the number of bins before the best of all two-level fits, for each row.

    Source:
        Bai (1994), Journal of Time Series Analysis 15(5) (least squares, also for dependent errors).
    """
    n = ranks.shape[-1]
    before = np.arange(1, n)
    gain = _cusum(ranks) ** 2 / (before * (n - before))
    places: NDArray[np.int64] = gain.argmax(axis=-1) + 1
    return places


def _interval(
    levels: NDArray[np.float64], residuals: NDArray[np.float64], bins: int, time: float, rng: np.random.Generator
) -> tuple[int, int]:
    """
    Find the place anew in series of the same levels with resampled blocks of residuals about each.

    Laid around it with the larger of its two sides for both, and a bin more on either: a change inside a bin makes one
    bin of both levels.

    Source:
        Huskova & Kirch (2008), Journal of Time Series Analysis 29(6).
    """
    off = np.empty(DRAWS, dtype=np.int64)
    for draw in range(DRAWS):
        noise = np.concatenate([_resampled(part, time, rng) for part in (residuals[:bins], residuals[bins:])])
        off[draw] = int(_place((levels + noise)[None])[0]) - bins
    tail = (1 - CONFIDENCE) / 2
    left, right = np.quantile(off, [tail, 1 - tail], method="inverted_cdf")
    radius = max(-int(left), int(right), 0) + 1
    return max(bins - radius, 0), min(bins + radius, residuals.size)


def _resampled(residuals: NDArray[np.float64], time: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw circular blocks of five autocorrelation times; single residuals where there is no autocorrelation."""
    n = residuals.size
    length = 1 if time == 1 else min(math.ceil(_BLOCK_TIMES * time), n)
    starts = rng.integers(0, n, -(-n // length))
    places = (starts[:, None] + np.arange(length)).reshape(-1)[:n] % n
    drawn: NDArray[np.float64] = residuals[places]
    return drawn

"""Quantiles of a sample and of each second, exact intervals for independent values, and empirical distributions."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from stepbench.errors import InsufficientSampleError
from stepbench.stats.tails import incomplete_beta

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONFIDENCE = 0.95
_EVEN_POINTS, _TAIL_POINTS = 300, 60
_PRECISION = 1e-13


class Levels(NamedTuple):
    """The true quantile is expected between these probabilities of the sample's own distribution."""

    low: float
    high: float


class Ordered(Protocol):
    """It holds values in order of size."""

    @property
    def size(self) -> int:
        """Return how many there are."""
        ...

    def __getitem__(self, place: int, /) -> Any:  # noqa: ANN401 -- a float, or NumPy's
        ...


def quantile(ascending: Ordered, q: float) -> float:
    """
    Return the sample quantile by linear interpolation between order statistics.

    Args:
        ascending: shape (n,), n >= 1; missing values are `inf` at the end.
        q: probability in [0, 1].

    Returns:
        In the sample's unit; `inf` if the quantile falls in the missing mass, even in part.

    Raises:
        InsufficientSampleError: if the sample is empty.

    Source:
        Hyndman & Fan (1996), The American Statistician 50(4), definition 7.
    """
    if ascending.size == 0:
        message = "a quantile needs at least one value"
        raise InsufficientSampleError(message)
    return _between(ascending, (ascending.size - 1) * q)


def min_sample(q: float, confidence: float = CONFIDENCE) -> int:
    """
    Return how many values it takes until two order statistics can enclose the quantile, equal-tailed.

    The largest of n values is below the quantile with probability q^n, which may be at most half of what the
    confidence leaves (for q < 1/2 the same with the smallest). 95 %: p50 6, p90 36, p95 72, p99 368, p99.9 3,688.

    Source:
        David & Nagaraja (2003), Order Statistics, 3rd ed., section 7.1.
    """
    return math.ceil(math.log((1 - confidence) / 2) / math.log(max(q, 1 - q)))


@lru_cache(maxsize=256)
def order_statistic_levels(n: float, q: float, confidence: float = CONFIDENCE) -> Levels:
    """
    Return levels u whose order statistics, of rank (n + 1) u, enclose the quantile of n independent values.

    At whole ranks this is the exact binomial interval; between them the binomial is continued by the beta
    distribution, which takes away that interval's surplus coverage.

    Raises:
        InsufficientSampleError: n < min_sample(q, confidence).

    Source:
        Hutson (1999), Journal of Applied Statistics 26(3), 343-353.
    """
    if n < min_sample(q, confidence):
        message = f"n={n:.0f} < {min_sample(q, confidence)}"
        raise InsufficientSampleError(message)
    tail = (1 - confidence) / 2
    return Levels(_beta_level(n, q, 1 - tail), _beta_level(n, q, tail))


def lowest_level(n: float, q: float, confidence: float = CONFIDENCE) -> float:
    """
    Return the lower of `order_statistic_levels`, which takes fewer values than the upper, for q >= 1/2.

    A limit up to the order statistic of this level is one that so many of the values lie beyond as would by chance in
    2.5 % of samples at most, if the quantile were below it: the two are one binomial test.

    Raises:
        InsufficientSampleError: even the smallest of n values may be above the quantile.
    """
    if (1 - q) ** n > (1 - confidence) / 2:
        message = f"n={n:.0f}: even the smallest value may be above it"
        raise InsufficientSampleError(message)
    return _beta_level(n, q, (1 + confidence) / 2)


def _beta_level(n: float, q: float, probability: float) -> float:
    """Return the level whose value is at most the quantile with this probability; the higher it is, the lower."""

    def below(u: float) -> float:
        return incomplete_beta((n + 1) * u, (n + 1) * (1 - u), q)

    first, last = 1 / (n + 1), n / (n + 1)
    # At the smallest sample the root is the end itself, and rounding may put it just outside.
    if below(first) <= probability or below(last) >= probability:
        return first if below(first) <= probability else last
    while last - first > _PRECISION:
        middle = (first + last) / 2
        first, last = (middle, last) if below(middle) > probability else (first, middle)
    return (first + last) / 2


def at_level(ascending: NDArray[np.float64], level: float) -> float:
    """Return the value of fractional rank (n + 1) level; `inf` if it lies in the missing mass, even in part."""
    return _between(ascending, (ascending.size + 1) * level - 1)


def at_levels(ascending: NDArray[np.float64], levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values of many levels at once, of any shape; see `at_level`."""
    place = np.clip((ascending.size + 1) * levels - 1, 0.0, ascending.size - 1.0)
    index = np.floor(place).astype(np.int64)
    low, high = ascending[index], ascending[np.minimum(index + 1, ascending.size - 1)]
    share = place - index
    found: NDArray[np.float64] = np.where((share > 0) & np.isinf(high), np.inf, low)
    between = (share > 0) & np.isfinite(high)
    found[between] += share[between] * (high[between] - low[between])
    return found


def _between(ascending: Ordered, place: float) -> float:
    place = min(max(place, 0.0), ascending.size - 1.0)
    index = math.floor(place)
    low, share = float(ascending[index]), place - index
    # An exact hit must not touch the next value: inf times 0 is no number.
    high = low if share == 0 else float(ascending[index + 1])
    return low if low == high else low + share * (high - low)


class Ecdf(NamedTuple):
    """It holds points (value, share of all values at or below it), both ascending."""

    value: NDArray[np.float64]
    probability: NDArray[np.float64]


def ecdf(ascending: NDArray[np.float64]) -> Ecdf:
    """
    Return the empirical distribution, thinned to some hundred points: even in probability, denser towards both ends.

    Every point lies on the full curve; the smallest and the largest value are always among them. Missing values
    (`inf`) count in the share and are not drawn, so a curve with losses ends below 1.
    """
    drawn = int(np.searchsorted(ascending, np.inf))
    if drawn == 0:
        return Ecdf(np.empty(0), np.empty(0))
    tail = np.geomspace(1, drawn, _TAIL_POINTS)
    ranks = np.concatenate([np.linspace(1, drawn, _EVEN_POINTS), tail, drawn + 1 - tail])
    picked = np.unique(np.rint(ranks).astype(np.int64))
    value = np.unique(ascending[picked - 1])
    return Ecdf(value, np.searchsorted(ascending, value, side="right") / ascending.size)


class BySecond(NamedTuple):
    """It holds quantiles of each second's values; nan where a second has none. All are of shape (seconds,)."""

    p50: NDArray[np.float64]
    p90: NDArray[np.float64]
    largest: NDArray[np.float64]


def by_second(values: NDArray[np.float64], second: NDArray[np.int64], seconds: int) -> BySecond:
    """
    Return the median, p90 and maximum of each second's values; `inf` where they fall in the missing mass.

    Source:
        Hyndman & Fan (1996), definition 7, for all seconds at once.
    """
    # Few seconds fit into two bytes, which NumPy sorts in linear time; within a second a plain sort is the fastest.
    kind = np.uint16 if seconds <= np.iinfo(np.uint16).max else np.int64
    ascending = values[np.argsort(second.astype(kind), kind="stable")]
    counts = np.bincount(second, minlength=seconds)
    starts = np.cumsum(counts) - counts
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        ascending[start : start + count].sort()
    p50, p90, largest = (_grouped_quantile(ascending, starts, counts, q) for q in (0.5, 0.9, 1.0))
    return BySecond(p50, p90, largest)


def _grouped_quantile(
    ascending: NDArray[np.float64], starts: NDArray[np.int64], counts: NDArray[np.int64], q: float
) -> NDArray[np.float64]:
    found = np.full(counts.size, np.nan)
    some = counts > 0
    place = (counts[some] - 1) * q
    index = np.floor(place).astype(np.int64)
    low = ascending[starts[some] + index]
    high = ascending[starts[some] + np.minimum(index + 1, counts[some] - 1)]
    share = place - index
    step = np.where((share == 0) | (low == high), 0.0, np.where(np.isinf(high), np.inf, 0.0))
    finite = np.isfinite(high) & (share > 0)
    step[finite] = share[finite] * (high[finite] - low[finite])
    found[some] = low + step
    return found

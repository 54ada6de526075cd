"""Quantiles, and exact intervals for them from order statistics of independent values."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from scipy import special

from stepbench.errors import InsufficientSampleError

if TYPE_CHECKING:
    from numpy.typing import NDArray

CONFIDENCE = 0.95


class Levels(NamedTuple):
    """Between which probabilities of the sample's own distribution the true quantile is expected to lie."""

    low: float
    high: float


class Ordered(Protocol):
    """Values in order of size."""

    @property
    def size(self) -> int:
        """How many."""
        ...

    def __getitem__(self, place: int, /) -> Any:  # noqa: ANN401 -- a float, or NumPy's
        ...


def quantile(ascending: Ordered, q: float) -> float:
    """
    Sample quantile by linear interpolation between order statistics.

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
    Values needed before two order statistics can enclose the quantile with the confidence, equal-tailed.

    The largest of n values is below the quantile with probability q^n, which may be at most half of what the
    confidence leaves (for q < 1/2 the same with the smallest). 95 %: p50 6, p90 36, p95 72, p99 368, p99.9 3,688.

    Source:
        David & Nagaraja (2003), Order Statistics, 3rd ed., section 7.1.
    """
    return math.ceil(math.log((1 - confidence) / 2) / math.log(max(q, 1 - q)))


@lru_cache(maxsize=256)
def order_statistic_levels(n: float, q: float, confidence: float = CONFIDENCE) -> Levels:
    """
    Levels u so that the order statistics of (fractional) rank (n + 1) u enclose the quantile of n independent values.

    At whole ranks this is the exact binomial interval; between them the binomial is continued by the beta
    distribution, which takes away that interval's surplus coverage.

    Raises:
        InsufficientSampleError: n < min_sample(q, confidence).

    Source:
        Hutson (1999), Journal of Applied Statistics 26(3), 343-353.
    """
    from scipy import optimize  # noqa: PLC0415 -- 20 MB, for intervals only

    if n < min_sample(q, confidence):
        message = f"n={n:.0f} < {min_sample(q, confidence)}"
        raise InsufficientSampleError(message)
    tail = (1 - confidence) / 2

    def below(u: float) -> float:
        """Probability that the value at level u is at most the quantile."""
        return float(special.betainc((n + 1) * u, (n + 1) * (1 - u), q))

    def level(probability: float) -> float:
        first, last = 1 / (n + 1), n / (n + 1)
        # At the smallest sample the root is the end itself, and rounding may put it just outside.
        if below(first) <= probability or below(last) >= probability:
            return first if below(first) <= probability else last
        return float(optimize.brentq(lambda u: below(u) - probability, first, last, xtol=1e-14))

    return Levels(level(1 - tail), level(tail))


def at_level(ascending: NDArray[np.float64], level: float) -> float:
    """The value of fractional rank (n + 1) level, interpolated; `inf` if it lies in the missing mass, even in part."""
    return _between(ascending, (ascending.size + 1) * level - 1)


def at_levels(ascending: NDArray[np.float64], levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same for many levels at once, of any shape."""
    place = np.clip((ascending.size + 1) * levels - 1, 0.0, ascending.size - 1.0)
    index = np.floor(place).astype(np.int64)
    low, high = ascending[index], ascending[np.minimum(index + 1, ascending.size - 1)]
    share = place - index
    found: NDArray[np.float64] = np.where((share > 0) & np.isinf(high), np.inf, low)
    between = (share > 0) & np.isfinite(high)
    found[between] += share[between] * (high[between] - low[between])
    return found


def order_statistic_interval(
    ascending: NDArray[np.float64], q: float, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """
    Confidence interval for the quantile of independent, identically distributed values.

    Raises:
        InsufficientSampleError: fewer than `min_sample` values.
    """
    levels = order_statistic_levels(ascending.size, q, confidence)
    return at_level(ascending, levels.low), at_level(ascending, levels.high)


def rank_draws(n: int, q: float, draws: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """
    Ranks (from 0) that the quantile takes in bootstrap resamples of n independent values, without resampling.

    The k-th of n resampled values is the sample's value at a Beta(k, n - k + 1) level, k = ceil(q n).

    Source:
        David & Nagaraja (2003), Order Statistics, section 2.3 (the k-th uniform order statistic is beta).
    """
    k = min(max(math.ceil(q * n), 1), n)
    return np.minimum((rng.beta(k, n - k + 1, draws) * n).astype(np.int64), n - 1)


def _between(ascending: Ordered, place: float) -> float:
    place = min(max(place, 0.0), ascending.size - 1.0)
    index = math.floor(place)
    low, share = float(ascending[index]), place - index
    # An exact hit must not touch the next value: inf times 0 is no number.
    return low if share == 0 else low + share * _step(low, float(ascending[index + 1]))


def _step(low: float, high: float) -> float:
    return 0.0 if low == high else high - low

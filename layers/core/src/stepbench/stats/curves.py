"""What is drawn: empirical distributions and series by the second."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EVEN_POINTS = 300
_TAIL_POINTS = 60


class Ecdf(NamedTuple):
    """Points (value, share of all values at or below it), both ascending."""

    value: NDArray[np.float64]
    probability: NDArray[np.float64]


def ecdf(ascending: NDArray[np.float64]) -> Ecdf:
    """
    Empirical distribution, thinned to some hundred points: even in probability, denser towards both ends.

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
    """Quantiles of each second's values; nan where a second has none. All of shape (seconds,)."""

    p50: NDArray[np.float64]
    p90: NDArray[np.float64]
    largest: NDArray[np.float64]


def by_second(values: NDArray[np.float64], second: NDArray[np.int64], seconds: int) -> BySecond:
    """
    Median, p90 and maximum of the values in each second; `inf` where they fall in the missing mass.

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

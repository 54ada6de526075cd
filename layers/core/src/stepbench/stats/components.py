"""Which share of a variance each of several crossed random effects makes, from squared differences of pairs."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Codes = NDArray[np.int64]


def variance_components(values: Floats, factors: Sequence[Codes]) -> Floats:
    """
    Return the variance that each factor makes and, last, what is left; none is below 0.

    Half the squared difference of two values has as its mean the variances of all effects in which the two differ. So
    the means over all pairs, over those that have a factor's level in common, and over those that have two, are each
    one equation; they take one pass over the data. Their squared relative errors are made least, so that what is left
    of a small variance beside a large one is estimated as well.

    Args:
        values: shape (n,), n >= 2, not all the same.
        factors: of each, shape (n,), its levels as codes. Every factor needs pairs with the same level and pairs with
            different ones.

    Source:
        Koch (1967), Technometrics 9(1), A general approach to the estimation of variance components; Searle, Casella &
        McCulloch (1992), Variance Components, section 5.1 (moments of unbalanced data).
    """
    rows, means = [], []
    for codes in _classes(values.size, factors):
        within = _count_pairs(codes)
        mean = _mean_half_square(values, codes) if within else 0.0
        if mean > 0:
            rows.append([1 - _count_pairs(_crossed(codes, factor)) / within for factor in factors] + [1.0])
            means.append(mean)
    equations = np.array(rows) / np.array(means)[:, None]
    return _least_squares(equations, np.ones(len(means)))


def has_pairs(codes: Codes) -> bool:
    """Return whether some values have a level in common and some have not, so that it has a variance."""
    within = _count_pairs(codes)
    return 0 < within < codes.size * (codes.size - 1) / 2


def _classes(n: int, factors: Sequence[Codes]) -> Iterator[Codes]:
    yield np.zeros(n, np.int64)
    yield from factors
    yield from (_crossed(one, other) for one, other in combinations(factors, 2))


def _crossed(one: Codes, other: Codes) -> Codes:
    return one * (int(other.max()) + 1) + other


def _count_pairs(codes: Codes) -> float:
    counts = np.unique(codes, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1)).sum()) / 2


def _mean_half_square(values: Floats, codes: Codes) -> float:
    """Return the mean of half the squared difference, over all pairs with the same code."""
    level = np.unique(codes, return_inverse=True)[1]
    centred = values - values.mean()
    counts, sums, squares = (np.bincount(level, weights=weights) for weights in (None, centred, centred**2))
    # Of a group the sum over pairs of (a - b)^2 is n times its sum of squares less its squared sum.
    return float((counts * squares - sums**2).sum()) / 2 / _count_pairs(codes)


def _least_squares(equations: Floats, target: Floats) -> Floats:
    """
    Return the solution without a negative part that leaves the smallest sum of squares, of all sets that are not 0.

    Source:
        Lawson & Hanson (1974), Solving Least Squares Problems, chapter 23.
    """
    n = equations.shape[1]
    best, least = np.zeros(n), np.inf
    for size in range(1, n + 1):
        for chosen in map(list, combinations(range(n), size)):
            found = np.linalg.lstsq(equations[:, chosen], target, rcond=None)[0]
            left = float(np.square(equations[:, chosen] @ found - target).sum())
            if found.min() >= 0 and left < least:
                best, least = np.zeros(n), left
                best[chosen] = found
    return best

"""Which share of a variance each of several crossed random effects makes, from squared differences of pairs."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Codes = NDArray[np.int64]


def variance_components(values: NDArray[np.float64], factors: Sequence[Codes]) -> NDArray[np.float64]:
    """
    Return the variance that each factor makes and, last, what is left; negative estimates are 0.

    Half the squared difference of two values has as its mean the variances of all effects in which the two differ. So
    the means over all pairs, and over those that have a factor's level in common, give one equation a component. They
    are unbiased whatever the effects' distributions and however uneven the design, and take one pass over the data.

    Args:
        values: shape (n,), n >= 2.
        factors: of each, shape (n,), its levels as codes. Every factor needs pairs with the same level and pairs with
            different ones.

    Source:
        Koch (1967), Technometrics 9(1), A general approach to the estimation of variance components; Searle, Casella &
        McCulloch (1992), Variance Components, section 5.1 (moments of unbalanced data, negative estimates).
    """
    everything = np.zeros(values.size, np.int64)
    classes = [everything, *factors]
    halves = [_mean_half_square(values, codes) for codes in classes]
    pairs = {frozenset({place}): _count_pairs(codes) for place, codes in enumerate(classes)}
    for one, other in combinations(range(len(classes)), 2):
        pairs[frozenset({one, other})] = _count_pairs(_crossed(classes[one], classes[other]))
    differ = [
        [1 - pairs[frozenset({at, factor})] / pairs[frozenset({at})] for factor in range(1, len(classes))] + [1.0]
        for at in range(len(classes))
    ]
    found: NDArray[np.float64] = np.linalg.lstsq(np.array(differ), np.array(halves), rcond=None)[0]
    return np.maximum(found, 0.0)


def has_pairs(codes: Codes) -> bool:
    """Tell whether some values have a level in common and some have not, so that the factor's variance can be told."""
    within = _count_pairs(codes)
    return 0 < within < codes.size * (codes.size - 1) / 2


def _crossed(one: Codes, other: Codes) -> Codes:
    return one * (int(other.max()) + 1) + other


def _count_pairs(codes: Codes) -> float:
    counts = np.unique(codes, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1)).sum()) / 2


def _mean_half_square(values: NDArray[np.float64], codes: Codes) -> float:
    """Return the mean of half the squared difference, over all pairs with the same code."""
    level = np.unique(codes, return_inverse=True)[1]
    centred = values - values.mean()
    counts, sums, squares = (np.bincount(level, weights=weights) for weights in (None, centred, centred**2))
    # Of a group the sum over pairs of (a - b)^2 is n times its sum of squares less its squared sum.
    return float((counts * squares - sums**2).sum()) / 2 / _count_pairs(codes)

"""
Whether a sandbox that is slow for one source is slow for the other, too.

A sandbox that reads once from each source shows nothing of itself by either read alone, since it was new for both; what
the two have in common does. They have their moment in common, too: each is set beside the reads before and after it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.measures import Estimate
from stepbench.contracts.transfer.result import TransferSandboxes
from stepbench.stats.dependence import autocorrelation, ranks
from stepbench.stats.tails import NORMAL_975

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepbench.contracts.transfer.plan import Platform
    from stepbench.experiments.transfer.analysis.reads import PairName, Reads

    Floats = NDArray[np.float64]

LEAST, LEAST_INDEPENDENT = 30, 4
NEIGHBOURS, LAGS = 2, 10
"""The mean of so many on either side says what is usual at the time: of hourly reads, five hours of a day's wave."""


def compare_sandboxes(found: Sequence[tuple[PairName, Reads]]) -> Iterator[TransferSandboxes]:
    """
    Yield each platform on which sandboxes have read from both sources, by the first measured read of each.

    Args:
        found: reads of platforms and sources, all taken from the same columns.
    """
    of_platform: dict[Platform, list[Reads]] = {}
    for name, reads in found:
        of_platform.setdefault(name.platform, []).append(reads.measured.one_a_sandbox)
    for platform, sources in of_platform.items():
        if len(sources) > 1 and all(each.sandboxes is not None for each in sources):
            one, other = _side_by_side(*sources)
            if one.size:
                yield TransferSandboxes(platform=platform, n=one.size, correlation=rank_correlation(one, other))


def _side_by_side(one: Reads, other: Reads) -> tuple[Floats, Floats]:
    """Return how far both reads of each sandbox that made both lie from what was usual at the time; by time."""
    codes, other_codes = one.columns.sandbox.codes, other.columns.sandbox.codes
    _, places, other_places = np.intersect1d(codes, other_codes, return_indices=True)
    by_time = np.argsort(places)
    return _beside_neighbours(one.scores)[places[by_time]], _beside_neighbours(other.scores)[other_places[by_time]]


def _beside_neighbours(scores: Floats) -> Floats:
    """Return scores, in the order of time, less the mean of those before and after each."""
    sums, places = np.concatenate([[0.0], np.cumsum(scores)]), np.arange(scores.size)
    begins, ends = np.maximum(places - NEIGHBOURS, 0), np.minimum(places + NEIGHBOURS + 1, scores.size)
    found: Floats = scores - (sums[ends] - sums[begins] - scores) / np.maximum(ends - begins - 1, 1)
    return found


def rank_correlation(one: Floats, other: Floats) -> Estimate:
    """
    Return Spearman's rank correlation of two series with its 95 % interval; what depends on its past counts for less.

    Source:
        Bonett & Wright (2000), Psychometrika 65(1), Sample size requirements for estimating Pearson, Kendall and
        Spearman correlations (the standard error of its Fisher transform); Bayley & Hammersley (1946), JRSS Supplement
        8(2), The "effective" number of independent observations in an autocorrelated time series.
    """
    if one.size < LEAST:
        return Estimate(value=None, reason=f"n={one.size} < {LEAST}")
    if not np.ptp(one) or not np.ptp(other):
        return Estimate(value=None, reason="all rates are the same")
    of_one, of_other = ranks(one), ranks(other)
    value = float(np.corrcoef(of_one, of_other)[0, 1])
    bounded = min(max(value, -1 + 1e-9), 1 - 1e-9)
    together = float((autocorrelation(of_one, LAGS) * autocorrelation(of_other, LAGS))[1:].sum())
    independent = max(one.size / max(1 + 2 * together, 1), LEAST_INDEPENDENT)
    half = NORMAL_975 * math.sqrt((1 + bounded**2 / 2) / (independent - 3))
    low, high = (math.tanh(math.atanh(bounded) + side) for side in (-half, half))
    return Estimate(value=value, low=low, high=high)

"""
Whether a sandbox that is slow for one source is slow for the other, too.

A sandbox that reads once from each source tells nothing of itself by either read alone, since it was new for both; what
the two have in common does.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.measures import Estimate
from stepbench.contracts.transfer_result import TransferSandboxes
from stepbench.stats.dependence import ranks
from stepbench.stats.student import NORMAL_975

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepbench.analysis.transfers.reads import PairName, Reads
    from stepbench.contracts.transfer import Platform

    Floats = NDArray[np.float64]

LEAST = 30


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
    """Return the scores of both reads of each sandbox that made both."""
    _, places, other_places = np.intersect1d(
        one.columns.sandbox.codes, other.columns.sandbox.codes, return_indices=True
    )
    return one.scores[places], other.scores[other_places]


def rank_correlation(one: Floats, other: Floats) -> Estimate:
    """
    Return Spearman's rank correlation with its 95 % interval.

    Source:
        Bonett & Wright (2000), Psychometrika 65(1), Sample size requirements for estimating Pearson, Kendall and
        Spearman correlations (the standard error of its Fisher transform).
    """
    n = one.size
    if n < LEAST:
        return Estimate(value=None, reason=f"n={n} < {LEAST}")
    if not np.ptp(one) or not np.ptp(other):
        return Estimate(value=None, reason="all rates are the same")
    value = float(np.corrcoef(ranks(one), ranks(other))[0, 1])
    bounded = min(max(value, -1 + 1e-9), 1 - 1e-9)
    half = NORMAL_975 * math.sqrt((1 + bounded**2 / 2) / (n - 3))
    low, high = (math.tanh(math.atanh(bounded) + side) for side in (-half, half))
    return Estimate(value=value, low=low, high=high)

"""What rates depend on beside time: the size of the file, the sandbox, and which share of their variance each makes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.measures import Estimate
from stepbench.contracts.transfer.result import TransferPlateau, TransferSandboxes, TransferVariance
from stepbench.digits import counted
from stepbench.experiments.transfer.analysis.cells import BUSY
from stepbench.stats.components import has_pairs, variance_components
from stepbench.stats.dependence import NOTHING, autocorrelation, ranks
from stepbench.stats.tails import NORMAL_975, student_975

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepbench.contracts.transfer.plan import Platform
    from stepbench.contracts.transfer.result import TransferCell
    from stepbench.experiments.transfer.analysis.reads import PairName, Reads

    Floats = NDArray[np.float64]

TOLERANCE = 0.05
"""Rates that differ by less are on the same level: the published rate of S3 rises by 4 % from 250 to 750 MiB."""
LEAST_OF_SIZE = 10
"""Transfers of each size: means of fewer differ by so much that any rate would seem to have levelled off."""
_ERRORS = 2.5
"""Standard errors that a difference of means has to have; eight sizes are compared with each."""
LEAST_SANDBOXES, LEAST_INDEPENDENT = 30, 4
NEIGHBOURS, LAGS = 2, 10
"""The mean of so many on either side says what is usual at the time: of hourly reads, five hours of a day's wave."""
LEAST_FOR_SHARES, MIN_DAYS = 30, 10
"""Reads whose variance is split at least, and days for intervals of the shares."""


def find_plateau(cells: Sequence[TransferCell]) -> TransferPlateau:
    """
    Return the smallest size that no larger one surpasses by more than 5 %, as far as means and their errors can tell.

    Args:
        cells: of one pair, by size.

    Source:
        Welch (1947), Biometrika 34 (difference of two means with variances of their own).
    """
    known = [cell for cell in cells if cell.mean_mib_per_s.low is not None]
    if len(known) < 2:  # noqa: PLR2004 -- a rise has two ends
        reason = f"{counted(len(known), 'size')} measured < 2"
        return TransferPlateau(from_mib=None, mib_per_s=None, rises=False, reason=reason)
    if (fewest := min(cell.n for cell in known)) < LEAST_OF_SIZE:
        return TransferPlateau(from_mib=None, mib_per_s=None, rises=False, reason=f"n={fewest} < {LEAST_OF_SIZE}")
    rises = _surpasses(known[-1], known[0], 0.0)
    start = next(
        place
        for place, cell in enumerate(known)
        if not any(_surpasses(larger, cell, TOLERANCE) for larger in known[place:])
    )
    if start == len(known) - 1:
        return TransferPlateau(from_mib=None, mib_per_s=None, rises=rises)
    level = known[start:]
    shares = [cell.cpu_share for cell in level if cell.cpu_share is not None]
    return TransferPlateau(
        from_mib=level[0].file_size_mib,
        mib_per_s=float(np.mean([cell.mean_mib_per_s.value for cell in level])),
        rises=rises,
        client_limit=max(shares) >= BUSY if shares else None,
    )


def _surpasses(larger: TransferCell, smaller: TransferCell, tolerance: float) -> bool:
    """Return whether one mean is above another by more than a share of it, beyond chance."""
    more = (larger.mean_mib_per_s.value or 0) - (1 + tolerance) * (smaller.mean_mib_per_s.value or 0)
    return more > _ERRORS * math.hypot(_error(larger), (1 + tolerance) * _error(smaller))


def _error(cell: TransferCell) -> float:
    """Return the mean's standard error, from half its interval's length; Student's factor is near to two."""
    estimate = cell.mean_mib_per_s
    return ((estimate.high or 0) - (estimate.low or 0)) / 4


def compare_sandboxes(found: Sequence[tuple[PairName, Reads]]) -> Iterator[TransferSandboxes]:
    """
    Yield each platform on which sandboxes have read from both sources, by the first measured read of each.

    A sandbox that reads once from each source shows nothing of itself by either read alone, since it was new for both;
    what the two have in common does. They have their moment in common, too: each is set beside the reads before and
    after it.

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
    if one.size < LEAST_SANDBOXES:
        return Estimate(value=None, reason=f"n={one.size} < {LEAST_SANDBOXES}")
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


def split_variance(reads: Reads) -> TransferVariance:
    """
    Return the shares of sandbox, hour of the day, size and rest in the variance of logarithms of rates.

    All three are taken for random effects that add up; their intervals are from leaving out a day at a time. A factor
    of which no level is had in common, or all have the same one, has no share, and its variance is in the rest.

    Args:
        reads: measured reads of a pair.

    Source:
        `stats.components`; intervals: Busing, Meijer & van der Leeden (1999), Statistics and Computing 9 (jackknife of
        whole groups).
    """
    reason = NOTHING if not reads.n else f"n={reads.n} < {LEAST_FOR_SHARES}" if reads.n < LEAST_FOR_SHARES else None
    logs = np.log(reads.rates)
    if reason is None and np.ptp(logs) == 0:
        reason = "all rates are the same"
    if reason:
        none = Estimate(value=None, reason=reason)
        return TransferVariance(deviation=None, sandbox=none, hour=none, size=none, rest=none)
    factors = _factors(reads)
    parts = variance_components(logs, list(factors.values()))
    shares = parts / parts.sum()
    found = dict(zip((*factors, "rest"), _estimates(shares.tolist(), _jackknife(reads, factors)), strict=True))
    one_each = "each made one transfer, or all were made by one"
    untold = Estimate(value=None, reason="which made which is untold" if reads.sandboxes is None else one_each)
    return TransferVariance(
        deviation=math.sqrt(float(parts.sum())),
        sandbox=found.get("sandbox", untold),
        hour=found.get("hour", Estimate(value=None, reason="no two hours")),
        size=found.get("size", Estimate(value=None, reason="one size")),
        rest=found["rest"],
    )


def _factors(reads: Reads) -> dict[str, NDArray[np.int64]]:
    codes = {"hour": reads.hours, "size": reads.sizes_mib}
    if reads.sandboxes is not None:
        codes = {"sandbox": np.unique(reads.sandboxes, return_inverse=True)[1]} | codes
    return {name: levels for name, levels in codes.items() if has_pairs(levels)}


def _jackknife(reads: Reads, factors: dict[str, NDArray[np.int64]]) -> Floats | str:
    """Return half the length of each share's interval, or the reason why there is none."""
    days = np.unique(reads.days)
    if days.size < MIN_DAYS:
        return f"{counted(days.size, 'day')} < {MIN_DAYS}"
    logs, drawn = np.log(reads.rates), []
    for day in days.tolist():
        kept = reads.days != day
        left = [levels[kept] for levels in factors.values()]
        if not all(map(has_pairs, left)):
            return "all values of some factor lie in one day"
        parts = variance_components(logs[kept], left)
        drawn.append(parts / parts.sum())
    deviations = np.array(drawn) - np.mean(drawn, axis=0)
    half: Floats = student_975(days.size - 1) * np.sqrt((days.size - 1) / days.size * np.square(deviations).sum(axis=0))
    return half


def _estimates(shares: Sequence[float], halves: Floats | str) -> list[Estimate]:
    if isinstance(halves, str):
        return [Estimate(value=share, reason=halves) for share in shares]
    return [
        Estimate(value=share, low=max(share - half, 0.0), high=min(share + half, 1.0))
        for share, half in zip(shares, halves.tolist(), strict=True)
    ]

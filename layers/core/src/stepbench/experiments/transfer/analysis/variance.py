"""Which share of the variance of rates sandboxes, hours and sizes make."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.measures import Estimate
from stepbench.contracts.transfer.result import TransferVariance
from stepbench.digits import counted
from stepbench.stats.components import has_pairs, variance_components
from stepbench.stats.intervals import NOTHING
from stepbench.stats.tails import student_975

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.experiments.transfer.analysis.reads import Reads

    Floats = NDArray[np.float64]

LEAST = 30
MIN_DAYS = 10
FACTORS = ("sandbox", "hour", "size")


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
    reason = NOTHING if not reads.n else f"n={reads.n} < {LEAST}" if reads.n < LEAST else None
    logs = np.log(reads.rates)
    if reason is None and np.ptp(logs) == 0:
        reason = "all rates are the same"
    if reason:
        none = Estimate(value=None, reason=reason)
        return TransferVariance(deviation=None, sandbox=none, hour=none, size=none, rest=none)
    factors = _factors(reads)
    parts = variance_components(logs, list(factors.values()))
    shares = parts / parts.sum()
    errors = _jackknife(reads, factors)
    found = {
        name: _estimate(float(share), None if isinstance(errors, str) else float(errors[place]), errors)
        for place, (name, share) in enumerate(zip((*factors, "rest"), shares, strict=True))
    }
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


def _estimate(share: float, half: float | None, reason: object) -> Estimate:
    if half is None:
        return Estimate(value=share, reason=str(reason))
    return Estimate(value=share, low=max(share - half, 0.0), high=min(share + half, 1.0))

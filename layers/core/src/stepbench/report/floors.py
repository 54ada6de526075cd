"""
The floors that a local run measures beside its trials (`floors.json`), as latencies with intervals.

In plain Python, since the report's function has no NumPy and a floor has some hundred samples.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stepbench.contracts.result import Estimate, Latency

if TYPE_CHECKING:
    from collections.abc import Sequence

_TAIL = 0.025
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}


def floor_latency(times_ms: Sequence[float]) -> Latency:
    """All quantiles of a floor's samples; a floor loses nothing, so `missing` is 0."""
    ordered = sorted(times_ms)
    p50, p90, p95, p99, p999 = (_estimate(ordered, q) for q in _QUANTILES.values())
    return Latency(
        n=len(ordered),
        p50=p50,
        p90=p90,
        p95=p95,
        p99=p99,
        p999=p999,
        min=ordered[0] if ordered else None,
        mean=math.fsum(ordered) / len(ordered) if ordered else None,
        max=ordered[-1] if ordered else None,
    )


def _estimate(ordered: Sequence[float], q: float) -> Estimate:
    n, needed = len(ordered), math.ceil(math.log(_TAIL) / math.log(q))
    if n < needed:
        return Estimate(value=None, reason=f"n={n} < {needed}")
    low, high = _ranks(n, q)
    return Estimate(value=_quantile(ordered, q), low=ordered[low - 1], high=ordered[high - 1])


def _quantile(ordered: Sequence[float], q: float) -> float:
    """Hyndman & Fan (1996), definition 7."""
    place = (len(ordered) - 1) * q
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _ranks(n: int, q: float) -> tuple[int, int]:
    """
    Ranks (from 1) of the order statistics that enclose the quantile with 95 % confidence or more.

    Source:
        Conover (1999), Practical Nonparametric Statistics, 3rd ed., section 3.2: exact binomial tails, both at 2.5 %.
    """
    below = 0.0  # P(fewer than `rank` of n samples lie below the quantile)
    low, high = 1, n
    for rank in range(1, n + 1):
        below += _binomial(n, rank - 1, q)
        if below <= _TAIL:
            low = rank
        if 1 - below <= _TAIL:
            high = rank
            break
    return low, high


def _binomial(n: int, k: int, q: float) -> float:
    ways = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return math.exp(ways + k * math.log(q) + (n - k) * math.log1p(-q))

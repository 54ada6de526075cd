"""
Kolmogorov and Smirnov's distance tests whether two samples are from one distribution.

In plain Python: the report's function, which sees the trials side by side, would take more than twice as long to start
with `scipy.stats`, and SciPy's small probabilities differ from these beyond the twelfth digit after the point.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from stepbench.stats.tails import kolmogorov_above

if TYPE_CHECKING:
    from collections.abc import Collection

_KOLMOGOROV_95 = 1.3580986393225505
"""What Kolmogorov's distribution exceeds in 5 % of cases."""
MAX_EXACT = 2_000
"""Values on either side; the exact probability takes a step for each pair of places."""


class KolmogorovSmirnov(NamedTuple):
    """
    d: largest vertical distance of the two ECDFs, at `at`. p_value: of one as large by chance. n, m: sample sizes.

    critical_d: what d exceeds by chance in 5 % of cases (asymptotic). A d below it does not show that the two are
    equal, only that samples of this size do not tell them apart.
    """

    d: float
    at: float
    p_value: float
    n: int
    m: int
    critical_d: float


def kolmogorov_smirnov(a: Collection[float], b: Collection[float]) -> KolmogorovSmirnov:
    """
    Test independent values, two-sided; both samples have one at least, and missing ones are `inf`.

    The p-value is exact up to `MAX_EXACT` values a side, asymptotic above. Ties make it conservative.

    Source:
        Smirnov (1948), The Annals of Mathematical Statistics 19(2); Hodges (1958), Arkiv for Matematik 3(43) (exact).
    """
    n, m = len(a), len(b)
    steps, at = distance(a, b)
    d = steps / (n * m)
    exact = max(n, m) <= MAX_EXACT
    probability = exact_probability(steps, n, m) if exact else kolmogorov_above(d * math.sqrt(n * m / (n + m)))
    return KolmogorovSmirnov(d, at, probability, n, m, critical_distance(n, m))


def distance(a: Collection[float], b: Collection[float]) -> tuple[int, float]:
    """Return the ECDFs' largest distance in steps of 1 / (n m), which are exact, and the first place that has it."""
    low, high = sorted(a), sorted(b)
    n, m = len(low), len(high)
    gaps = ((abs(bisect_right(low, x) * m - bisect_right(high, x) * n), x) for x in sorted({*low, *high}))
    return max(gaps, key=lambda gap: gap[0])


def critical_distance(n: int, m: int) -> float:
    """Return what the distance exceeds by chance in 5 % of cases, for large samples."""
    return _KOLMOGOROV_95 * math.sqrt((n + m) / (n * m))


def exact_probability(steps: int, n: int, m: int) -> float:
    """
    Return the probability that n and m values of one distribution are `steps` / (n m) or more apart.

    An order of the values is a path from (0, 0) to (n, m); row by row, `inside[j]` is the share of the paths to
    (i, j) that have always been nearer to the diagonal.
    """
    if steps <= 0:
        return 1.0
    inside = [1.0 if j * n < steps else 0.0 for j in range(m + 1)]
    for i in range(1, n + 1):
        first = max(0, (i * m - steps) // n + 1)
        last = min(m, (i * m + steps - 1) // n)
        row = [0.0] * (m + 1)
        left = 0.0
        for j in range(first, last + 1):
            left = row[j] = (inside[j] * i + left * j) / (i + j)
        inside = row
    return min(1.0, max(0.0, 1.0 - inside[m]))

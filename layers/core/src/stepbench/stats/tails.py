"""
Tail probabilities, points of distributions that intervals and tests need, and Kolmogorov and Smirnov's test.

In plain Python: functions whose layers have no room for SciPy compute them, too (datasets of transfers are analysed
beside pyarrow), and the report's function would take more than twice as long to start with `scipy.stats`, whose small
probabilities differ from these beyond the twelfth digit after the point.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING

from stepbench.contracts.across_trials import Ks

if TYPE_CHECKING:
    from collections.abc import Collection

NORMAL_975 = 1.959963984540054
_STUDENT_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""97.5 % points for 1 to 30 degrees of freedom: Abramowitz & Stegun (1964), table 26.10."""
_ENOUGH = 1e-16
_TINY = 1e-300
_MOST_TERMS = 100_000
_KOLMOGOROV_LOW = 0.2
"""Below it the probability is 1 to ten digits, and the series needs many terms."""


def incomplete_beta(a: float, b: float, x: float) -> float:
    """
    Return the regularised incomplete beta function I_x(a, b): the beta distribution's probability of at most x.

    Args:
        a: above 0.
        b: above 0.
        x: in [0, 1].

    Source:
        DLMF 8.17.22 (continued fraction), evaluated by Lentz's method (1976, Applied Optics 15(3)); 8.17.4 (symmetry),
        since the fraction converges fast for x < (a + 1) / (a + b + 2) only.
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    logarithm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(logarithm) / a / _beta_fraction(a, b, x)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Return 1 + d1 / (1 + d2 / (1 + ...))."""
    fraction, above, below = 1.0, 1.0, 0.0
    for term in range(1, _MOST_TERMS):
        half = term // 2
        if term % 2:
            d = -(a + half) * (a + b + half) * x / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            d = half * (b - half) * x / ((a + 2 * half - 1) * (a + 2 * half))
        below = 1 / (1 + d * below or _TINY)
        above = 1 + d / above or _TINY
        fraction *= above * below
        if abs(above * below - 1) < _ENOUGH:
            break
    return fraction


def chi_squared_above(degrees: int, value: float) -> float:
    """
    Return the probability that chi squared with so many degrees of freedom is above a value.

    Source:
        Abramowitz & Stegun (1964), 26.4.4 and 26.4.5: finite sums.
    """
    half = value / 2
    if half <= 0:
        return 1.0
    if degrees % 2:
        start, term, first = math.erfc(math.sqrt(half)), math.sqrt(half) / math.gamma(1.5), 1.5
    else:
        start, term, first = 0.0, 1.0, 1.0
    total = 0.0
    for step in range(degrees // 2):
        total += term
        term *= half / (first + step)
    return min(start + math.exp(-half) * total, 1.0)


def kolmogorov_above(value: float) -> float:
    """
    Return the probability that the largest excursion of a Brownian bridge is above a value.

    Source:
        Kolmogorov (1933), Giornale dell'Istituto Italiano degli Attuari 4: 2 sum (-1)^(k - 1) exp(-2 k^2 x^2).
    """
    if value < _KOLMOGOROV_LOW:
        return 1.0
    terms = range(1, 2 + math.ceil(5 / value))
    return min(max(2 * math.fsum((-1) ** (k - 1) * math.exp(-2 * (k * value) ** 2) for k in terms), 0.0), 1.0)


def student_975(degrees: float) -> float:
    """
    Return the 97.5 % point of Student's t; fractions of a degree are rounded down, to the wider interval.

    Source:
        Beyond the table: Abramowitz & Stegun (1964), 26.7.5, two terms; exact to 0.0001.
    """
    whole = math.floor(degrees)
    if whole <= len(_STUDENT_975):
        return _STUDENT_975[whole - 1]
    z = NORMAL_975
    return z + (z**3 + z) / (4 * whole) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * whole**2)


_KOLMOGOROV_95 = 1.3580986393225505
"""What Kolmogorov's distribution exceeds in 5 % of cases."""
MAX_EXACT = 2_000
"""Values on either side; the exact probability takes a step for each pair of places."""


def kolmogorov_smirnov(a: Collection[float], b: Collection[float]) -> Ks:
    """
    Test independent values, two-sided; both samples have one at least, and missing ones are `inf`.

    Values are in milliseconds. The p-value is exact up to `MAX_EXACT` values a side, asymptotic above. Ties make it
    conservative.

    Source:
        Smirnov (1948), The Annals of Mathematical Statistics 19(2); Hodges (1958), Arkiv for Matematik 3(43) (exact).
    """
    n, m = len(a), len(b)
    steps, at = distance(a, b)
    d = steps / (n * m)
    exact = max(n, m) <= MAX_EXACT
    probability = exact_probability(steps, n, m) if exact else kolmogorov_above(d * math.sqrt(n * m / (n + m)))
    at_ms = at if math.isfinite(at) else None
    return Ks(d=d, at_ms=at_ms, p_value=probability, n=n, m=m, critical_d=critical_distance(n, m))


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

"""
Intervals of what a series of measurements shows, where each adds less the more it is like the one before.

A series of n values counts as n / autocorrelation time independent ones (`stats.dependence`), and as no more than it
has groups, such as sandboxes. It is the third of the rules in `stats.estimates`, for series without even spacing, and
needs no SciPy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.measures import Estimate
from stepbench.stats import dependence
from stepbench.stats.quantiles import CONFIDENCE, at_level, at_levels, min_sample, order_statistic_levels, quantile
from stepbench.stats.tails import NORMAL_975, student_975

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIGNIFICANCE = 0.05
NOTHING = "nothing was measured"
_DRAWS = 4_000
_TAIL = (1 - CONFIDENCE) / 2


class Series:
    """Values of one measure in the order of their times, all finite; `groups`: from how many sandboxes they are."""

    def __init__(self, values: NDArray[np.float64], groups: int | None = None) -> None:
        self.values = values
        self.ascending = np.sort(values)
        self._groups = values.size if groups is None else groups
        self._times: dict[float | None, float] = {}

    @property
    def dependent(self) -> bool:
        """Return whether it counts for less than its size."""
        return self.effective_size() < self.values.size

    def effective_size(self, *qs: float) -> float:
        """
        Return to how many independent values it amounts, of its ranks and of what lies below its quantiles.

        Autocorrelation counts where it is to be seen (Ljung-Box, 5 %).
        """
        time = max(self._time(None), *(self._time(q) for q in qs), 1.0)
        return min(self.values.size / time, float(self._groups))

    def _time(self, q: float | None) -> float:
        if self.values.size < 2:  # noqa: PLR2004 -- a value and the one before
            return 1.0
        if q not in self._times:
            at_most = None if q is None else self.values <= quantile(self.ascending, q)
            series = dependence.ranks(self.values) if at_most is None else at_most.astype(np.float64)
            seen = dependence.ljung_box(series) < SIGNIFICANCE
            both = (dependence.autocorrelation_time, dependence.first_order_time)
            self._times[q] = max(estimate(series) for estimate in both) if seen else 1.0
        return self._times[q]

    def quantile(self, q: float) -> Estimate:
        """
        Return a quantile with its interval, or the reason why it has none.

        Source:
            Hutson (1999), Journal of Applied Statistics 26(3).
        """
        if not self.values.size:
            return Estimate(value=None, reason=NOTHING)
        value = quantile(self.ascending, q)
        size = self.effective_size(q)
        if shortage := self._shortage(size, min_sample(q)):
            return Estimate(value=value, reason=shortage)
        low, high = (at_level(self.ascending, level) for level in order_statistic_levels(size, q))
        return Estimate(value=value, low=min(low, value), high=max(high, value))

    def quantile_ratio(self, above: float, below: float, rng: np.random.Generator) -> Estimate:
        """
        Return one quantile over a lower one, both drawn together; values above 0 only.

        Source:
            Hutson (1999) for one quantile; David & Nagaraja (2003), Order Statistics, section 2.5, for several
            (spacings of uniform order statistics are Dirichlet).
        """
        if not self.values.size:
            return Estimate(value=None, reason=NOTHING)
        value = quantile(self.ascending, above) / quantile(self.ascending, below)
        size = self.effective_size(above, below)
        if shortage := self._shortage(size, max(min_sample(above), min_sample(below))):
            return Estimate(value=value, reason=shortage)
        shares = np.diff([0.0, below, above, 1.0]) * (size + 1)
        drawn = at_levels(self.ascending, np.cumsum(rng.dirichlet(shares, _DRAWS), axis=1)[:, :-1])
        low, high = np.quantile(drawn[:, 1] / drawn[:, 0], [_TAIL, 1 - _TAIL])
        return Estimate(value=value, low=min(float(low), value), high=max(float(high), value))

    def mean(self) -> Estimate:
        """
        Return the mean with Student's interval.

        Source:
            Student (1908), Biometrika 6(1); the number of independent values as in Zwiers & von Storch (1995), Journal
            of Climate 8(2).
        """
        if not self.values.size:
            return Estimate(value=None, reason=NOTHING)
        value, size = float(self.values.mean()), self.effective_size()
        if shortage := self._shortage(size, 2):
            return Estimate(value=value, reason=shortage)
        half = student_975(size - 1) * float(self.values.std(ddof=1)) / math.sqrt(size)
        return Estimate(value=value, low=value - half, high=value + half)

    def _shortage(self, size: float, needed: int) -> str | None:
        n = self.values.size
        if size >= needed:
            return None
        return f"n={n} < {needed}" if n < needed else f"{int(size)} of {n} independent < {needed}"


def share(hits: int, n: int) -> Estimate:
    """
    Return a share of n independent trials with its interval, which has a length where there are no hits, too.

    Source:
        Wilson (1927), Journal of the American Statistical Association 22.
    """
    if not n:
        return Estimate(value=None, reason=NOTHING)
    value, squared = hits / n, NORMAL_975**2
    middle = (value + squared / (2 * n)) / (1 + squared / n)
    half = NORMAL_975 / (1 + squared / n) * math.sqrt(value * (1 - value) / n + squared / (4 * n * n))
    return Estimate(value=value, low=min(max(middle - half, 0.0), value), high=max(min(middle + half, 1.0), value))

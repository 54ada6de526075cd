"""
How much the values of a series, in the order of their times, depend on those before, and intervals that take account.

A series of n values counts as n / autocorrelation time independent ones, and as no more than it has groups, such as
sandboxes. That is the third of the rules in `stats.estimates`, for series without even spacing; it needs no SciPy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.measures import Estimate
from stepbench.stats.quantiles import CONFIDENCE, at_level, at_levels, min_sample, order_statistic_levels, quantile
from stepbench.stats.tails import chi_squared_above, student_975

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_POINTS = 1 << 17
"""Longer series are averaged over neighbours before the transform, which keeps memory and time bounded."""
_WINDOW = 5
_LAGS = 10
_MAX_PHI = 0.99


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return mid-ranks: what counts for quantiles, whatever the scale, and defined where values are `inf`."""
    order = np.argsort(values)
    ascending = values[order]
    begins = np.ones(values.size, dtype=np.bool_)
    begins[1:] = ascending[1:] != ascending[:-1]
    edges = np.append(np.nonzero(begins)[0], values.size)
    found = np.empty(values.size)
    # Of equal values at places a...b - 1, counted from 0, each has the mean of the ranks a + 1...b.
    found[order] = np.repeat((edges[:-1] + edges[1:] + 1) / 2, np.diff(edges))
    return found


def autocorrelation(series: NDArray[np.float64], lags: int) -> NDArray[np.float64]:
    """
    Return the autocorrelation at lags 0...lags; shape (lags + 1,). A constant series has none beyond lag 0.

    Source:
        Box, Jenkins & Reinsel (2015), Time Series Analysis, 5th ed., section 2.1.5, computed by the FFT.
    """
    centred = series - series.mean()
    variance = float(centred @ centred)
    if variance == 0:
        return np.concatenate(([1.0], np.zeros(lags)))
    length = 1 << (series.size + lags - 1).bit_length()
    spectrum = np.fft.rfft(centred, length)
    covariance = np.fft.irfft(spectrum * spectrum.conj(), length)[: lags + 1]
    return covariance / variance


def autocorrelation_time(series: NDArray[np.float64]) -> float:
    """
    Return the integrated time, in steps, at least 1: n values tell as much as n / time independent ones.

    Summed up to the first lag that is five times the sum so far, since beyond it there is only noise. Of a series of
    more than `MAX_POINTS`, means of g neighbours are taken; their time counts for g steps, times what is left of the
    variance.

    Source:
        Sokal (1997), Monte Carlo Methods in Statistical Mechanics, section 3; Madras & Sokal (1988),
        Journal of Statistical Physics 50, appendix C.
    """
    group = -(-series.size // MAX_POINTS)
    means = series[: series.size // group * group].reshape(-1, group).mean(axis=1)
    variance, of_means = float(series.var()), float(means.var())
    if variance == 0 or of_means == 0:
        return 1.0
    sums = 2 * np.cumsum(autocorrelation(means, max(1, means.size // 2))) - 1
    enough = np.nonzero(np.arange(sums.size) >= _WINDOW * sums)[0]
    steps = float(sums[enough[0] if enough.size else -1])
    return max(1.0, group * steps * of_means / variance)


def first_order_time(series: NDArray[np.float64]) -> float:
    """
    Return the time, in steps, at least 1, that the first autocorrelation implies: (1 + r) / (1 - r).

    True where each value depends on the one before only; it scatters far less than a sum over many lags.

    Source:
        Box, Jenkins & Reinsel (2015), section 3.2.3 (first-order autoregressive process).
    """
    centred = series - series.mean()
    variance = float(centred @ centred)
    if variance == 0:
        return 1.0
    first = float(centred[1:] @ centred[:-1]) / variance
    return max(1.0, (1 + first) / (1 - first))


def time_about_fit(residuals: NDArray[np.float64], bias: int) -> float:
    """
    Return the longer of Sokal's time and that of an AR(1) whose coefficient is corrected for what was fitted.

    One fitted mean biases the first autocorrelation by some -(1 + 4 phi) / n; a line by twice, what else is fitted by
    `bias` times -(1 + 2 phi) / n.

    Source:
        Kendall (1954), Marriott & Pope (1954), both Biometrika 41.
    """
    power = float(residuals @ residuals)
    if power == 0:
        return 1.0
    first = float(residuals[1:] @ residuals[:-1]) / power
    phi = min(max(first + (bias + 2 * bias * first) / residuals.size, 0.0), _MAX_PHI)
    return max((1 + phi) / (1 - phi), autocorrelation_time(residuals))


def ljung_box(series: NDArray[np.float64]) -> float:
    """
    Return the probability of so large autocorrelations at lags 1...min(10, n / 5) of independent values.

    Source:
        Ljung & Box (1978), Biometrika 65(2); on ranks: Dufour & Roy (1986), Communications in Statistics 15(10);
        the number of lags: Hyndman & Athanasopoulos, Forecasting, 3rd ed., section 5.4.
    """
    n = series.size
    lags = min(_LAGS, n // 5)
    if lags < 1:
        return 1.0
    correlation = autocorrelation(series, lags)[1:]
    statistic = n * (n + 2) * float(np.sum(correlation**2 / (n - np.arange(1, lags + 1))))
    return chi_squared_above(lags, statistic)


SIGNIFICANCE = 0.05
NOTHING = "nothing was measured"
_DRAWS = 4_000
_TAIL = (1 - CONFIDENCE) / 2


class DependentSeries:
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
            series = ranks(self.values) if at_most is None else at_most.astype(np.float64)
            seen = ljung_box(series) < SIGNIFICANCE
            both = (autocorrelation_time, first_order_time)
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

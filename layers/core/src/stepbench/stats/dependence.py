"""How much the values of a series, in the order of their times, depend on those before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.stats.tails import chi_squared_above

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_POINTS = 1 << 17
"""Longer series are averaged over neighbours before the transform, which keeps memory and time bounded."""
_WINDOW = 5
_LAGS = 10


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
    correlation: NDArray[np.float64] = covariance / variance
    return correlation


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

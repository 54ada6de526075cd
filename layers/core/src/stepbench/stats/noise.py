"""
How far runs of one level lie apart, learned from those runs: location, scale, autocorrelation and density.

All values are logarithms, so that a distance is a ratio. Runs of one setting are seldom normal: now and then one is far
off, or they fall into two modes. Whoever takes such noise for normal takes the noise for a change, so the density is
estimated from the runs themselves, and what has been seen before is no surprise when it comes again.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

OUTLIER = 3.5
"""Scales from the location; what lies further away is no part of the core."""
LEAST_SCALE = 1e-4
"""Of logarithms: runs of 0.01 % apart are rounding, and a scale of 0 would make everything significant."""
_BANDWIDTH, _BANDWIDTH_OUTLIER = 0.5, 1.0
_NORMAL_SHARE = 0.5
"""The core is half a normal density, half the kernels': the tails of few kernels end too soon."""
_LAGS = (1.0, 0.5, 0.25)
_UNSEEN, _UNSEEN_SCALE = 0.02, 6.0
_GRID = np.linspace(-30, 30, 241)


def location(values: NDArray[np.float64]) -> float:
    """
    Return the median of the means of all pairs, those far outside left out; of two modes it lies between them.

    Source:
        Hodges & Lehmann (1963), Annals of Mathematical Statistics 34(2).
    """
    middle = np.median(values)
    core = values[np.abs(values - middle) <= OUTLIER * scale(values - middle)]
    one, other = _pairs(core.size)
    return float(np.median((core[one] + core[other]) / 2))


def scale(residuals: NDArray[np.float64]) -> float:
    """
    Return the standard deviation of the core: that of those within 3.5 of it, begun with the median deviation.

    Source:
        Hampel (1974), Journal of the American Statistical Association 69 (median deviation, rejection beyond 3.5).
    """
    away = np.abs(residuals)
    found = 1.4826 * float(np.median(away)) * (1 + 0.8 / residuals.size)
    if found == 0:
        found = float(residuals.std())
    for _ in range(3):
        core = residuals[away < OUTLIER * found]
        if core.size > 1:
            found = 1.01 * float(core.std(ddof=1))
    return max(found, LEAST_SCALE)


class Noise:
    """
    The noise of a series of runs about its level.

    The density mixes kernels about the residuals (wider about outliers), a normal one for the core, and a wide one for
    what has not been seen so far.

    Source:
        Silverman (1986), Density Estimation, sections 2.4 and 5.3 (kernels, wider where there are few); Good (1953),
        Biometrika 40 (the probability of what is unseen).
    """

    def __init__(self, residuals: NDArray[np.float64]) -> None:
        self.runs = residuals.size
        self.scale = scale(residuals)
        self._z = residuals / self.scale

    def log_density(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the logarithm of the density at distances from the level, in scales."""
        return np.interp(z, _GRID, self._log_density)

    @cached_property
    def correlation(self) -> float:
        """
        Return the correlation of neighbours, at least 0; outliers are left out.

        The larger of two estimates, since too small a one makes evidence of nothing: from neighbours alone, and from
        three lags, weighted as a correlation of 0.5 would have them.

        Source:
            Kendall (1954), Biometrika 41 (the bias).
        """
        core = np.where(np.abs(self._z) <= OUTLIER, self._z, 0.0)
        power = float(core @ core)
        if power == 0:
            return 0.0
        lags = [float(core[lag:] @ core[:-lag]) / power for lag in range(1, len(_LAGS) + 1)]
        weighted = sum(weight * lag for weight, lag in zip(_LAGS, lags, strict=True)) / sum(each**2 for each in _LAGS)
        found = max(lags[0], weighted)
        found += (1 + 4 * found) / self.runs
        return min(max(found, 0.0), 0.95)

    def inflation(self, runs: int) -> float:
        """
        Return by how much autocorrelation widens the variance of the mean of so many runs.

        Source:
            Johnson & Bagshaw (1974), Technometrics 16(1).
        """
        lags = np.arange(1, runs)
        return 1 + 2 * float(((1 - lags / runs) * self.correlation**lags).sum())

    @cached_property
    def _log_density(self) -> NDArray[np.float64]:
        core = np.abs(self._z) <= OUTLIER
        within, outside = self._z[core], self._z[~core]
        share = outside.size / self.runs
        shrunk = within * math.sqrt(1 - _BANDWIDTH**2)  # kernels widen what they smooth
        density = (1 - share) * (
            _NORMAL_SHARE * _normal(_GRID, 1.0) + (1 - _NORMAL_SHARE) * _kernels(shrunk, _BANDWIDTH)
        )
        if outside.size:
            density += share * _kernels(outside, _BANDWIDTH_OUTLIER)
        unseen = 1 / (math.pi * _UNSEEN_SCALE * (1 + (_GRID / _UNSEEN_SCALE) ** 2))
        return np.log((1 - _UNSEEN) * density + _UNSEEN * unseen)


def _normal(z: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    return np.exp(-0.5 * (z / width) ** 2) / (width * math.sqrt(2 * math.pi))


def _kernels(centres: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    density: NDArray[np.float64] = _normal(_GRID[:, None] - centres, width).mean(axis=1)
    return density


@lru_cache(maxsize=256)
def _pairs(n: int) -> tuple[NDArray[Any], NDArray[Any]]:
    one, other = np.triu_indices(n)
    return one, other

"""
Evidence that the last runs of a series lie on another level than those before, or drift away from it, and which.

The logarithm of a generalised likelihood ratio over the last runs: the best change among those that so many runs could
show, against none, under the noise that earlier runs have shown. It is reduced for what estimation and autocorrelation
take from it, so that one threshold serves all windows.

That noise is how far runs of one level lie apart. All values are logarithms, so that a distance is a ratio. Runs of one
setting are seldom normal: now and then one is far off, or they fall into two modes. Whoever takes such noise for normal
takes the noise for a change, so the density is estimated from the runs themselves, and what has been seen before is no
surprise when it comes again.

Source:
    Lai (1998), IEEE Transactions on Information Theory 44(7) (generalised likelihood ratios over windows of limited
    length); Siegmund & Venkatraman (1995), Annals of Statistics 23(1) (level before the change estimated).
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from stepbench.stats.over_runs import MIN_RUNS

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
            _NORMAL_SHARE * _kernels(np.zeros(1), 1.0) + (1 - _NORMAL_SHARE) * _kernels(shrunk, _BANDWIDTH)
        )
        if outside.size:
            density += share * _kernels(outside, _BANDWIDTH_OUTLIER)
        unseen = 1 / (math.pi * _UNSEEN_SCALE * (1 + (_GRID / _UNSEEN_SCALE) ** 2))
        return np.log((1 - _UNSEEN) * density + _UNSEEN * unseen)


def _kernels(centres: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    """Return the mean of normal densities about centres, over the grid."""
    z = (_GRID[:, None] - centres) / width
    density: NDArray[np.float64] = (np.exp(-0.5 * z**2) / (width * math.sqrt(2 * math.pi))).mean(axis=1)
    return density


@lru_cache(maxsize=256)
def _pairs(n: int) -> tuple[NDArray[Any], NDArray[Any]]:
    one, other = np.triu_indices(n)
    return one, other


Shape = Literal["step", "ramp"]
_STEPS = np.concatenate([np.linspace(0, 6, 25), np.linspace(6.5, 20, 28)])
"""Sizes of change beyond the smallest that are tried, in scales of the noise."""
_FAR = 20.0
"""Runs beyond so many scales are as far off as can be; no density is known there."""
_PRIOR = 0.5
"""How much less likely a change is for each scale that it is larger: several outliers are no large shift."""
_LEAST_SHOWN = 4.5
"""A mean of so many standard errors is the least that a window could well show; less is left to longer ones."""
_POWER = 0.8416212335729143
"""80 % of the standard normal distribution lie below it."""
_CLIPPED = 2.5
_BETTER = 2.0
"""By how much the likelihood of a drift has to exceed that of a shift, as a logarithm."""


class Evidence(NamedTuple):
    """What a window shows: the reduced logarithm of its likelihood ratio, and the change, a logarithm with its sign."""

    weight: float
    change: float


NONE = Evidence(0.0, 0.0)


class Drift(NamedTuple):
    """A change of each run against the one before, a logarithm, with its variance; over the last so many runs."""

    slope: float
    variance: float
    runs: int


def least_change(noise: Noise, runs: int, smallest: float) -> float:
    """Return the smallest change that is looked for in so many runs; `smallest` is that of interest, a logarithm."""
    return max(smallest, _LEAST_SHOWN * noise.scale / math.sqrt(runs))


def find_evidence(  # noqa: PLR0913, PLR0917 -- what a test is made of
    after: NDArray[np.float64], level: float, before: int, noise: Noise, smallest: float, shape: Shape = "step"
) -> Evidence:
    """
    Return the evidence of a change in either direction, whichever is more likely.

    Args:
        after: the last runs, logarithms, in order.
        level: of the runs before them.
        before: how many those are.
        noise: of runs about their level.
        smallest: change that is of interest, a logarithm above 0.
        shape: all of `after` lies on another level, or moves away from the old one at a constant rate.
    """
    least = least_change(noise, after.size, smallest) / noise.scale
    far = max(_FAR, least)
    z = np.clip((after - level) / noise.scale, -far, far)
    sizes = least + _STEPS
    pattern = np.ones(after.size) if shape == "step" else np.arange(1, after.size + 1) / after.size
    without = noise.log_density(z).sum()
    best = NONE
    for sign in (1, -1):
        gains = noise.log_density(z - sign * sizes[:, None] * pattern).sum(axis=1) - without - _PRIOR * _STEPS
        place = int(gains.argmax())
        weight = _reduce(float(gains[place]), after.size, before, noise)
        if weight > best.weight:
            best = Evidence(weight, sign * float(sizes[place]) * noise.scale)
    return best


def least_decided(noise: Noise, threshold: float, before: int, runs: int) -> float:
    """Return the smallest change, a logarithm, that so many runs on a new level show in four of five cases."""
    needed = (math.sqrt(2 * threshold) + _POWER) ** 2
    return noise.scale * math.sqrt(needed * noise.inflation(runs) / (runs * _share_before(before, runs)))


def _share_before(before: int, runs: int) -> float:
    """Return what is left of a likelihood ratio when the level before is estimated from so many runs."""
    return before / (before + runs)


def _reduce(gain: float, runs: int, before: int, noise: Noise) -> float:
    """Take off what the estimated level, autocorrelation and the estimated scale make of a gain (Student's t)."""
    if gain <= 0:
        return 0.0
    weight = gain * _share_before(before, runs) / noise.inflation(runs)
    degrees = noise.runs - 1
    return (degrees + 1) / 2 * math.log1p(2 * weight / degrees)


def estimate_change(after: NDArray[np.float64], level: float, noise: Noise) -> float:
    """Return the most likely change of level, a logarithm; one run far off moves it little."""
    z = (after - level) / noise.scale
    if abs(float(np.median(z))) >= _FAR:
        return location(after) - level
    sizes = np.arange(-_FAR, _FAR + 0.05, 0.1)
    likelihoods = noise.log_density(z - sizes[:, None]).sum(axis=1)
    return float(sizes[int(likelihoods.argmax())]) * noise.scale


def weigh_levels(values: NDArray[np.float64], one: float, other: float, noise: Noise) -> float:
    """Return the logarithm of how much more likely values are on one level than on the other."""
    likelihoods = [noise.log_density((values - level) / noise.scale).sum() for level in (one, other)]
    return float(likelihoods[0] - likelihoods[1]) / noise.inflation(values.size)


def find_drift(values: NDArray[np.float64], at: NDArray[np.float64], level: float, scale: float) -> Drift | None:
    """
    Return the drift, if a line that leaves the level fits the last runs better than another level does.

    Args:
        values: logarithms: some runs of the old level, then those that follow, in order.
        at: their times, in scheduled runs.
        level: the old one.
        scale: of the noise.

    Source:
        Hinkley (1971), Journal of the American Statistical Association 66 (two-phase regression).
    """
    away = (values - level) / scale
    places = range(1, values.size - MIN_RUNS + 1)
    if not places:
        return None
    steps = min(_misfit(away, np.arange(values.size) >= place) for place in places)
    lines = [(_misfit(away, np.maximum(at - at[place - 1], 0.0)), place) for place in places]
    misfit, place = min(lines)
    if steps - misfit < 2 * _BETTER:
        return None
    times = at[place:] - at[place:].mean()
    power = float(times @ times)
    if power == 0:
        return None
    return Drift(float(times @ values[place:]) / power, scale**2 / power, values.size - place)


def _misfit(away: NDArray[np.float64], pattern: NDArray[np.float64] | NDArray[np.bool_]) -> float:
    """Return the sum of squares about the best multiple of a pattern; no run counts for more than 2.5 scales."""
    shape = pattern.astype(np.float64)
    size = float(shape @ away) / float(shape @ shape)
    for _ in range(3):
        rest = np.clip(away - size * shape, -_CLIPPED, _CLIPPED)
        size += float(shape @ rest) / float(shape @ shape)
    rest = np.clip(away - size * shape, -_CLIPPED, _CLIPPED)
    return math.fsum(rest * rest)

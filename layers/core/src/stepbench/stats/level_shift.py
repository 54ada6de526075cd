"""
Evidence that the last runs of a series lie on another level than those before, or drift away from it, and which.

The logarithm of a generalised likelihood ratio over the last runs: the best change among those that so many runs could
show, against none, under the noise that earlier runs have shown. It is reduced for what estimation and autocorrelation
take from it, so that one threshold serves all windows.

Source:
    Lai (1998), IEEE Transactions on Information Theory 44(7) (generalised likelihood ratios over windows of limited
    length); Siegmund & Venkatraman (1995), Annals of Statistics 23(1) (level before the change estimated).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from stepbench.stats.noise import location
from stepbench.stats.over_runs import MIN_RUNS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.stats.noise import Noise

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

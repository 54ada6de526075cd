"""Whether the last runs of a series drift, or lie on a level of their own: two fits of the same runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.stats.over_runs import MIN_RUNS

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CLIPPED = 2.5
_BETTER = 2.0
"""By how much the likelihood of a drift has to exceed that of a shift, as a logarithm."""


class Drift(NamedTuple):
    """A change of each run against the one before, a logarithm, with its variance; over the last so many runs."""

    slope: float
    variance: float
    runs: int


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

"""Whether rates depend on the hour of the day, or on the weekday."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.contracts.transfer.result import TransferDependence, TransferLevel

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from stepbench.experiments.transfer.analysis.reads import Reads

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

DRAWS = 2_000
APART = 0.01
"""If there is a dependence, levels are compared with the others at this error."""
MIN_DAYS, MIN_WEEKS = 7, 3
_AT_ONCE = 100
_TINY = 1e-12
_MONDAY = 4
"""The epoch's first Monday was its fifth day."""


def depend_on_hour(reads: Reads, level: float, rng: np.random.Generator) -> TransferDependence:
    """
    Test whether ranks of rates depend on the hour of the day, UTC.

    Each read's rank within its cell counts, less its day's mean. Chance is what remains when the hours of each day are
    turned round the clock by a random number of them: it keeps what is alike from hour to hour within a day, since slow
    hours of one day make no slow hour. Only hours in which anything was read are on that clock. Assumed: days are
    independent.

    Args:
        reads: measured reads of a pair, by time.
        level: the error of this test.
        rng: for the turns.

    Source:
        Pesarin & Salmaso (2010), Permutation Tests for Complex Data, section 4.1 (restricted permutations, several
        statistics); Harris (2020), arXiv:2012.06862, and Davison & Hinkley (1997), Bootstrap Methods, section 4.3
        (shifts of a series as its permutations); Westfall & Young (1993), Resampling-Based Multiple Testing (which
        levels).
    """
    day = np.unique(reads.days, return_inverse=True)[1]
    occurring, place = np.unique(reads.hours, return_inverse=True)
    shape = (int(day.max(initial=-1)) + 1, occurring.size)
    at = day * occurring.size + place
    centred = _less_mean(reads.scores, day)
    sums, counts = (np.bincount(at, weights, shape[0] * shape[1]).reshape(shape) for weights in (centred, None))

    def turn(draws: int) -> Floats:
        turned = (np.arange(shape[1]) + rng.integers(0, shape[1], (draws, shape[0], 1))) % shape[1]
        row = np.arange(shape[0])[None, :, None]
        return _deviations(sums[row, turned].sum(axis=1), counts[row, turned].sum(axis=1))

    observed = _deviations(sums.sum(axis=0), counts.sum(axis=0))
    return _describe(reads, reads.hours, 24, _Test(observed, turn, level), _too_few(shape[0], MIN_DAYS, "days"))


def depend_on_weekday(reads: Reads, level: float, rng: np.random.Generator) -> TransferDependence:
    """
    Test whether ranks of rates depend on the weekday, UTC.

    Means of days count, each once, however much was read on it, less their week's mean. Chance is what remains when the
    days change places: weeks' means are taken off again, and all is set over what then varies. Assumed: what days have
    in common with their neighbours is no more than with others of their week; if it is, the test finds too little,
    since neighbours are different weekdays.
    """
    days, day = np.unique(reads.days, return_inverse=True)
    means = np.bincount(day, reads.scores) / np.bincount(day)
    week = np.unique((days - _MONDAY) // 7, return_inverse=True)[1]
    occurring, place = np.unique((days - _MONDAY) % 7, return_inverse=True)
    is_on = np.equal.outer(place, np.arange(occurring.size)).astype(np.float64)
    less_week = np.eye(days.size) - np.equal.outer(week, week) / np.maximum(np.bincount(week), 1)[week]

    def deviate(rows: Floats) -> Floats:
        centred = rows @ less_week
        spread = np.sqrt(np.square(centred).sum(axis=1, keepdims=True))
        return _deviations((centred / np.maximum(spread, _TINY)) @ is_on, is_on.sum(axis=0))

    def shuffle(draws: int) -> Floats:
        return deviate((means @ less_week)[rng.random((draws, days.size)).argsort(axis=1)])

    test = _Test(deviate(means[None])[0], shuffle, level)
    weeks = int(np.count_nonzero(np.bincount(week) > 1))
    return _describe(reads, (reads.days - _MONDAY) % 7, 7, test, _too_few(weeks, MIN_WEEKS, "weeks"))


def _less_mean(values: Floats, block: Integers) -> Floats:
    """Return values less the mean of their block."""
    found: Floats = values - (np.bincount(block, values) / np.maximum(np.bincount(block), 1))[block]
    return found


def _too_few(blocks: int, least: int, name: str) -> str | None:
    return f"{blocks} {name} < {least}" if blocks < least else None


class _Test(NamedTuple):
    """What was observed of each level that occurs, how to draw so many times what chance makes of it, and the error."""

    observed: Floats
    draw: Callable[[int], Floats]
    level: float

    def p_value(self) -> tuple[float, NDArray[np.bool_]]:
        """
        Return the probability of so large differences by chance, and which of the levels make them.

        Two statistics, for differences of all levels (Kruskal and Wallis's) and of a single one (the largest): twice
        the smaller of their p-values.
        """
        drawn = np.concatenate([self.draw(_AT_ONCE) for _ in range(DRAWS // _AT_ONCE)])
        largest = np.sort(np.abs(drawn).max(axis=1))
        beyond_all = np.count_nonzero(np.square(drawn).sum(axis=1) >= np.square(self.observed).sum())
        beyond = min(beyond_all, np.count_nonzero(largest >= np.abs(self.observed).max()))
        p_value = min(2 * (beyond + 1) / (drawn.shape[0] + 1), 1.0)
        return p_value, np.abs(self.observed) > np.quantile(largest, 1 - APART)


def _deviations(sums: Floats, counts: Floats) -> Floats:
    """Return each level's sum over the square root of its count, which is alike whatever the count."""
    found: Floats = sums / np.sqrt(np.maximum(counts, 1))
    return found


def _describe(reads: Reads, of: Integers, levels: int, test: _Test, reason: str | None) -> TransferDependence:
    occurring = np.unique(of)
    p_value, differs = None, np.zeros(levels, np.bool_)
    if reason is None and occurring.size == 1:
        reason = "all began at one"
    if reason is None:
        p_value, differing = test.p_value()
        differs[occurring[differing]] = p_value <= test.level
    shown = tuple(_level(reads, at, of == at, differs=bool(differs[at])) for at in range(levels))
    found = p_value is not None and p_value <= test.level
    return TransferDependence(levels=shown, p_value=p_value, found=found, reason=reason)


def _level(reads: Reads, at: int, chosen: NDArray[np.bool_], *, differs: bool) -> TransferLevel:
    n = int(np.count_nonzero(chosen))
    return TransferLevel(
        at=at,
        n=n,
        mean_mib_per_s=float(reads.rates[chosen].mean()) if n else None,
        relative=float(np.exp(reads.relative[chosen].mean())) if n else None,
        differs=differs,
    )

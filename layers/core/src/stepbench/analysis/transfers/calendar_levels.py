"""Whether rates depend on the hour of the day, or on the weekday."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.contracts.transfer_result import TransferDependence, TransferLevel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.analysis.transfers.reads import Reads

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

DRAWS = 1_999
MIN_DAYS, MIN_WEEKS = 7, 3
_AT_ONCE = 100
_MONDAY = 4
"""The epoch's first Monday was its fifth day."""


class Totals(NamedTuple):
    """They are, of each block of time and each level, the sum of centred scores and their count; (blocks, levels)."""

    sums: Floats
    counts: Floats


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
    days, day = np.unique(reads.days, return_inverse=True)
    test = _Test(_totals(reads, day, reads.hours), level, rng)
    return _describe(reads, reads.hours, 24, test, _too_few(days.size, MIN_DAYS, "days"))


def depend_on_weekday(reads: Reads, level: float, rng: np.random.Generator) -> TransferDependence:
    """
    Test whether ranks of rates depend on the weekday, UTC; as of the hour, with weeks in place of days.

    Means of days count, each once, however much was read on it, and chance is what remains when the days of each week
    change places. Assumed: days are independent.
    """
    weekdays = (reads.days - _MONDAY) % 7
    week = np.unique((reads.days - _MONDAY) // 7, return_inverse=True)[1]
    found = _totals(reads, week, weekdays)
    read_on = found.counts > 0
    means = np.divide(found.sums, found.counts, out=np.zeros_like(found.sums), where=read_on)
    means -= np.where(read_on, means.sum(axis=1, keepdims=True) / np.maximum(read_on.sum(axis=1, keepdims=True), 1), 0)
    by_day = Totals(np.where(read_on, means, 0.0), read_on.astype(np.float64))
    full_weeks = int(np.count_nonzero(read_on.sum(axis=1) > 1))
    test = _Test(by_day, level, rng, shuffled=True)
    return _describe(reads, weekdays, 7, test, _too_few(full_weeks, MIN_WEEKS, "weeks"))


def _too_few(blocks: int, least: int, name: str) -> str | None:
    return f"{blocks} {name} < {least}" if blocks < least else None


def _totals(reads: Reads, block: Integers, levels: Integers) -> Totals:
    """Return sums over the levels that occur, in their order; scores less their block's mean."""
    occurring, place = np.unique(levels, return_inverse=True)
    blocks = int(block.max(initial=-1)) + 1
    of_block = np.bincount(block, weights=reads.scores, minlength=blocks) / np.bincount(block, minlength=blocks)
    centred = reads.scores - of_block[block] if blocks else reads.scores
    at = block * occurring.size + place
    shape = (blocks, occurring.size)
    sums, counts = (np.bincount(at, weights, blocks * occurring.size).reshape(shape) for weights in (centred, None))
    return Totals(sums.astype(np.float64), counts.astype(np.float64))


class _Test:
    """Differences of all levels and of single ones, beside those of blocks whose levels are turned or shuffled."""

    def __init__(self, totals: Totals, level: float, rng: np.random.Generator, *, shuffled: bool = False) -> None:
        self._totals, self.level, self._rng, self._shuffled = totals, level, rng, shuffled

    def p_value(self) -> tuple[float, NDArray[np.bool_]]:
        """
        Return the probability of so large differences by chance, and which of the levels that occur make them.

        Two statistics, for differences of all levels (Kruskal and Wallis's) and of a single one (the largest): twice
        the smaller of their p-values.
        """
        observed = _deviations(self._totals.sums.sum(axis=0), self._totals.counts.sum(axis=0))
        drawn = np.concatenate(list(self._moved()))
        largest = np.sort(np.abs(drawn).max(axis=1))
        beyond_all = np.count_nonzero(np.square(drawn).sum(axis=1) >= np.square(observed).sum())
        beyond = min(beyond_all, np.count_nonzero(largest >= np.abs(observed).max()))
        p_value = min(2 * (beyond + 1) / (DRAWS + 1), 1.0)
        # Once there is a dependence, levels are told apart at 5 %.
        return p_value, np.abs(observed) > np.quantile(largest, 0.95)

    def _moved(self) -> Iterator[Floats]:
        blocks, levels = self._totals.sums.shape
        for begin in range(0, DRAWS, _AT_ONCE):
            draws = min(_AT_ONCE, DRAWS - begin)
            if self._shuffled:
                place = self._rng.random((draws, blocks, levels)).argsort(axis=2)
            else:
                place = (np.arange(levels) + self._rng.integers(0, levels, (draws, blocks, 1))) % levels
            rows = np.arange(blocks)[None, :, None]
            yield _deviations(*(each[rows, place].sum(axis=1) for each in self._totals))


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

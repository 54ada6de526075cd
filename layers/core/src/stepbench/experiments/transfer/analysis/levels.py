"""Whether rates depend on the hour of the day or on the weekday, and since when they lie on another level."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.measures import Estimate
from stepbench.contracts.transfer.result import TransferChange, TransferDependence, TransferLevel
from stepbench.digits import counted
from stepbench.errors import InsufficientSampleError
from stepbench.experiments.transfer.analysis.reads import moment_of
from stepbench.stats.change_point import find_change, local_time
from stepbench.stats.quantiles import CONFIDENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from stepbench.experiments.transfer.analysis.reads import Reads
    from stepbench.stats.change_point import LevelChange

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
    too_few = f"{shape[0]} days < {MIN_DAYS}" if shape[0] < MIN_DAYS else ""
    return _describe(reads, reads.hours, 24, too_few or _judge(observed, turn), level)


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

    weeks = int(np.count_nonzero(np.bincount(week) > 1))
    too_few = f"{weeks} weeks < {MIN_WEEKS}" if weeks < MIN_WEEKS else ""
    found = too_few or _judge(deviate(means[None])[0], shuffle)
    return _describe(reads, (reads.days - _MONDAY) % 7, 7, found, level)


def _less_mean(values: Floats, block: Integers) -> Floats:
    """Return values less the mean of their block."""
    found: Floats = values - (np.bincount(block, values) / np.maximum(np.bincount(block), 1))[block]
    return found


def _judge(observed: Floats, draw: Callable[[int], Floats]) -> tuple[float, NDArray[np.bool_]] | str:
    """
    Return the probability of so large differences by chance, and which of the levels make them; or why nobody knows.

    Two statistics, for differences of all levels (Kruskal and Wallis's) and of a single one (the largest): twice the
    smaller of their p-values.

    Args:
        observed: of each level that occurs.
        draw: draws so many times what chance makes of them.
    """
    if observed.size == 1:
        return "all began at one"
    drawn = np.concatenate([draw(_AT_ONCE) for _ in range(DRAWS // _AT_ONCE)])
    largest = np.sort(np.abs(drawn).max(axis=1))
    beyond_all = np.count_nonzero(np.square(drawn).sum(axis=1) >= np.square(observed).sum())
    beyond = min(beyond_all, np.count_nonzero(largest >= np.abs(observed).max()))
    p_value = min(2 * (beyond + 1) / (drawn.shape[0] + 1), 1.0)
    return p_value, np.abs(observed) > np.quantile(largest, 1 - APART)


def _deviations(sums: Floats, counts: Floats) -> Floats:
    """Return each level's sum over the square root of its count, which is alike whatever the count."""
    found: Floats = sums / np.sqrt(np.maximum(counts, 1))
    return found


def _describe(
    reads: Reads, of: Integers, levels: int, judged: tuple[float, NDArray[np.bool_]] | str, level: float
) -> TransferDependence:
    p_value, differing = (None, None) if isinstance(judged, str) else judged
    found = p_value is not None and p_value <= level
    differs = set(np.unique(of)[differing].tolist()) if found else set()
    shown = tuple(_level(reads, at, of == at, differs=at in differs) for at in range(levels))
    reason = judged if isinstance(judged, str) else None
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


LEAST_READS = 40
"""Fewer reads are not looked into for a change."""
MIN_DAYS_A_SIDE = 5
BINS = 120
"""Means of so many groups of reads, one after the other, are searched: what lasts for hours shows between them."""
_PARTS = 5
"""Parts of that series for its autocorrelation: more than there usually are changes, each long enough to show it."""
WIDE = 100
"""So many reads on either side give the two levels between which a change's place is found."""
NOTABLE = 0.05
"""A smaller change of level may be sure, and is in the table; it is no answer, and makes no modes."""
RESAMPLES = 1_000
_TAIL = (1 - CONFIDENCE) / 2


def find_changes(
    reads: Reads, hours: TransferDependence, level: float, rng: np.random.Generator
) -> tuple[tuple[TransferChange, ...], str | None]:
    """
    Return changes of level in order of time, or the reason why none is looked for.

    Means of ranks within cells, of 120 groups of reads or of single ones, are searched for the most likely change, with
    regard to their autocorrelation; then what lies before and behind it, until none is left. About what is found, ranks
    of single reads tell the place. Where rates depend on the hour, each hour's mean is taken off before.

    Args:
        reads: measured reads of a pair, by time.
        hours: what was found of them.
        level: the error of the first search; each later one, which there is after a change only, has it anew.
        rng: for the intervals.

    Source:
        `stats.change_point` (Pettitt's test); Vostrikova (1981), Soviet Mathematics Doklady 24 (binary segmentation).
    """
    if reads.n < LEAST_READS:
        return (), f"n={reads.n} < {LEAST_READS}"
    scores = reads.scores
    if hours.found:
        scores = _less_mean(scores, reads.hours)
    edges = np.linspace(0, reads.n, min(BINS, reads.n) + 1).astype(np.int64)
    series = np.add.reduceat(scores, edges[:-1]) / np.diff(edges)
    try:
        found = sorted(_search(series, 0, level, local_time(series, _PARTS), rng))
    except InsufficientSampleError as shortage:
        return (), str(shortage)
    places = [_refine(scores, edges, change) for change in found]
    ends = [0, *places, reads.n]
    spans = [(np.arange(ends[at], ends[at + 1]), np.arange(ends[at + 1], ends[at + 2])) for at in range(len(found))]
    return tuple(
        _change(reads, (int(edges[change.low]), int(edges[change.high])), change.p_value, span, rng)
        for change, span in zip(found, spans, strict=True)
    ), None


def is_notable(change: TransferChange) -> bool:
    """Return whether a level changes by 5 % or more."""
    return abs((change.ratio.value or 1.0) - 1) >= NOTABLE


def _search(
    series: NDArray[np.float64], begin: int, level: float, time: float, rng: np.random.Generator
) -> Iterator[LevelChange]:
    """Yield changes with their places in the whole series, of which this part begins at `begin`."""
    found = find_change(series, rng, time)
    if found.p_value > level:
        return
    yield found._replace(bins=begin + found.bins, low=begin + found.low, high=begin + found.high)
    for part, at in ((series[: found.bins], begin), (series[found.bins :], begin + found.bins)):
        try:
            yield from _search(part, at, level, time, rng)
        except InsufficientSampleError:
            continue  # it is too short to be looked into, which is what its end means


def _refine(scores: NDArray[np.float64], edges: NDArray[np.int64], change: LevelChange) -> int:
    """Return before which read two levels fit best, within a group of reads on either side of a change."""
    low, high = int(edges[change.bins - 1]), int(edges[min(change.bins + 1, edges.size - 1)])
    left, right = (
        float(part.mean()) for part in (scores[: edges[change.bins]][-WIDE:], scores[edges[change.bins] :][:WIDE])
    )
    # Each read that goes to the left instead of to the right changes the squares by so much.
    gain = np.cumsum(np.square(scores[low:high] - right) - np.square(scores[low:high] - left))
    return low + 1 + int(gain[:-1].argmax()) if gain.size > 1 else int(edges[change.bins])


def _change(
    reads: Reads,
    interval: tuple[int, int],
    p_value: float,
    parts: tuple[NDArray[np.int64], NDArray[np.int64]],
    rng: np.random.Generator,
) -> TransferChange:
    levels = [float(reads.relative[part].mean()) for part in parts]
    place = int(parts[1][0])
    at, earliest, latest = (
        moment_of(int(reads.columns.began_at_ns[each]))
        for each in (place, min(interval[0], place), max(min(interval[1], reads.n - 1), place))
    )
    return TransferChange(
        at=at,
        earliest=earliest,
        latest=latest,
        p_value=p_value,
        before=float(np.exp(levels[0])),
        after=float(np.exp(levels[1])),
        ratio=_ratio(reads, parts, levels[1] - levels[0], rng),
    )


def _ratio(
    reads: Reads, parts: tuple[NDArray[np.int64], NDArray[np.int64]], shift: float, rng: np.random.Generator
) -> Estimate:
    """
    Return the ratio of the levels, with an interval from days drawn anew on each side.

    Source:
        Davison & Hinkley (1997), Bootstrap Methods and their Application, section 3.8 (whole clusters).
    """
    value = float(np.exp(shift))
    drawn = np.zeros(RESAMPLES)
    for part, sign in zip(parts, (-1, 1), strict=True):
        day = np.unique(reads.days[part], return_inverse=True)[1]
        days = int(day.max()) + 1
        if days < MIN_DAYS_A_SIDE:
            return Estimate(value=value, reason=f"{counted(days, 'day')} < {MIN_DAYS_A_SIDE}")
        weights = rng.multinomial(days, np.full(days, 1 / days), RESAMPLES).astype(np.float64)
        sums, counts = (np.bincount(day, each, days) for each in (reads.relative[part], None))
        drawn += sign * (weights @ sums) / (weights @ counts)
    low, high = np.exp(np.quantile(drawn, [_TAIL, 1 - _TAIL]))
    return Estimate(value=value, low=min(float(low), value), high=max(float(high), value))

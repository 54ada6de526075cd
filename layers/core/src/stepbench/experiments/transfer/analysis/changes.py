"""Find since when rates lie on another level."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.measures import Estimate
from stepbench.contracts.transfer.result import TransferChange
from stepbench.digits import counted
from stepbench.errors import InsufficientSampleError
from stepbench.stats.change_point import find_change, local_time
from stepbench.stats.quantiles import CONFIDENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.contracts.transfer.result import TransferDependence
    from stepbench.experiments.transfer.analysis.reads import Reads
    from stepbench.stats.change_point import LevelChange

LEAST = 40
"""Fewer reads are not looked into for a change."""
MIN_DAYS = 5
BINS = 120
"""Means of so many groups of reads, one after the other, are searched: what lasts for hours shows between them."""
_PARTS = 5
"""Parts of that series for its autocorrelation: more than there usually are changes, each long enough to show it."""
WIDE = 100
"""So many reads on either side give the two levels between which a change's place is found."""
NOTABLE = 0.05
"""A smaller change of level may be sure, and is in the table; it is no answer, and makes no modes."""
DRAWS = 1_000
_TAIL = (1 - CONFIDENCE) / 2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
    if reads.n < LEAST:
        return (), f"n={reads.n} < {LEAST}"
    scores = reads.scores.copy()
    if hours.found:
        sums, counts = (np.bincount(reads.hours, weights, 24) for weights in (scores, None))
        scores -= (sums / np.maximum(counts, 1))[reads.hours]
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
    at = int(parts[1][0])
    return TransferChange(
        at=_moment(reads, at),
        earliest=_moment(reads, min(interval[0], at)),
        latest=_moment(reads, max(min(interval[1], reads.n - 1), at)),
        p_value=p_value,
        before=float(np.exp(levels[0])),
        after=float(np.exp(levels[1])),
        ratio=_ratio(reads, parts, levels[1] - levels[0], rng),
    )


def _moment(reads: Reads, place: int) -> datetime:
    return _EPOCH + timedelta(microseconds=int(reads.columns.began_at_ns[place]) // 1_000)


def _ratio(
    reads: Reads, parts: tuple[NDArray[np.int64], NDArray[np.int64]], shift: float, rng: np.random.Generator
) -> Estimate:
    """
    Return the ratio of the levels, with an interval from days drawn anew on each side.

    Source:
        Davison & Hinkley (1997), Bootstrap Methods and their Application, section 3.8 (whole clusters).
    """
    value = float(np.exp(shift))
    drawn = np.zeros(DRAWS)
    for part, sign in zip(parts, (-1, 1), strict=True):
        day = np.unique(reads.days[part], return_inverse=True)[1]
        days = int(day.max()) + 1
        if days < MIN_DAYS:
            return Estimate(value=value, reason=f"{counted(days, 'day')} < {MIN_DAYS}")
        weights = rng.multinomial(days, np.full(days, 1 / days), DRAWS).astype(np.float64)
        sums, counts = (np.bincount(day, each, days) for each in (reads.relative[part], None))
        drawn += sign * (weights @ sums) / (weights @ counts)
    low, high = np.exp(np.quantile(drawn, [_TAIL, 1 - _TAIL]))
    return Estimate(value=value, low=min(float(low), value), high=max(float(high), value))

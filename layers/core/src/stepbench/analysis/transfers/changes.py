"""Since when rates lie on another level."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.measures import Estimate
from stepbench.contracts.transfer_result import TransferChange
from stepbench.errors import InsufficientSampleError
from stepbench.stats.change_point import find_change, local_time
from stepbench.stats.quantiles import CONFIDENCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.analysis.transfers.reads import Reads
    from stepbench.contracts.transfer_result import TransferDependence
    from stepbench.stats.change_point import LevelChange

LEAST = 40
"""Fewer reads are not looked into for a change, nor are parts that former changes leave."""
MIN_DAYS = 5
_PARTS = 9
"""Of a series, for its autocorrelation: more than changes are usual, and each long enough to show it."""
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

    Ranks within cells are searched for the most likely change, with regard to their autocorrelation; then what lies
    before and behind it, until none is left. Where rates depend on the hour, each hour's mean is taken off before.

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
        by_hour = np.bincount(reads.hours, weights=scores, minlength=24) / np.maximum(
            np.bincount(reads.hours, minlength=24), 1
        )
        scores -= by_hour[reads.hours]
    time = local_time(scores, _PARTS) if reads.n >= _PARTS * LEAST else np.inf
    try:
        found = sorted(_search(scores, 0, level, time, rng), key=lambda pair: pair[0] + pair[1].bins)
    except InsufficientSampleError as shortage:
        return (), str(shortage)
    edges = [0, *(begin + change.bins for begin, change in found), reads.n]
    return tuple(
        _change(reads, begin, change, slice(edges[place], edges[place + 2]), rng)
        for place, (begin, change) in enumerate(found)
    ), None


def is_notable(change: TransferChange) -> bool:
    """Tell whether a level changes by 5 % or more."""
    return abs((change.ratio.value or 1.0) - 1) >= NOTABLE


def _search(
    scores: NDArray[np.float64], begin: int, level: float, time: float, rng: np.random.Generator
) -> Iterator[tuple[int, LevelChange]]:
    change = find_change(scores, rng, time)
    if change.p_value > level:
        return
    yield begin, change
    for part, at in ((scores[: change.bins], begin), (scores[change.bins :], begin + change.bins)):
        if part.size >= LEAST:
            try:
                yield from _search(part, at, level, time, rng)
            except InsufficientSampleError:
                continue  # it is too short to be looked into, which is what its end means


def _change(reads: Reads, begin: int, change: LevelChange, span: slice, rng: np.random.Generator) -> TransferChange:
    at, low, high = (min(begin + bins, reads.n - 1) for bins in (change.bins, change.low, change.high))
    parts = [np.arange(span.start, at), np.arange(at, span.stop)]
    levels = [float(reads.relative[part].mean()) for part in parts]
    return TransferChange(
        at=_moment(reads, at),
        earliest=_moment(reads, low),
        latest=_moment(reads, high),
        p_value=change.p_value,
        before=float(np.exp(levels[0])),
        after=float(np.exp(levels[1])),
        ratio=_ratio(reads, parts, levels[1] - levels[0], rng),
    )


def _moment(reads: Reads, place: int) -> datetime:
    return _EPOCH + timedelta(microseconds=int(reads.columns.began_at_ns[place]) // 1_000)


def _ratio(reads: Reads, parts: list[NDArray[np.int64]], shift: float, rng: np.random.Generator) -> Estimate:
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
            return Estimate(value=value, reason=f"{days} days < {MIN_DAYS}")
        weights = rng.multinomial(days, np.full(days, 1 / days), DRAWS).astype(np.float64)
        sums, counts = (np.bincount(day, each, days) for each in (reads.relative[part], None))
        drawn += sign * (weights @ sums) / (weights @ counts)
    low, high = np.exp(np.quantile(drawn, [_TAIL, 1 - _TAIL]))
    return Estimate(value=value, low=min(float(low), value), high=max(float(high), value))

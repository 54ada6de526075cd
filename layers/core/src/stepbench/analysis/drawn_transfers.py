"""From the columns of transfers to what their charts draw; pure."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.transfer import MIB, PLATFORMS, SOURCES, Platform, Source
from stepbench.contracts.transfer_drawn import (
    DrawnTransfers,
    HourLevel,
    PairPoints,
    ProgressCurve,
    ProgressKind,
    TransferCurve,
)
from stepbench.records.formats.transfer_columns import OK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from stepbench.records.formats.transfer_columns import TransferColumns

MOST_POINTS = 800
"""Of one source to one platform: more lie on one another, and make a page slow."""
MOST_STEPS = 100
"""Of a curve."""
LEAST_GAP_S = 0.5
_GAP_OVER_PACE = 10.0
"""A transfer is drawn as stalled for a gap as long as this and so many times its own pace."""
_HOUR_S, _DAY_S = 3_600, 86_400
_EPOCH_WEEKDAY = 3  # 1970-01-01 was a Thursday


def drawn_transfers(columns: TransferColumns) -> DrawnTransfers:
    """Return what the charts draw: of reads that went well."""
    reads = columns.take((columns.outcome == OK) & (columns.transfer_ns > 0))
    points: list[PairPoints] = []
    curves: list[TransferCurve] = []
    progress: list[ProgressCurve] = []
    hours: list[HourLevel] = []
    for platform, source in product(PLATFORMS, SOURCES):
        of_pair = np.nonzero((reads.platform == PLATFORMS.index(platform)) & (reads.source == SOURCES.index(source)))[0]
        of_pair = of_pair[np.argsort(reads.began_at_ns[of_pair], kind="stable")]
        if of_pair.size == 0:
            continue
        cells = _by_size(reads, of_pair)
        points.append(_points(reads, platform, source, of_pair, cells))
        curves += [_curve(reads, platform, source, size, places) for size, places in cells.items()]
        progress += _progress(reads, platform, source, cells)
        hours += _hours(reads, platform, source, of_pair, cells)
    return DrawnTransfers(points=tuple(points), curves=tuple(curves), progress=tuple(progress), hours=tuple(hours))


def _by_size(reads: TransferColumns, of_pair: NDArray[np.intp]) -> dict[int, NDArray[np.intp]]:
    sizes = _mib(reads.file_bytes[of_pair])
    return {int(size): of_pair[sizes == size] for size in np.unique(sizes)}


def _mib(file_bytes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.maximum(1, np.rint(file_bytes / MIB).astype(np.int64))


def _points(
    reads: TransferColumns,
    platform: Platform,
    source: Source,
    of_pair: NDArray[np.intp],
    cells: Mapping[int, NDArray[np.intp]],
) -> PairPoints:
    drawn = np.intersect1d(of_pair, _kept(reads, cells, of_pair.size))
    drawn = drawn[np.argsort(reads.began_at_ns[drawn], kind="stable")]
    return PairPoints(
        platform=platform,
        source=source,
        at_s=tuple(np.round(reads.began_at_ns[drawn] / 1e9).tolist()),
        file_size_mib=tuple(_mib(reads.file_bytes[drawn]).tolist()),
        seconds=tuple(_significant(reads.transfer_ns[drawn] / 1e9)),
        left_out=int(of_pair.size - drawn.size),
    )


def _kept(reads: TransferColumns, cells: Mapping[int, NDArray[np.intp]], n: int) -> NDArray[np.intp]:
    """Return a part of each size, evenly over its ranks of time: the extremes are in it, and the shape stays."""
    share = min(1.0, MOST_POINTS / n)
    kept = []
    for places in cells.values():
        ranked = places[np.argsort(reads.transfer_ns[places], kind="stable")]
        kept.append(ranked[_evenly(ranked.size, max(2, round(ranked.size * share)))])
    return np.concatenate(kept)


def _evenly(n: int, wanted: int) -> NDArray[np.intp]:
    """Return so many of `n` places, the first and the last among them; all where there are no more."""
    return np.unique(np.rint(np.linspace(0, n - 1, min(n, wanted))).astype(np.intp))


def _curve(
    reads: TransferColumns, platform: Platform, source: Source, size: int, places: NDArray[np.intp]
) -> TransferCurve:
    ordered = np.sort(reads.transfer_ns[places]) / 1e9
    drawn = _evenly(ordered.size, MOST_STEPS)
    return TransferCurve(
        platform=platform,
        source=source,
        file_size_mib=size,
        seconds=tuple(_significant(ordered[drawn])),
        probability=tuple(np.round((drawn + 1) / ordered.size, 6).tolist()),
    )


def _progress(
    reads: TransferColumns, platform: Platform, source: Source, cells: Mapping[int, NDArray[np.intp]]
) -> Iterator[ProgressCurve]:
    """Yield some transfers of the size with the most MiB between them that were told, of a large one where equal."""
    told = {size: [place for place in places if reads.marks(place).size > 1] for size, places in cells.items()}
    if not any(told.values()):
        return
    size = max(told, key=lambda each: (min(len(told[each]), 3), each))
    ranked = sorted(told[size], key=lambda place: int(reads.transfer_ns[place]))
    kinds: dict[ProgressKind, int] = {
        "fastest": ranked[0], "median": ranked[(len(ranked) - 1) // 2], "slowest": ranked[-1],
    }  # fmt: skip
    stalled = max(ranked, key=lambda place: _longest_gap_s(reads.marks(place)))
    if _stalls(reads.marks(stalled)) and stalled not in kinds.values():
        kinds["stalled"] = stalled
    seen: set[int] = set()
    for kind, place in kinds.items():
        if place not in seen:
            seen.add(place)
            yield _progress_curve(reads, platform, source, size, kind, place)


def _progress_curve(
    reads: TransferColumns, platform: Platform, source: Source, size: int, kind: ProgressKind, place: int
) -> ProgressCurve:
    at_s = reads.marks(place) / 1e9
    # Both ends of the longest gap are kept: a stall is what the chart is for.
    gap = int(np.argmax(np.diff(at_s, prepend=0.0)))
    drawn = np.unique(np.concatenate([_evenly(at_s.size, MOST_STEPS), [max(gap - 1, 0), gap]]))
    seconds = [0.0, *_significant(at_s[drawn])]
    mib = [0.0, *(drawn + 1.0)]
    last_s, whole = float(reads.transfer_ns[place]) / 1e9, float(reads.file_bytes[place]) / MIB
    if whole > mib[-1]:
        seconds, mib = [*seconds, last_s], [*mib, whole]
    return ProgressCurve(
        platform=platform,
        source=source,
        file_size_mib=size,
        kind=kind,
        began_at_s=round(float(reads.began_at_ns[place]) / 1e9),
        seconds=tuple(seconds),
        mib=tuple(mib),
    )


def _longest_gap_s(progress_ns: NDArray[np.int64]) -> float:
    return float(np.diff(progress_ns, prepend=0).max()) / 1e9


def _stalls(progress_ns: NDArray[np.int64]) -> bool:
    gaps = np.diff(progress_ns, prepend=0) / 1e9
    return bool(gaps.max() >= max(LEAST_GAP_S, _GAP_OVER_PACE * float(np.median(gaps))))


def _hours(
    reads: TransferColumns,
    platform: Platform,
    source: Source,
    of_pair: NDArray[np.intp],
    cells: Mapping[int, NDArray[np.intp]],
) -> Iterator[HourLevel]:
    relative = np.zeros(reads.transfer_ns.size)
    for places in cells.values():
        logarithms = -np.log(np.maximum(reads.transfer_ns[places], 1))
        relative[places] = logarithms - np.median(logarithms)
    at_s = reads.began_at_ns[of_pair] // 10**9
    hour = at_s % _DAY_S // _HOUR_S
    weekday = (at_s // _DAY_S + _EPOCH_WEEKDAY) % 7
    for cell in np.unique(weekday * 24 + hour):
        own = of_pair[(weekday * 24 + hour) == cell]
        yield HourLevel(
            platform=platform,
            source=source,
            weekday=int(cell) // 24,
            hour=int(cell) % 24,
            n=int(own.size),
            relative=round(float(np.exp(relative[own].mean())), 4),
        )


def _significant(values: NDArray[np.float64]) -> list[float]:
    """Return numbers with five significant digits: a page has thousands of them."""
    return [float(f"{value:.5g}") for value in values.tolist()]

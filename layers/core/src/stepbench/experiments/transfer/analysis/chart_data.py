"""Data of the charts of transfers that the findings do not have; thinned where there is much of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.transfer.plan import MIB
from stepbench.contracts.transfer.result import (
    HourLevel,
    PairPoints,
    ProgressCurve,
    ProgressKind,
    TransferChartData,
    TransferCurve,
)
from stepbench.experiments.transfer.analysis.reads import pairs_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from stepbench.experiments.transfer.analysis.reads import PairName, Reads
    from stepbench.records.formats.transfer_columns import TransferColumns

MOST_POINTS = 800
"""The most points of one source to one platform: more lie on one another, and make a page slow."""
MOST_STEPS = 100
"""The most steps of a curve."""
LEAST_GAP_S = 0.5
GAP_OVER_PACE = 10.0
"""A transfer is chosen as stalled for a gap as long as this, and so many times its own pace: see `stalls`."""
_EPOCH_WEEKDAY = 3  # 1970-01-01 was a Thursday


def transfer_chart_data(columns: TransferColumns) -> TransferChartData:
    """Return the data of the charts, of reads that went well."""
    measured = [(pair, reads.measured) for pair, reads in pairs_of(columns)]
    found = [(pair, reads, dict(reads.cells())) for pair, reads in measured if reads.n]
    return TransferChartData(
        points=tuple(_points(pair, reads) for pair, reads, _ in found),
        curves=tuple(_curve(pair, size, cell) for pair, _, cells in found for size, cell in cells.items()),
        progress=tuple(curve for pair, _, cells in found for curve in _progress(pair, cells)),
        hours=tuple(level for pair, reads, _ in found for level in _hours(pair, reads)),
    )


def _points(pair: PairName, reads: Reads) -> PairPoints:
    chosen = _spread(reads)
    return PairPoints(
        platform=pair.platform,
        source=pair.source,
        at_s=tuple(np.round(chosen.columns.began_at_ns / 1e9).tolist()),
        file_size_mib=tuple(chosen.sizes_mib.tolist()),
        seconds=tuple(_significant(chosen.seconds)),
        left_out=reads.n - chosen.n,
    )


def _spread(reads: Reads) -> Reads:
    """Return a part of each size, evenly over its ranks of time: the extremes are in it, and the shape stays."""
    share = min(1.0, MOST_POINTS / reads.n)
    kept = []
    for _, cell in reads.sizes():
        places = np.nonzero(cell)[0]
        ranked = places[np.argsort(reads.seconds[places], kind="stable")]
        kept.append(ranked[_evenly(ranked.size, max(2, round(ranked.size * share)))])
    return reads.take(np.sort(np.concatenate(kept)))


def _evenly(n: int, wanted: int) -> NDArray[np.int64]:
    """Return so many of `n` places, the first and the last among them; all where there are no more."""
    return np.unique(np.rint(np.linspace(0, n - 1, min(n, wanted))).astype(np.int64))


def _curve(pair: PairName, size_mib: int, cell: Reads) -> TransferCurve:
    chosen = _evenly(cell.n, MOST_STEPS)
    return TransferCurve(
        platform=pair.platform,
        source=pair.source,
        file_size_mib=size_mib,
        seconds=tuple(_significant(np.sort(cell.seconds)[chosen])),
        probability=tuple(np.round((chosen + 1) / cell.n, 6).tolist()),
    )


def _progress(pair: PairName, cells: Mapping[int, Reads]) -> Iterator[ProgressCurve]:
    """Yield some transfers of the largest size of which three reported progress, or else of which most did."""
    with_progress = {size: cell.take(np.diff(cell.columns.mib_offsets) > 1) for size, cell in cells.items()}
    size = max(with_progress, key=lambda each: (min(with_progress[each].n, 3), each))
    cell = with_progress[size]
    if not cell.n:
        return
    ranked = np.argsort(cell.seconds, kind="stable").tolist()
    kinds: dict[int, ProgressKind] = {ranked[0]: "fastest"}
    kinds.setdefault(ranked[-1], "slowest")
    kinds.setdefault(ranked[(len(ranked) - 1) // 2], "median")
    stalled = max(ranked, key=lambda place: float(_gaps_s(cell, place).max()))
    gaps_s = _gaps_s(cell, stalled)
    if gaps_s.max() >= max(LEAST_GAP_S, GAP_OVER_PACE * float(np.median(gaps_s))):
        kinds.setdefault(stalled, "stalled")
    order: tuple[ProgressKind, ...] = ("fastest", "median", "slowest", "stalled")
    for place, kind in sorted(kinds.items(), key=lambda each: order.index(each[1])):
        seconds, mib = _steps(cell, place)
        yield ProgressCurve(
            platform=pair.platform,
            source=pair.source,
            file_size_mib=size,
            kind=kind,
            began_at_s=round(float(cell.columns.began_at_ns[place]) / 1e9),
            seconds=seconds,
            mib=mib,
        )


def _gaps_s(cell: Reads, place: int) -> NDArray[np.float64]:
    """Return how long a transfer waited for each of its MiB, in seconds."""
    found: NDArray[np.float64] = np.diff(cell.columns.marks(place), prepend=0) / 1e9
    return found


def _steps(cell: Reads, place: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return when how many MiB were there, from nothing to the whole file."""
    at_s = cell.columns.marks(place) / 1e9
    # Both ends of the longest gap are kept: a stall is what the chart is for.
    gap = int(np.argmax(_gaps_s(cell, place)))
    chosen = np.unique(np.concatenate([_evenly(at_s.size, MOST_STEPS), [max(gap - 1, 0), gap]]))
    seconds, mib = [0.0, *_significant(at_s[chosen])], [0.0, *(chosen + 1.0).tolist()]
    whole = round(float(cell.columns.file_bytes[place]) / MIB, 3)
    if whole > mib[-1]:
        seconds, mib = [*seconds, *_significant(cell.seconds[[place]])], [*mib, whole]
    return tuple(seconds), tuple(mib)


def _hours(pair: PairName, reads: Reads) -> Iterator[HourLevel]:
    logarithms = np.log(reads.rates)
    for _, cell in reads.sizes():
        logarithms[cell] -= logarithms[cell].mean()
    of = (reads.days + _EPOCH_WEEKDAY) % 7 * 24 + reads.hours
    for hour in np.unique(of).tolist():
        yield HourLevel(
            platform=pair.platform,
            source=pair.source,
            weekday=hour // 24,
            hour=hour % 24,
            n=int(np.count_nonzero(of == hour)),
            relative=round(float(np.exp(logarithms[of == hour].mean())), 4),
        )


def _significant(values: NDArray[np.float64]) -> list[float]:
    """Return numbers with five significant digits: a page has thousands of them."""
    return [float(f"{value:.5g}") for value in values.tolist()]

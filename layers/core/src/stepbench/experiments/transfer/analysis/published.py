"""Published numbers beside what transfers show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.measures import Estimate
from stepbench.contracts.transfer.result import ScoredTransfer
from stepbench.stats.over_runs import ratio

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.transfer.plan import PublishedTransfer, Source
    from stepbench.contracts.transfer.result import TransferCell, TransferPair

NOT_MEASURED = Estimate(value=None, reason="not measured")
_EXTREMES = "of two extremes"


def score_published(
    cells: Sequence[TransferCell], pairs: Sequence[TransferPair], published: Sequence[PublishedTransfer]
) -> Iterator[ScoredTransfer]:
    """Yield each published number with ours."""
    for each in published:
        ours = _measured(cells, pairs, each, each.source)
        if each.over_source is not None:
            below = _measured(cells, pairs, each, each.over_source)
            known = ours.value is not None and below.value is not None
            ours = ratio([ours], [below]) if known else NOT_MEASURED
        yield ScoredTransfer(published=each, ours=ours, ratio=ours.over(each.value))


def _measured(
    cells: Sequence[TransferCell], pairs: Sequence[TransferPair], published: PublishedTransfer, source: Source
) -> Estimate:
    name, size = (published.platform, source), published.file_size_mib
    own = [
        cell for cell in cells if (cell.platform, cell.source) == name and cell.n and size in {None, cell.file_size_mib}
    ]
    if not own:
        return NOT_MEASURED
    if size is not None:
        return _of_cell(own[0], published.metric)
    return _of_pair(next(pair for pair in pairs if (pair.platform, pair.source) == name), own, published.metric)


def _of_cell(cell: TransferCell, metric: str) -> Estimate:
    if metric in {"slowest_over_fastest", "fastest_s", "slowest_s"}:
        if cell.n == 1:
            return Estimate(value=None, reason="not measured: one transfer")
        return _alone(getattr(cell, metric), _EXTREMES)
    found: Estimate = getattr(cell, f"{metric}_mib_per_s")
    return found


def _of_pair(pair: TransferPair, cells: Sequence[TransferCell], metric: str) -> Estimate:
    match metric:
        case "slowest_over_fastest":
            found = pair.slowest_over_fastest
            return _alone(found, "not measured: one transfer of each size" if found is None else _EXTREMES)
        case "plateau_from_mib" | "plateau_mib_per_s":
            found = getattr(pair.plateau, metric.removeprefix("plateau_"))
            return _alone(found, pair.plateau.reason or ("no plateau" if found is None else "of sizes' means"))
        case "modes":
            judged = len(pair.modes.modes) if pair.modes.found else 1
            return _alone(None if pair.modes.reason else judged, pair.modes.reason or "a count")
        case _:
            whole = sum(cell.n * (cell.mean_mib_per_s.value or 0) for cell in cells)
            return _alone(whole / sum(cell.n for cell in cells), "of all sizes as they were drawn")


def _alone(value: float | None, reason: str) -> Estimate:
    """Return a number without an interval."""
    return Estimate(value=value, reason=reason)

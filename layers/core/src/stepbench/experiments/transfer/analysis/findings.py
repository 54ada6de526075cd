"""All that transfers show, of one trial, or of a dataset over a span."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.transfer.result import TransferAccounting, TransferFindings, TransferPair
from stepbench.experiments.transfer.analysis import family
from stepbench.experiments.transfer.analysis.answers import answer
from stepbench.experiments.transfer.analysis.calendar_levels import depend_on_hour, depend_on_weekday
from stepbench.experiments.transfer.analysis.cells import describe_cell
from stepbench.experiments.transfer.analysis.changes import find_changes
from stepbench.experiments.transfer.analysis.modes import find_modes, find_steady
from stepbench.experiments.transfer.analysis.plateau import find_plateau
from stepbench.experiments.transfer.analysis.reads import pairs_of
from stepbench.experiments.transfer.analysis.sandboxes import compare_sandboxes
from stepbench.experiments.transfer.analysis.variance import split_variance
from stepbench.model.errors import most_frequent
from stepbench.records.formats.transfer_columns import FAILED, OK, UNKNOWN, UNTOLD

if TYPE_CHECKING:
    from stepbench.contracts.transfer.result import TransferCell
    from stepbench.experiments.transfer.analysis.reads import PairName, Reads
    from stepbench.records.formats.transfer_columns import TransferColumns

SEED = 7


def find_transfers(
    columns: TransferColumns, *, offered: int | None = None, seed: int = SEED, cold_only: bool = False
) -> TransferFindings:
    """
    Return what transfers show; the same for the same rows, in whatever order they are.

    Args:
        columns: all rows of the trial, or of the dataset over the span, each read once.
        offered: how many reads were to be made; None where nobody knows.
        seed: for resamples.
        cold_only: whether reads of sandboxes that had served before are counted, and not measured.
    """
    found = list(pairs_of(columns.take(columns.cold != 0) if cold_only else columns))
    described = [
        _describe(name, reads, np.random.default_rng((seed, place)), len(found))
        for place, (name, reads) in enumerate(found)
    ]
    cells = tuple(cell for of_pair, _ in described for cell in of_pair)
    pairs = tuple(pair for _, pair in described)
    began_ns = columns.began_at_ns
    return TransferFindings(
        n=columns.size,
        begin=_moment(int(began_ns.min())) if columns.size else None,
        end=_moment(int(began_ns.max())) if columns.size else None,
        accounting=_account(columns, offered),
        cells=cells,
        pairs=pairs,
        sandboxes=tuple(compare_sandboxes(found)),
        answers=answer(cells, pairs),
    )


def _account(columns: TransferColumns, offered: int | None) -> TransferAccounting:
    """
    Count outcomes, starts and digests.

    Args:
        columns: all rows; of a process that was tried twice, those of one attempt.
        offered: how many reads were to be made; None where nobody knows.
    """
    errors = Counter(columns.error.table[code] for code in columns.error.codes[columns.outcome != OK].tolist())
    return TransferAccounting(
        offered=offered,
        ok=_count(columns.outcome == OK),
        failed=_count(columns.outcome == FAILED),
        unknown=_count(columns.outcome == UNKNOWN),
        missing=None if offered is None else max(offered - columns.size, 0),
        cold=_count(columns.cold == 1),
        warm=_count(columns.cold == 0),
        unknown_start=_count(columns.cold == UNTOLD),
        wrong_digest=_count(columns.digest_ok == 0),
        untold_digest=_count(columns.digest_ok == UNTOLD),
        errors=most_frequent(errors),
    )


def _count(chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int:
    return int(np.count_nonzero(chosen))


def _describe(
    name: PairName, reads: Reads, rng: np.random.Generator, pairs: int
) -> tuple[tuple[TransferCell, ...], TransferPair]:
    """Return the cells of a pair, and what they show together; `pairs` share the error."""
    measured, tried = reads.measured, list(reads.cells())
    hours = depend_on_hour(measured, family.HOURS / pairs, rng)
    changes, reason = find_changes(measured, hours, family.CHANGES / pairs, rng)
    steady = find_steady(measured, changes, hours)
    chosen = [steady.choose(cell.measured) for _, cell in tried]
    of_cells, together = find_modes(chosen, family.MODES / pairs, rng)
    cells = tuple(
        describe_cell(name, size, cell, modes, rng) for (size, cell), modes in zip(tried, of_cells, strict=True)
    )
    ratios = [cell.slowest_over_fastest for cell in cells if cell.slowest_over_fastest is not None]
    return cells, TransferPair(
        platform=name.platform,
        source=name.source,
        n=measured.n,
        slowest_over_fastest=float(np.mean(ratios)) if ratios else None,
        plateau=find_plateau(cells),
        hours=hours,
        weekdays=depend_on_weekday(measured, family.WEEKDAYS / pairs, rng),
        changes=changes,
        changes_reason=reason,
        modes=together,
        variance=split_variance(measured),
    )


def _moment(at_ns: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_ns // 1_000)

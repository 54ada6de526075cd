"""All that transfers show, of one trial, or of a dataset over a span."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.transfer.result import TransferAccounting, TransferFindings, TransferPair
from stepbench.digits import counted, listed, rounded
from stepbench.experiments.transfer.analysis.cells import describe_cell
from stepbench.experiments.transfer.analysis.dependence import compare_sandboxes, find_plateau, split_variance
from stepbench.experiments.transfer.analysis.levels import depend_on_hour, depend_on_weekday, find_changes, is_notable
from stepbench.experiments.transfer.analysis.modes import (
    CHANGES_ERROR,
    HOURS_ERROR,
    MODES_ERROR,
    WEEKDAYS_ERROR,
    find_modes,
    find_steady,
)
from stepbench.experiments.transfer.analysis.published import score_published
from stepbench.experiments.transfer.analysis.reads import moment_of, pairs_of
from stepbench.experiments.transfer.words import NAMES
from stepbench.model.errors import most_frequent
from stepbench.records.formats.transfer_columns import FAILED, OK, UNKNOWN, UNTOLD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.transfer.plan import PublishedTransfer
    from stepbench.contracts.transfer.result import TransferCell, TransferDependence
    from stepbench.experiments.transfer.analysis.reads import PairName, Reads
    from stepbench.records.formats.transfer_columns import TransferColumns


WEEKDAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")
LEAST_OF_TEN = 10
SHOWN_MIB = 500
"""The size that the source gives as its example; without it, the largest below it, or the smallest."""


def answer(cells: Sequence[TransferCell], pairs: Sequence[TransferPair]) -> tuple[str, ...]:
    """Return how long a transfer takes from each source to each platform, then all that was found, pair by pair."""
    of_pairs = [
        ([cell for cell in cells if (cell.platform, cell.source) == (pair.platform, pair.source) and cell.n], pair)
        for pair in pairs
    ]
    first = [_describe_time(own) for own, _ in of_pairs if own]
    return (*first, *(line for own, pair in of_pairs for line in _describe_findings(own, pair)))


def _name(of: TransferCell | TransferPair) -> str:
    return f"from {NAMES[of.source]} to {NAMES[of.platform]}"


def _describe_time(cells: Sequence[TransferCell]) -> str:
    cell = next((cell for cell in reversed(cells) if cell.file_size_mib <= SHOWN_MIB), cells[0])
    file = f"A {cell.file_size_mib} MiB file {_name(cell)}"
    if cell.n == 1:
        return f"{file} took {_time(cell.p50_s.value)}, the one time that it was read."
    if cell.n < LEAST_OF_TEN:
        return (
            f"{file} took {_time(cell.p50_s.value)} in half of {counted(cell.n, 'case')}, "
            f"and {_time(cell.slowest_s)} at the most."
        )
    parts = [f"{_time(cell.p50_s.value)} in half the cases", f"above {_time(cell.p90_s.value)} in one of ten"]
    if cell.p99_s.low is not None:
        parts.append(f"above {_time(cell.p99_s.value)} in one of a hundred")
    few = f" (of {counted(cell.n, 'transfer')} only)" if cell.p90_s.low is None else ""
    return f"{file} takes {listed(parts)}{few}."


def _time(measured_s: float | None) -> str:
    seconds = measured_s or 0.0
    return f"{rounded(seconds, 2)} s" if seconds >= 1 else f"{rounded(1_000 * seconds, 2)} ms"


def _describe_findings(cells: Sequence[TransferCell], pair: TransferPair) -> Iterator[str]:
    name = _name(pair)
    if pair.slowest_over_fastest is not None:
        times = rounded(pair.slowest_over_fastest, 3)
        yield f"The slowest transfer {name} takes {times} × the fastest one's time, in the mean over sizes."  # noqa: RUF001
    if pair.modes.found:
        places = [f"{rounded(mode.mib_per_s, 2)} MiB/s ({rounded(100 * mode.share, 2)} %)" for mode in pair.modes.modes]
        yield f"Rates {name} lie about {listed(places)}."
    plateau = pair.plateau
    if plateau.rises and plateau.from_mib is not None and plateau.mib_per_s is not None:
        limit = ", which may be the reading process's own limit" if plateau.client_limit else ""
        rate = rounded(plateau.mib_per_s, 2)
        yield f"The rate {name} rises with the size up to {plateau.from_mib} MiB, to {rate} MiB/s{limit}."
    hours = [f"{hour} h UTC" for hour in range(24)]
    yield from _describe_dependence(pair.hours, f"Rates {name} depend on the hour", hours)
    yield from _describe_dependence(pair.weekdays, f"Rates {name} depend on the weekday", WEEKDAYS)
    for change in filter(is_notable, pair.changes):
        times = rounded(change.ratio.value or 1.0, 2)
        yield f"Since {change.at:%Y-%m-%d %H:%M} UTC, rates {name} are {times} × what they were before."  # noqa: RUF001
    judged, stood = sum(cell.stalls.judged for cell in cells), sum(cell.stalls.transfers for cell in cells)
    if stood:
        share, most_s = rounded(100 * stood / judged, 2), max(cell.stalls.longest_s or 0 for cell in cells)
        yield f"Of the transfers {name}, {share} % stood still in between, for {rounded(most_s, 2)} s at most."


def _describe_dependence(found: TransferDependence, begin: str, names: Sequence[str]) -> Iterator[str]:
    if not found.found:
        return
    levels = [level for level in found.levels if level.differs and level.relative is not None]
    shown = [f"{rounded(level.relative or 0, 2)} of the usual at {names[level.at]}" for level in levels]
    yield f"{begin}: {listed(shown)}." if shown else f"{begin}, though none stands out."


SEED = 7


def find_transfers(
    columns: TransferColumns,
    *,
    offered: int | None = None,
    seed: int = SEED,
    cold_only: bool = False,
    published: Sequence[PublishedTransfer] = (),
) -> TransferFindings:
    """
    Return what transfers show; the same for the same rows, in whatever order they are.

    Args:
        columns: all rows of the trial, or of the dataset over the span, each read once.
        offered: how many reads were to be made; None where nobody knows.
        seed: for resamples.
        cold_only: whether reads of sandboxes that had served before are counted, and not measured.
        published: numbers of others, to be set beside.
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
        begin=moment_of(int(began_ns.min())) if columns.size else None,
        end=moment_of(int(began_ns.max())) if columns.size else None,
        accounting=_account(columns, offered),
        cells=cells,
        pairs=pairs,
        sandboxes=tuple(compare_sandboxes(found)),
        answers=answer(cells, pairs),
        published=tuple(score_published(cells, pairs, published)),
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
        ok=int((columns.outcome == OK).sum()),
        failed=int((columns.outcome == FAILED).sum()),
        unknown=int((columns.outcome == UNKNOWN).sum()),
        missing=None if offered is None else max(offered - columns.size, 0),
        cold=int((columns.cold == 1).sum()),
        warm=int((columns.cold == 0).sum()),
        unknown_start=int((columns.cold == UNTOLD).sum()),
        wrong_digest=int((columns.digest_ok == 0).sum()),
        untold_digest=int((columns.digest_ok == UNTOLD).sum()),
        errors=most_frequent(errors),
    )


def _describe(
    name: PairName, reads: Reads, rng: np.random.Generator, pairs: int
) -> tuple[tuple[TransferCell, ...], TransferPair]:
    """Return the cells of a pair, and what they show together; `pairs` share the error."""
    measured, tried = reads.measured, list(reads.cells())
    hours = depend_on_hour(measured, HOURS_ERROR / pairs, rng)
    changes, reason = find_changes(measured, hours, CHANGES_ERROR / pairs, rng)
    steady = find_steady(measured, changes, hours)
    chosen = [steady.choose(cell.measured) for _, cell in tried]
    of_cells, together = find_modes(chosen, MODES_ERROR / pairs, rng)
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
        weekdays=depend_on_weekday(measured, WEEKDAYS_ERROR / pairs, rng),
        changes=changes,
        changes_reason=reason,
        modes=together,
        variance=split_variance(measured),
    )

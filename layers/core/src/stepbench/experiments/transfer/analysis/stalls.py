"""Transfers that stood still: a wait within them that is long in itself, and beside their own pace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.contracts.transfer.result import TransferStalls
from stepbench.records.formats.transfer_columns import UNTOLD
from stepbench.stats.intervals import share

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepbench.experiments.transfer.analysis.reads import Reads

    Integers = NDArray[np.int64]

LEAST_NS = 500_000_000
"""Shorter waits are no stalls: a lost packet's first time-out and a busy host cause them."""
TIMES_PACE = 10
"""A wait of so many times what the transfer takes for a MiB is no part of its pace."""
OWN_PACE = 4
"""A transfer of at least so many MiB has its own median as its pace."""
TIMES_SLOW = 3
"""A shorter transfer is judged by its cell: so many times what only a tenth of its waits exceeds."""
_SLOW = 0.9


@dataclass(frozen=True)
class _Waits:
    """All waits for a MiB of a cell, by read, and each read's wait for its first byte (UNTOLD where it is)."""

    reads: Integers
    mib_ns: Integers
    first_ns: Integers


class Stalls(NamedTuple):
    """They are the stalls of a cell: whose each is, and how long; and which reads could be judged, shape (n,)."""

    reads: Integers
    length_ns: Integers
    judged: NDArray[np.bool_]

    def summary(self) -> TransferStalls:
        """Return what a report shows of them."""
        n, transfers, length_s = int(np.count_nonzero(self.judged)), np.unique(self.reads).size, self.length_ns / 1e9
        return TransferStalls(
            judged=n,
            stalls=length_s.size,
            transfers=transfers,
            share=share(transfers, n),
            median_s=float(np.median(length_s)) if length_s.size else None,
            longest_s=float(length_s.max()) if length_s.size else None,
        )


def find_stalls(cell: Reads) -> Stalls:
    """
    Return the stalls of a cell's measured reads.

    A wait for a MiB is a stall if it takes 0.5 s or more, and ten times the median of that transfer; one of a transfer
    of fewer than four MiB, if it takes 0.5 s or more and three times the cell's p90, since there may be a slow mode. A
    wait for the first byte is one if it takes 0.5 s or more and ten times the cell's median wait for it; where a first
    byte is untold, that is a part of the wait for the first MiB.
    """
    waits = _read_waits(cell)
    known = waits.first_ns[waits.first_ns != UNTOLD]
    first_limit = max(LEAST_NS, TIMES_PACE * float(np.median(known))) if known.size else np.inf
    late = np.nonzero(waits.first_ns >= first_limit)[0]
    reads, stalls_ns = _long_waits(waits)
    judged = (np.diff(cell.columns.mib_offsets) > 0) | (waits.first_ns != UNTOLD)
    return Stalls(np.concatenate([late, reads]), np.concatenate([waits.first_ns[late], stalls_ns]), judged)


def _read_waits(cell: Reads) -> _Waits:
    columns = cell.columns
    lengths = np.diff(columns.mib_offsets)
    reads = np.repeat(np.arange(columns.size), lengths)
    before = np.roll(columns.mib_ns, 1)
    starts = columns.mib_offsets[:-1][lengths > 0]
    before[starts] = np.maximum(columns.first_byte_ns[lengths > 0], 0)
    return _Waits(reads, columns.mib_ns - before, columns.first_byte_ns)


def _long_waits(waits: _Waits) -> tuple[Integers, Integers]:
    """Return whose waits for a MiB are stalls, and how long they are."""
    candidates = np.nonzero(waits.mib_ns >= LEAST_NS)[0]
    if not candidates.size:
        return candidates, candidates
    whose = waits.reads[candidates]
    limits = np.full(candidates.size, TIMES_SLOW * float(np.quantile(waits.mib_ns, _SLOW)))
    for read in np.unique(whose).tolist():
        begin, end = np.searchsorted(waits.reads, [read, read + 1])
        if end - begin >= OWN_PACE:
            limits[whose == read] = TIMES_PACE * float(np.median(waits.mib_ns[begin:end]))
    stalls = waits.mib_ns[candidates] >= limits
    return whose[stalls], waits.mib_ns[candidates][stalls]

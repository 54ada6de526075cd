"""What transfers of one size show: rates, times, first bytes, and what to think of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.contracts.measures import Estimate
from stepbench.contracts.transfer.plan import MIB, SOURCES
from stepbench.contracts.transfer.result import TransferCaveat, TransferCell, TransferStalls
from stepbench.records.formats.transfer_columns import FAILED, UNKNOWN, UNTOLD
from stepbench.stats.dependence import NOTHING, DependentSeries
from stepbench.stats.over_runs import share_interval
from stepbench.stats.quantiles import min_sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.contracts.transfer.result import TransferModes
    from stepbench.experiments.transfer.analysis.reads import Floats, PairName, Reads
    from stepbench.records.formats.transfer_columns import TransferColumns

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
            share=share_interval(transfers, n) if n else Estimate(value=None, reason=NOTHING),
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
    first_ns = cell.columns.first_byte_ns
    known = first_ns != UNTOLD
    first_limit = max(LEAST_NS, TIMES_PACE * float(np.median(first_ns[known]))) if known.any() else np.inf
    late = np.nonzero(first_ns >= first_limit)[0]
    reads, stalls_ns = _long_waits(cell.columns)
    judged = (np.diff(cell.columns.mib_offsets) > 0) | known
    return Stalls(np.concatenate([late, reads]), np.concatenate([first_ns[late], stalls_ns]), judged)


def _long_waits(columns: TransferColumns) -> tuple[Integers, Integers]:
    """Return whose waits for a MiB are stalls, and how long they are."""
    lengths, begins = np.diff(columns.mib_offsets), columns.mib_offsets[:-1]
    before_ns = np.roll(columns.mib_ns, 1)
    before_ns[begins[lengths > 0]] = np.maximum(columns.first_byte_ns[lengths > 0], 0)
    waits_ns = columns.mib_ns - before_ns
    candidates = np.nonzero(waits_ns >= LEAST_NS)[0]
    if not candidates.size:
        return candidates, candidates
    whose = np.repeat(np.arange(columns.size), lengths)[candidates]
    limits = np.full(candidates.size, TIMES_SLOW * float(np.quantile(waits_ns, _SLOW)))
    for read in np.unique(whose).tolist():
        if lengths[read] >= OWN_PACE:
            own = waits_ns[begins[read] : begins[read] + lengths[read]]
            limits[whose == read] = TIMES_PACE * float(np.median(own))
    stalls = waits_ns[candidates] >= limits
    return whose[stalls], waits_ns[candidates][stalls]


BUSY = 0.8
"""A process that uses so much of a CPU while it waits for bytes may be what holds them up."""


def describe_cell(
    pair: PairName, size_mib: int, tried: Reads, modes: TransferModes, rng: np.random.Generator
) -> TransferCell:
    """Return all that a cell shows; `tried` are its reads of all outcomes, by time."""
    cell = tried.measured
    first_ns = cell.columns.first_byte_ns
    rates, seconds, first_ms = (
        DependentSeries(values, cell.sandbox_count)
        for values in (cell.rates, cell.seconds, first_ns[first_ns != UNTOLD] / 1e6)
    )
    fastest, slowest = (float(seconds.ascending[place]) if cell.n else None for place in (0, -1))
    return TransferCell(
        platform=pair.platform,
        source=pair.source,
        file_size_mib=size_mib,
        n=cell.n,
        failed=int(np.count_nonzero(tried.columns.outcome == FAILED)),
        unknown=int(np.count_nonzero(tried.columns.outcome == UNKNOWN)),
        mean_mib_per_s=rates.mean(),
        median_mib_per_s=rates.quantile(0.5),
        p5_mib_per_s=rates.quantile(0.05),
        p95_mib_per_s=rates.quantile(0.95),
        p95_over_p5=rates.quantile_ratio(0.95, 0.05, rng),
        p50_s=seconds.quantile(0.5),
        p90_s=seconds.quantile(0.9),
        p99_s=seconds.quantile(0.99),
        fastest_s=fastest,
        slowest_s=slowest,
        slowest_over_fastest=slowest / fastest if fastest and slowest and cell.n > 1 else None,
        variation=_variation(cell.rates),
        first_byte_p50_ms=first_ms.quantile(0.5),
        first_byte_p95_ms=first_ms.quantile(0.95),
        steady_mib_per_s=DependentSeries(steady_rates(cell), cell.sandbox_count).quantile(0.5),
        cpu_share=cpu_share(cell),
        modes=modes,
        stalls=find_stalls(cell).summary(),
        caveats=tuple(_caveats(tried, rates)),
    )


def steady_rates(cell: Reads) -> Floats:
    """
    Return rates after the first byte, in MiB/s, of measured reads whose first byte has a time.

    What came with the first byte counts, though its time does not: of a small file that arrives at once, little is
    left, and a file that is there with its first byte has no such rate.
    """
    first_ns, whole_ns = cell.columns.first_byte_ns, cell.columns.transfer_ns
    chosen = (first_ns != UNTOLD) & (whole_ns > first_ns)
    rates: Floats = cell.columns.file_bytes[chosen] / MIB / ((whole_ns - first_ns)[chosen] / 1e9)
    return rates


def cpu_share(cell: Reads) -> float | None:
    """Return the median of CPU time over the transfer's; None where it is untold."""
    chosen = cell.columns.cpu_ns != UNTOLD
    shares = cell.columns.cpu_ns[chosen] / cell.columns.transfer_ns[chosen]
    return float(np.median(shares)) if shares.size else None


def _variation(rates: Floats) -> float | None:
    """Return the coefficient of variation; of one value there is none."""
    return float(rates.std(ddof=1) / rates.mean()) if rates.size > 1 else None


def _caveats(tried: Reads, rates: DependentSeries) -> Iterator[TransferCaveat]:
    cell = tried.measured
    if rates.effective_size(0.05, 0.95) < min_sample(0.95):
        yield "few"
    if rates.dependent:
        yield "dependent"
    cached = cell.columns.cached_share
    unknown = np.isnan(cached) & (cell.columns.source == SOURCES.index("efs"))
    if ((cell.columns.cold != 1) | unknown).any():
        yield "warm"
    if (np.nan_to_num(cached) > 0).any():
        yield "cached"
    if (tried.columns.digest_ok == 0).any():
        yield "wrong_digest"
    if (cpu_share(cell) or 0) >= BUSY:
        yield "client_limit"
    if cell.n < tried.n:
        yield "unfinished"

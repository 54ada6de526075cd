"""What transfers of one size show: rates, times, first bytes, and what to think of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.transfer.plan import MIB
from stepbench.contracts.transfer.result import TransferCaveat, TransferCell
from stepbench.experiments.transfer.analysis.reads import known_values
from stepbench.experiments.transfer.analysis.stalls import find_stalls
from stepbench.records.formats.transfer_columns import FAILED, UNKNOWN, UNTOLD
from stepbench.stats.intervals import Series
from stepbench.stats.quantiles import min_sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.transfer.result import TransferModes
    from stepbench.experiments.transfer.analysis.reads import Floats, PairName, Reads

BUSY = 0.8
"""A process that uses so much of a CPU while it waits for bytes may be what holds them up."""


def describe_cell(
    pair: PairName, size_mib: int, tried: Reads, modes: TransferModes, rng: np.random.Generator
) -> TransferCell:
    """Return all that a cell shows; `tried` are its reads of all outcomes, by time."""
    cell = tried.measured
    rates, seconds, first_ms = (
        Series(values, cell.sandbox_count)
        for values in (cell.rates, cell.seconds, known_values(cell.columns.first_byte_ns) / 1e6)
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
        slowest_over_fastest=slowest / fastest if fastest and slowest else None,
        variation=_variation(cell.rates),
        first_byte_p50_ms=first_ms.quantile(0.5),
        first_byte_p95_ms=first_ms.quantile(0.95),
        steady_mib_per_s=Series(steady_rates(cell), cell.sandbox_count).quantile(0.5),
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


def _caveats(tried: Reads, rates: Series) -> Iterator[TransferCaveat]:
    cell = tried.measured
    if rates.effective_size(0.05, 0.95) < min_sample(0.95):
        yield "few"
    if rates.dependent:
        yield "dependent"
    if (cell.columns.cold != 1).any():
        yield "warm"
    if (np.nan_to_num(cell.columns.cached_share) > 0).any():
        yield "cached"
    if (tried.columns.digest_ok == 0).any():
        yield "wrong_digest"
    if (cpu_share(cell) or 0) >= BUSY:
        yield "client_limit"
    if cell.n < tried.n:
        yield "unfinished"

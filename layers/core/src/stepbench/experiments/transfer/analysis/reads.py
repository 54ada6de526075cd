"""Reads that have a rate: those that were ok, by platform, source and size."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.contracts.transfer.plan import MIB, PLATFORMS, SOURCES
from stepbench.records.formats.transfer_columns import OK, UNTOLD
from stepbench.stats import dependence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.contracts.transfer.plan import Platform, Source
    from stepbench.records.formats.transfer_columns import TransferColumns

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

HOUR_NS, DAY_NS = 3_600 * 10**9, 86_400 * 10**9


class PairName(NamedTuple):
    """It is a platform, and a source that was read there."""

    platform: Platform
    source: Source


@dataclass(frozen=True)
class Reads:
    """Reads of one platform and source, by time; all that were tried, of which `measured` have a rate."""

    columns: TransferColumns

    @cached_property
    def sizes_mib(self) -> Integers:
        """Return the size of each file, in MiB, at least 1; shape (n,)."""
        found: Integers = np.maximum(np.rint(self.columns.file_bytes / MIB), 1).astype(np.int64)
        return found

    @cached_property
    def measured(self) -> Reads:
        """Return those that were ok and have a time."""
        return Reads(self.columns.take((self.columns.outcome == OK) & (self.columns.transfer_ns > 0)))

    @property
    def n(self) -> int:
        """Return how many there are."""
        return self.columns.size

    @cached_property
    def seconds(self) -> Floats:
        """Return how long each took; of measured reads only."""
        return self.columns.transfer_ns / 1e9

    @cached_property
    def rates(self) -> Floats:
        """Return the rate of each, in MiB/s; of measured reads only."""
        return self.columns.file_bytes / MIB / self.seconds

    @cached_property
    def relative(self) -> Floats:
        """Return the logarithm of each rate over the median of its cell."""
        found = np.log(self.rates)
        for _, cell in self.sizes():
            found[cell] -= np.median(found[cell])
        return found

    @cached_property
    def scores(self) -> Floats:
        """
        Return each rate's rank within its cell, between 0 and 1: alike whatever the cell's level, spread and shape.

        Source:
            Hodges & Lehmann (1962), Annals of Mathematical Statistics 33(2) (ranks after alignment of blocks).
        """
        found = np.empty(self.n)
        for _, cell in self.sizes():
            found[cell] = (dependence.ranks(self.rates[cell]) - 0.5) / np.count_nonzero(cell)
        return found

    @cached_property
    def days(self) -> Integers:
        """Return the day of each since the epoch, UTC."""
        return self.columns.began_at_ns // DAY_NS

    @cached_property
    def hours(self) -> Integers:
        """Return the hour of the day of each, UTC."""
        return self.columns.began_at_ns % DAY_NS // HOUR_NS

    @cached_property
    def sandboxes(self) -> Integers | None:
        """Return which sandbox each was in, as codes; None where that of one of them is untold."""
        codes, table = self.columns.sandbox
        untold = table.index("") if "" in table else UNTOLD
        return None if not codes.size or (codes == untold).any() else codes

    @cached_property
    def sandbox_count(self) -> int:
        """Return from how many sandboxes they are; from as many as there are reads where it is untold."""
        return self.n if self.sandboxes is None else np.unique(self.sandboxes).size

    @cached_property
    def one_a_sandbox(self) -> Reads:
        """Return the first read of each sandbox."""
        if self.sandboxes is None or self.sandbox_count == self.n:
            return self
        return self.take(np.sort(np.unique(self.sandboxes, return_index=True)[1]))

    def take(self, chosen: NDArray[np.bool_] | Integers) -> Reads:
        """Return some of them."""
        return Reads(self.columns.take(chosen))

    def sizes(self) -> Iterator[tuple[int, NDArray[np.bool_]]]:
        """Yield each size, the smallest first, and which reads are of it."""
        for size in np.unique(self.sizes_mib).tolist():
            yield size, self.sizes_mib == size

    def cells(self) -> Iterator[tuple[int, Reads]]:
        """Yield those of each size, the smallest first."""
        yield from ((size, self.take(cell)) for size, cell in self.sizes())


def pairs_of(columns: TransferColumns) -> Iterator[tuple[PairName, Reads]]:
    """Yield the reads of each platform and source that there are any of, by time, in the order of the contract."""
    by_time = columns.take(np.argsort(columns.began_at_ns, kind="stable"))
    for platform, platform_name in enumerate(PLATFORMS):
        for source, source_name in enumerate(SOURCES):
            chosen = (by_time.platform == platform) & (by_time.source == source)
            if chosen.any():
                yield PairName(platform_name, source_name), Reads(by_time.take(chosen))


def moment_of(at_ns: int) -> datetime:
    """Return a time that a column has, in whole microseconds."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_ns // 1_000)

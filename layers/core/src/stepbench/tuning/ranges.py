"""
The ranges in which the five parameters are searched, and what is advised for them.

No ranges are published: these are ours. They lie within what the contract admits, depend on the machine as the
published advice does, and reach beyond it on both sides.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from stepbench.contracts.tuning import (
    CLEANUP,
    COMPACTORS,
    FILE_CACHE_MIB,
    RELEASED,
    RESTARTED_FOR,
    WRITES,
    CassandraConfiguration,
    Compaction,
)

STRATEGIES: tuple[Compaction, ...] = ("STCS", "LCS", "UCS")
"""The strategy for time series is left out: no read asks for a DAG's blobs in order of time."""
CACHE_STEP_MIB = 32


class Ranges(NamedTuple):
    """Both ends included. Writes and compactors are searched on a logarithmic scale, the cache in steps."""

    compaction: tuple[Compaction, ...]
    concurrent_writes: tuple[int, int]
    file_cache_mib: tuple[int, int]
    memtable_cleanup_threshold: tuple[float, float]
    concurrent_compactors: tuple[int, int]


def ranges_for(cores: int, heap_mib: int) -> Ranges:
    """
    Return the ranges on such a machine.

    Writes from two to 64 a core (advised: 8), the cache up to half of the heap (advised: a quarter, 512 MiB at most),
    compactors from one in all to eight a core (advised: two at least).
    """
    return Ranges(
        STRATEGIES,
        (_within(2 * cores, WRITES), _within(64 * cores, WRITES)),
        (FILE_CACHE_MIB[0], _within(heap_mib // 2, FILE_CACHE_MIB) // CACHE_STEP_MIB * CACHE_STEP_MIB),
        CLEANUP,
        (1, _within(8 * cores, COMPACTORS)),
    )


def advised(cores: int, heap_mib: int) -> CassandraConfiguration:
    """
    Return the configuration that is advised for a machine with one disk that does not turn, whatever is asked of it.

    Source:
        Shankar et al. (2023), Asgard, section 2.4; size-tiered compaction is what Cassandra is released with.
    """
    return CassandraConfiguration(
        compaction="STCS",
        concurrent_writes=_within(8 * cores, WRITES),
        file_cache_mib=_within(min(heap_mib // 4, 512), FILE_CACHE_MIB),
        memtable_cleanup_threshold=0.33,
        concurrent_compactors=2,
    )


def needs_restart(old: CassandraConfiguration | None, new: CassandraConfiguration | None) -> bool:
    """Return whether a node of the old configuration has to be started anew for the new one."""
    before, after = old or RELEASED, new or RELEASED
    return any(getattr(before, name) != getattr(after, name) for name in RESTARTED_FOR)


def squared_distance(one: CassandraConfiguration | None, other: CassandraConfiguration | None) -> float:
    """Return how far apart two configurations are, squared; ends of a parameter are 1 apart, strategies too."""
    first, second = one or RELEASED, other or RELEASED
    places = zip(_places(first), _places(second), strict=True)
    return float(first.compaction != second.compaction) + sum((here - there) ** 2 for here, there in places)


def _places(configuration: CassandraConfiguration) -> tuple[float, ...]:
    """Return where the numbers are between the ends that the contract admits; a cache that is off is half the least."""
    least = FILE_CACHE_MIB[0] / 2
    low, high = CLEANUP
    return (
        _log_place(configuration.concurrent_writes, *WRITES),
        _log_place(max(configuration.file_cache_mib, least), least, FILE_CACHE_MIB[1]),
        (configuration.memtable_cleanup_threshold - low) / (high - low),
        _log_place(configuration.concurrent_compactors, *COMPACTORS),
    )


def _log_place(value: float, low: float, high: float) -> float:
    return math.log(value / low) / math.log(high / low)


def _within(value: int, bounds: tuple[int, int]) -> int:
    return max(bounds[0], min(bounds[1], value))

"""
How Cassandra is configured: the five parameters that are tuned, what a node has, and what a change of them took.

Their published advice: concurrent writes eight a core; the file cache a quarter of the heap, 512 MiB at most; the
memtable's clean-up threshold from 0.11 (disks that turn) to 0.33 (that do not); compactors as many as disks or cores,
whichever are fewer, from 2 to 8 a core. No ranges were published with it: those here are ours.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stepbench.contracts.base import Contract

Compaction = Literal["STCS", "LCS", "TWCS", "UCS"]
"""Size-tiered, levelled, by time windows, unified: how files are merged."""
WRITES, FILE_CACHE_MIB, CLEANUP, COMPACTORS = (2, 256), (64, 1_024), (0.05, 0.6), (1, 16)
"""From where to where parameters may be set, both included."""
NODE_SETTINGS = (
    "concurrent_compactors",
    "concurrent_writes",
    "file_cache_enabled",
    "file_cache_size",
    "memtable_cleanup_threshold",
)
"""What tuning writes into cassandra.yaml, for which a node is started anew."""
COMMANDS = ("setconcurrentcompactors", "setconcurrency")
"""What tuning asks nodetool for, while the node runs."""

RESTARTED_FOR = ("file_cache_mib", "memtable_cleanup_threshold")
"""Of the parameters, those for which a node is started anew; the others change while it runs."""


class CassandraConfiguration(Contract):
    """
    The parameters that are tuned together; the first two and the last change while the node runs.

    For the file cache and the threshold it is started anew.
    """

    compaction: Compaction = Field(description="The strategy of the trial's tables.")
    concurrent_writes: int = Field(ge=WRITES[0], le=WRITES[1], description="Threads that apply writes.")
    file_cache_mib: int = Field(
        ge=FILE_CACHE_MIB[0],
        le=FILE_CACHE_MIB[1],
        description="Memory for pieces of files, 32 MiB of it for buffers. Switches it on: as released it is off.",
    )
    memtable_cleanup_threshold: float = Field(
        ge=CLEANUP[0],
        le=CLEANUP[1],
        description="Share of the memtables' memory at which the largest is written to disk.",
    )
    concurrent_compactors: int = Field(ge=COMPACTORS[0], le=COMPACTORS[1], description="Merges of files at a time.")


RELEASED = CassandraConfiguration.model_construct(
    compaction="STCS",
    concurrent_writes=32,
    file_cache_mib=0,
    memtable_cleanup_threshold=1 / 3,
    concurrent_compactors=2,
)
"""
What a released node has that has two cores and one folder of data, and so two compactors and two threads that write
memtables to disk. Its cache is off, which no plan can ask for.
"""


class EffectiveConfiguration(Contract):
    """
    What a node says that it has.

    Attributes:
        version: of Cassandra.
        compaction: of the trial's tables, each strategy once; none where there is no table yet.
        concurrent_writes: as named.
        file_cache_mib: 0 where the cache is off.
        memtable_cleanup_threshold: as named.
        concurrent_compactors: as named.
        notes: each parameter that has no effect as it is, or that this version advises against.
    """

    version: str
    compaction: tuple[str, ...]
    concurrent_writes: int
    file_cache_mib: int
    memtable_cleanup_threshold: float
    concurrent_compactors: int
    notes: tuple[str, ...] = ()


class AppliedConfiguration(Contract):
    """What became of a change. away_s: for how long the node did not serve, 0 where it was not started anew."""

    before: EffectiveConfiguration
    after: EffectiveConfiguration
    changed: tuple[str, ...]
    away_s: float = 0.0

"""
Cassandra's configuration, read back and changed: `Tunable`.

What a node has is read by CQL from its virtual tables, so that no configuration is taken for granted. Compaction is
changed by ALTER TABLE, compactors and writes by nodetool; for the file cache and the clean-up threshold the one node is
started anew, with all of them in its cassandra.yaml: whoever asks lets what is under way end first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.tuning import RELEASED, RESTARTED_FOR, AppliedConfiguration, EffectiveConfiguration
from stepbench.drivers.cassandra.access import CassandraAccess, keyspace_of
from stepbench.drivers.cassandra.control import node_control
from stepbench.errors import TargetUnavailableError
from stepbench.model.pending import uncancellable
from stepbench.wire import cql

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.tuning import CassandraConfiguration
    from stepbench.drivers.cassandra.control import NodeControl, Scalar
    from stepbench.settings import Settings
    from stepbench.wire.cql.connection import CqlConnection

STRATEGIES = {
    "STCS": "SizeTieredCompactionStrategy",
    "LCS": "LeveledCompactionStrategy",
    "TWCS": "TimeWindowCompactionStrategy",
    "UCS": "UnifiedCompactionStrategy",
}
_SHORT = {name: short for short, name in STRATEGIES.items()}
_MIB = {"B": 2**-20, "KiB": 2**-10, "MiB": 1, "GiB": 2**10}
_SAME = 1e-6
_CLEANUP_DEPRECATED_SINCE = 3
_SETTINGS = "SELECT name, value FROM system_views.settings"
_POOLS = "SELECT name, active_tasks_limit FROM system_views.thread_pools"


class NodeValues(NamedTuple):
    """What is set in a node as a whole; file_cache_mib is 0 where the cache is off."""

    concurrent_writes: int
    concurrent_compactors: int
    file_cache_mib: int
    memtable_cleanup_threshold: float

    @property
    def as_settings(self) -> dict[str, Scalar]:
        """Return them as cassandra.yaml has them."""
        return {
            "concurrent_writes": self.concurrent_writes,
            "concurrent_compactors": self.concurrent_compactors,
            "file_cache_enabled": True,
            "file_cache_size": f"{self.file_cache_mib}MiB",
            "memtable_cleanup_threshold": self.memtable_cleanup_threshold,
        }


class CassandraTuning:
    """One trial's tables and the node that serves them."""

    def __init__(
        self,
        spec: TrialSpec,
        settings: Settings,
        clock: Clock,
        *,
        control: NodeControl | None = None,
    ) -> None:
        self._keyspace = keyspace_of(spec.tag)
        self._settings = settings
        self._access = CassandraAccess(spec, settings, clock)
        self._control = control

    async def effective(self) -> EffectiveConfiguration:
        """See `Tunable`."""
        async with self._access.control() as connection:
            return await self._read(connection)

    async def apply(self, configuration: CassandraConfiguration | None) -> AppliedConfiguration:
        """See `Tunable`."""
        wanted, compaction = wanted_of(configuration)
        before = await self.effective()
        if configuration is not None and not before.compaction:
            message = (
                f"keyspace {self._keyspace} has no table yet whose compaction could be set: prepare the target first"
            )
            raise TargetUnavailableError(message)
        changed = differences(wanted, values_of(before))
        away_s = 0.0
        if any(name in RESTARTED_FOR for name in changed):
            away_s = await uncancellable(self._operator().restart(wanted.as_settings if configuration else {}))
        elif changed:
            await uncancellable(self._set_live(wanted, changed))
        if any(strategy != compaction for strategy in before.compaction):
            changed.append("compaction")
            await uncancellable(self._alter(compaction))
        after = await self.effective() if changed else before
        self._confirm(wanted, compaction, after)
        return AppliedConfiguration(before=before, after=after, changed=tuple(changed), away_s=away_s)

    async def _read(self, connection: CqlConnection) -> EffectiveConfiguration:
        """Read it; of a pool that has had nothing to do since the start, what it is going to be made with."""
        settings = {}
        for name, value in await self._access.select(connection, _SETTINGS):
            settings[_text(name)] = _text(value)
        pools = {}
        for name, limit in await self._access.select(connection, _POOLS):
            pools[_text(name)] = int.from_bytes(limit or b"")
        ((version,),) = await self._access.select(connection, "SELECT release_version FROM system.local")
        strategies = {strategy for _, strategy in await self._tables(connection)}
        cached = settings["file_cache_enabled"] == "true"
        return EffectiveConfiguration(
            version=_text(version),
            compaction=tuple(sorted(strategies)),
            concurrent_writes=pools.get("MutationStage", int(settings["concurrent_writes"])),
            file_cache_mib=mib_of(settings["file_cache_size"]) if cached else 0,
            memtable_cleanup_threshold=float(settings["memtable_cleanup_threshold"]),
            concurrent_compactors=pools.get("CompactionExecutor", int(settings["concurrent_compactors"])),
            notes=tuple(_notes(_text(version), cached=cached)),
        )

    async def _tables(self, connection: CqlConnection) -> list[tuple[str, str]]:
        """Return the trial's tables, each with its strategy."""
        tables = "SELECT table_name, compaction['class'] FROM system_schema.tables"
        found = await self._access.select(connection, f"{tables} WHERE keyspace_name = '{self._keyspace}'")
        names = ((_text(table), _text(strategy).rpartition(".")[2]) for table, strategy in found)
        return [(table, _SHORT.get(strategy, strategy)) for table, strategy in names]

    async def _set_live(self, wanted: NodeValues, changed: Collection[str]) -> None:
        if "concurrent_compactors" in changed:
            await self._operator().nodetool("setconcurrentcompactors", str(wanted.concurrent_compactors))
        if "concurrent_writes" in changed:
            await self._operator().nodetool("setconcurrency", "MutationStage", str(wanted.concurrent_writes))

    async def _alter(self, compaction: str) -> None:
        async with self._access.control() as connection:
            for table, strategy in await self._tables(connection):
                if strategy != compaction:
                    change = f"ALTER TABLE {self._keyspace}.{table} WITH compaction = "
                    statement = f"{change}{{'class': '{STRATEGIES[compaction]}'}}"
                    await self._access.run(connection, cql.query(statement, cql.Consistency.ONE))

    def _confirm(self, wanted: NodeValues, compaction: str, after: EffectiveConfiguration) -> None:
        has = values_of(after)
        wrong = [
            f"{name} is {getattr(has, name):g} and not {getattr(wanted, name):g}" for name in differences(wanted, has)
        ]
        wrong += [
            f"compaction is {strategy} and not {compaction}" for strategy in after.compaction if strategy != compaction
        ]
        if wrong:
            message = f"Cassandra has not taken its configuration: {'; '.join(wrong)}"
            raise TargetUnavailableError(message)

    def _operator(self) -> NodeControl:
        if self._control is None:
            self._control = node_control(self._settings)
        return self._control


def values_of(effective: EffectiveConfiguration) -> NodeValues:
    """Return what a node has."""
    return NodeValues(*(getattr(effective, name) for name in NodeValues._fields))


def differences(wanted: NodeValues, has: NodeValues) -> list[str]:
    """Return the names of the values that differ; Cassandra keeps the threshold in 32 bits."""
    return [name for name in wanted._fields if abs(getattr(wanted, name) - getattr(has, name)) > _SAME]


def wanted_of(configuration: CassandraConfiguration | None) -> tuple[NodeValues, str]:
    """Return what a node, and its tables' compaction, are to be; None is as released."""
    wanted = configuration or RELEASED
    return NodeValues(*(getattr(wanted, name) for name in NodeValues._fields)), wanted.compaction


def mib_of(size: str) -> int:
    """
    Return whole MiB of a size as Cassandra prints it ("512MiB").

    Raises:
        ValueError: it is none.
    """
    found = re.fullmatch(r"(\d+)(B|KiB|MiB|GiB)", size)
    if found is None:
        message = f"{size!r} is no size"
        raise ValueError(message)
    return int(int(found[1]) * _MIB[found[2]])


def _notes(version: str, *, cached: bool) -> Iterator[str]:
    """Yield what of the five parameters has no effect in this version, or is advised against."""
    if not cached:
        yield f"the file cache is off, as in Cassandra {version} as released: its size has no effect"
    if int(version.partition(".")[0]) >= _CLEANUP_DEPRECATED_SINCE:
        yield f"memtable_cleanup_threshold is deprecated in Cassandra {version}; it is obeyed all the same"


def _text(value: bytes | None) -> str:
    return (value or b"").decode()

"""A real node's configuration: changed while it runs and by a restart, and read back."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.contracts.operations_subject import operations_spec

from stepbench.clock import AnchoredClock
from stepbench.contracts.target import CassandraTarget
from stepbench.contracts.tuning import CassandraConfiguration
from stepbench.drivers.cassandra.access import CassandraAccess, keyspace_of
from stepbench.drivers.cassandra.statements import create_statements
from stepbench.drivers.registry import room_of
from stepbench.errors import TargetUnavailableError
from stepbench.settings import Settings
from stepbench.wire import cql
from stepbench_tools.local.paths import find_paths
from stepbench_tools.local.processes import await_end, family, terminate
from stepbench_tools.local.stores.cassandra.node import start_supervised

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.plan import TrialSpec

pytestmark = [pytest.mark.stores, pytest.mark.nightly("cassandra")]
LIVE = CassandraConfiguration(
    compaction="UCS",
    concurrent_writes=16,
    file_cache_mib=64,
    memtable_cleanup_threshold=0.33,
    concurrent_compactors=3,
)
"""Of which everything but cache and threshold changes while the node runs."""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Start one node with its control, and leave nothing of either."""
    directory = tmp_path_factory.mktemp("cassandra")
    node, control = start_supervised(directory, find_paths(os.environ, Path.cwd()), fast=True)
    yield Settings(
        results_table="",
        results_bucket="",
        cassandra_endpoint=node.endpoint,
        cassandra_control=control.endpoint,
    )
    processes = family(node.pids)
    assert len(processes) == 2, "the program, and one Java: none is left of the restart"
    terminate(node.pids, grace_s=1)  # it would take 5 s to go by itself, and leaves nothing of use
    assert await_end(processes, 5) == []


@pytest.fixture(scope="module")
def spec(settings: Settings) -> TrialSpec:
    """Return a trial whose table is there, with a row."""
    made = operations_spec({"store": "cassandra"})
    table = f"{keyspace_of(made.tag)}.records"

    async def make() -> None:
        access = CassandraAccess(made, settings, AnchoredClock())
        async with access.control() as connection:
            insert = f"INSERT INTO {table} (key, value) VALUES ('a', 0x01)"  # noqa: S608 -- ours
            for statement in (*create_statements(made.tag, CassandraTarget(store="cassandra"), product=False), insert):
                await access.run(connection, cql.query(statement, cql.Consistency.ONE))

    asyncio.run(make())
    return made


def test_a_configuration_is_taken_read_back_and_given_up_with_the_data_kept(
    spec: TrialSpec, settings: Settings
) -> None:
    """One story, since each restart takes what the others would wait for, too."""
    room = room_of(spec.plan.target)
    assert room.tuning is not None
    tuning = room.tuning(spec, settings, AnchoredClock())

    released = asyncio.run(tuning.effective())
    assert (released.compaction, released.concurrent_writes, released.concurrent_compactors) == (("STCS",), 32, 2)
    assert released.file_cache_mib == 0
    assert released.memtable_cleanup_threshold == pytest.approx(1 / 3)
    assert any("file cache is off" in note for note in released.notes)
    with pytest.raises(TargetUnavailableError, match="prepare the target first"):
        asyncio.run(room.tuning(operations_spec({"store": "cassandra"}), settings, AnchoredClock()).apply(LIVE))
    untouched = asyncio.run(tuning.apply(None))
    assert (untouched.changed, untouched.away_s) == ((), 0.0)

    tuned = asyncio.run(tuning.apply(LIVE))
    assert tuned.away_s > 0
    assert set(tuned.changed) == set(CassandraConfiguration.model_fields)
    assert _differing(tuned.after.model_dump(), LIVE) == {}
    assert asyncio.run(_keys(spec, settings)) == [(b"a",)]

    live = asyncio.run(tuning.apply(LIVE.model_copy(update={"compaction": "LCS", "concurrent_compactors": 4})))
    assert (set(live.changed), live.away_s) == ({"compaction", "concurrent_compactors"}, 0.0)
    assert (live.after.compaction, live.after.concurrent_compactors) == (("LCS",), 4)
    assert not any("file cache is off" in note for note in live.after.notes)


async def _keys(spec: TrialSpec, settings: Settings) -> list[tuple[bytes | None, ...]]:
    access = CassandraAccess(spec, settings, AnchoredClock())
    async with access.control() as connection:
        found = await access.select(connection, f"SELECT key FROM {keyspace_of(spec.tag)}.records")  # noqa: S608
        return [tuple(row) for row in found]


def _differing(has: dict[str, object], wanted: CassandraConfiguration) -> dict[str, object]:
    asked = wanted.model_dump() | {"compaction": (wanted.compaction,)}
    return {name: has[name] for name, value in asked.items() if has[name] != pytest.approx(value)}

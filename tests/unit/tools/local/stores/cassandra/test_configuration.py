"""What a node is started with."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepbench_tools.local.stores.cassandra.configuration import (
    FAST,
    HOST_HEAP_MIB,
    RELEASED,
    Ports,
    as_released,
    cassandra_yaml,
    heap_mib_on,
)


@pytest.mark.parametrize(
    ("available_mib", "heap_mib"),
    [(900, 512), (3_000, 1_024), (8_192, 2_048), (8_300, 2_048), (15_616, HOST_HEAP_MIB), (65_536, HOST_HEAP_MIB)],
)
def test_the_heap_is_by_the_releases_formula_and_not_above_the_published_hosts(
    available_mib: int, heap_mib: int
) -> None:
    """Another heap is another Cassandra: caches and memtables are shares of it."""
    assert heap_mib_on(available_mib) == heap_mib


def test_as_released_changes_nothing_but_the_snapshots() -> None:
    """A value of ours here would be measured as Cassandra's default."""
    settings = cassandra_yaml(Path("/d"), Ports(1, 2, 3, 4), as_released(15_616), None, {})
    paths = {name for name in settings if name.endswith(("_directory", "_directories"))}
    place = {"cluster_name", "seed_provider", "listen_address", "rpc_address", "native_transport_port"}
    place |= {"storage_port", "ssl_storage_port"}
    assert {name: settings[name] for name in settings.keys() - paths - place} == {**RELEASED, "auto_snapshot": False}


def test_settings_of_a_caller_come_last() -> None:
    """Tuning changes what a profile says."""
    settings = cassandra_yaml(Path("/d"), Ports(1, 2, 3, 4), FAST, None, {"commitlog_segment_size": "32MiB"})
    assert settings["commitlog_segment_size"] == "32MiB"


def test_a_fast_start_says_that_it_is_one() -> None:
    """Its numbers must not pass for Cassandra's."""
    assert "fast start" in FAST.name
    assert "as released" in as_released(15_616).name

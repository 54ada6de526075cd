"""What a configuration asks of a node, without one."""

from __future__ import annotations

import pytest

from stepbench.contracts.tuning import NODE_SETTINGS, CassandraConfiguration
from stepbench.drivers.cassandra.tuning import differences, mib_of, wanted_of

TUNED = CassandraConfiguration(
    compaction="LCS",
    concurrent_writes=16,
    file_cache_mib=256,
    memtable_cleanup_threshold=0.2,
    concurrent_compactors=4,
)


@pytest.mark.parametrize(("size", "mib"), [("512MiB", 512), ("1GiB", 1_024), ("2048KiB", 2), ("1048576B", 1)])
def test_sizes_are_read_as_cassandra_prints_them(size: str, mib: int) -> None:
    """It chooses the unit by the value."""
    assert mib_of(size) == mib


def test_a_size_that_is_none_is_no_zero() -> None:
    """A cache of 0 MiB means that it is off."""
    with pytest.raises(ValueError, match="no size"):
        mib_of("")


def test_only_what_differs_is_changed_and_32_bits_are_no_difference() -> None:
    """A needless restart costs half a minute; 0.2 comes back as 0.2 in 32 bits, and 1/3 as 0.33333334."""
    wanted, compaction = wanted_of(TUNED)
    assert compaction == "LCS"
    assert differences(wanted, wanted._replace(memtable_cleanup_threshold=0.20000000298)) == []
    released, compaction = wanted_of(None)
    assert compaction == "STCS"
    assert differences(released, released._replace(memtable_cleanup_threshold=0.33333334)) == []
    assert differences(wanted, wanted._replace(concurrent_writes=32)) == ["concurrent_writes"]


def test_a_restart_has_all_settings_that_tuning_may_write() -> None:
    """Else what was set while the node ran would be lost with it."""
    settings = wanted_of(TUNED)[0].as_settings
    assert sorted(settings) == sorted(NODE_SETTINGS)
    assert settings["file_cache_enabled"] is True
    assert settings["file_cache_size"] == "256MiB"

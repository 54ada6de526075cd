from __future__ import annotations

import pytest

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.tasks import TrialRef
from stepbench.errors import RecordsUnavailableError, TargetBusyError
from stepbench.records import layout
from stepbench.records.clock_sample import ClockSample
from stepbench.records.trial_table import FilePointer
from stepbench.stages.services import Services

pytestmark = pytest.mark.emulator

ONE = TrialRef(run_id="run-1", trial=0, tag=trial_tag("run-1", 0))
OTHER = TrialRef(run_id="run-2", trial=3, tag=trial_tag("run-2", 3))


def test_a_second_trial_is_refused_a_leased_target_and_told_who_holds_it(services: Services) -> None:
    """Two trials on one store would measure each other."""
    services.table.take_lease("s3#bucket", ONE, "arn:one", 1)
    services.table.take_lease("s3#bucket", ONE, "arn:one", 2)
    with pytest.raises(TargetBusyError, match="trial 0 of run run-1"):
        services.table.take_lease("s3#bucket", OTHER, "arn:two", 3)
    assert [lease.execution_arn for lease in services.table.leases()] == ["arn:one"]


def test_only_the_holder_releases_a_lease(services: Services) -> None:
    """A late tear-down must not free a target that somebody else has taken meanwhile."""
    services.table.take_lease("s3#bucket", ONE, "arn:one", 1)
    assert not services.table.release_lease("s3#bucket", OTHER.tag)
    assert services.table.find_lease("s3#bucket") is not None
    assert services.table.release_lease("s3#bucket", ONE.tag)
    assert services.table.find_lease("s3#bucket") is None
    assert services.table.leases() == []


def test_flags_heartbeats_and_pointers_come_back_as_they_went(services: Services) -> None:
    """They steer the run from the side."""
    table, tag = services.table, ONE.tag
    assert table.flag(tag, layout.CANCELLED) is None
    table.set_flag(tag, layout.CANCELLED, "Ctrl-C")
    assert table.flag(tag, layout.CANCELLED) == "Ctrl-C"
    table.beat(tag, "watcher#0", {"seen": 3})
    assert table.beats(tag)["watcher#0"]["progress"] == {"seen": 3}
    pointer = FilePointer(layout.attempt_id(1, 2, 3, 0), 7, "key", 10, 9, 123)
    table.add_file(tag, pointer)
    assert table.files(tag) == [pointer]
    sample = ClockSample("writer", "sandbox", 5, -17, 4)
    table.add_clock(tag, sample)
    assert table.clocks(tag) == [sample]


def test_where_a_phase_ends_is_said_once(services: Services) -> None:
    """Writers may have seen it already; phases are apart, and so are trials."""
    table = services.table
    assert (table.stop_at_ns(ONE.tag, 10), table.stops_ns(ONE.tag)) == (None, {})
    for phase, stop_at_ns in ((10, 500), (2, 400), (10, 600)):
        table.set_stop(ONE.tag, phase, stop_at_ns)
    assert table.stop_at_ns(ONE.tag, 10) == 500
    assert table.stops_ns(ONE.tag) == {2: 400, 10: 500}
    assert table.stops_ns(OTHER.tag) == {}


def test_a_watch_position_never_moves_back(services: Services) -> None:
    """Two overlapping watchers report in any order."""
    for position in (5, 9, 7):
        services.table.set_position(ONE.tag, position)
    assert services.table.position(ONE.tag) == 9


def test_t4_items_are_spread_over_shards_and_counted(services: Services) -> None:
    """One key would throttle at 1,000 writes a second."""
    for number in range(40):
        services.table.put_t4(ONE.tag, f"request-{number}", 1_000 + number, {"n": 2})
    items = list(services.table.t4_items(ONE.tag))
    assert len(items) == 40
    assert len({item["pk"] for item in items}) > 8
    assert services.table.t4_count(ONE.tag) == 80


def test_malformed_events_are_found_by_their_time(services: Services) -> None:
    """A trial counts those that came while it held the target."""
    services.table.put_malformed("s3", 100, "request", 0, "junk")
    services.table.put_malformed("s3", 900, "request", 1, "later")
    assert [item["body"] for item in services.table.malformed("s3", 50, 500)] == ["junk"]


def test_an_unreachable_table_is_named_in_the_error(services: Services) -> None:
    """The reader of a failed execution sees only this line."""
    services.table._table.delete()
    with pytest.raises(RecordsUnavailableError, match=r"results table t\d+-\d+-results"):
        services.table.flag(ONE.tag, layout.CANCELLED)

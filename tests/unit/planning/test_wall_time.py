"""Who waits for whom and for how long, over all queues that hypothesis can think of."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from stepbench.contracts.runs import QueueEntry
from stepbench.planning.wall_time import ahead_of, expected_starts

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TARGETS = ("s3#bucket", "etcd#a:2379", "redis#a:6379")


def entry(
    run: int, targets: set[str], arrived_s: int, expected_s: int = 60, admitted_s: int | None = None
) -> QueueEntry:
    """Return a run in the queue; its times are seconds since START."""
    return QueueEntry(
        run_id=f"run-{run}",
        team="a",
        plan="p",
        targets=tuple(sorted(targets)),
        arrived_at=START + timedelta(seconds=arrived_s),
        admitted_at=None if admitted_s is None else START + timedelta(seconds=admitted_s),
        expected_s=expected_s,
        execution_arn="arn",
    )


@st.composite
def queues(draw: st.DrawFn) -> list[QueueEntry]:
    """Return a queue in which no two that run share a target."""
    free = set(TARGETS)
    found = []
    for run in range(draw(st.integers(1, 8))):
        targets = draw(st.sets(st.sampled_from(TARGETS), min_size=1))
        runs = targets <= free and draw(st.booleans())
        free -= targets if runs else set()
        arrived_s = draw(st.integers(0, 5))
        found.append(entry(run, targets, arrived_s, draw(st.integers(0, 900)), arrived_s if runs else None))
    return found


@given(queues())
def test_a_run_waits_for_those_on_its_targets_that_run_or_came_before(queue: list[QueueEntry]) -> None:
    """Two that wait for each other would wait for ever."""
    for one in queue:
        found = ahead_of(one, queue)
        assert all(set(each.targets) & set(one.targets) for each in found)
        assert all(each.admitted_at or each.order < one.order for each in found)
        assert all(one not in ahead_of(each, queue) for each in found)


@given(queues(), st.integers(0, 10_000))
def test_a_run_is_expected_after_all_that_it_waits_for(queue: list[QueueEntry], later_s: int) -> None:
    """Along each line the expected starts keep its order, and none is in the past."""
    now = START + timedelta(seconds=later_s)
    starts = expected_starts(queue, now)
    assert starts.keys() == {one.run_id for one in queue if not one.admitted_at}
    for one in queue:
        if one.admitted_at:
            continue
        assert starts[one.run_id] >= now
        for each in ahead_of(one, queue):
            begins = each.admitted_at or starts[each.run_id]
            assert starts[one.run_id] >= begins + timedelta(seconds=each.expected_s)


def test_times_of_other_zones_and_without_fractions_keep_their_order() -> None:
    """As texts, 03:04:05Z comes behind 03:04:05.5Z, and 04:04:05+01:00 behind both."""
    whole, half = entry(1, {TARGETS[0]}, 0), entry(2, {TARGETS[0]}, 0)
    half = half.model_copy(update={"arrived_at": START + timedelta(milliseconds=500)})
    zone = whole.model_dump(mode="json") | {"arrived_at": "2026-01-02T04:04:05.100000+01:00", "run_id": "run-3"}
    found = sorted([half, QueueEntry.model_validate_json(json.dumps(zone)), whole], key=lambda one: one.order)
    assert [one.run_id for one in found] == ["run-1", "run-3", "run-2"]

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.samples.records import column_header, writer_rows
from tests.samples.services import small_plan
from tests.support.fake_clock import START_NS

from stepbench.errors import AccountingError
from stepbench.records.formats.columns import ColumnFile
from stepbench.records.formats.t4 import Entry
from stepbench.records.formats.t4_items import ENTRY_TYPE
from stepbench.records.join.grid import Grid, build_grid
from stepbench.records.join.joined import Joined
from stepbench.records.join.reader import find_started_operations, started_by_heartbeats
from stepbench.records.join.sent import UNRECORDED
from stepbench.records.join.trial import join
from stepbench.workload.arrivals import SLICE_NS

STARTS_NS = {0: START_NS, 1: START_NS + 2_000 * 10**9}
PHASES = [
    {"name": "warm-up", "measured": False, "load": [{"rate_per_s": 1, "count": 3}]},
    {"name": "load", "closed": {"clients": 4, "duration_s": 700}},
]
PLAN = small_plan("redis", experiment="operations", workload={"mix": {"read": 1}}, phases=PHASES, writers=2)


def file(first: int, rows: int, **header_fields: Any) -> ColumnFile:  # noqa: ANN401 -- a header's fields
    """Return rows from a sequence number on, each due at its number in ns after its phase began."""
    header = column_header(**{"phase": 1, "flush": first, **header_fields})
    due_ns = [STARTS_NS[1] + sequence for sequence in range(first, first + rows)]
    return ColumnFile(header, writer_rows(due_ns, first_sequence=first))


def grid(files: list[ColumnFile], started: dict[str, int] | None = None) -> Grid:
    """Build the grid of both phases."""
    return build_grid(PLAN, STARTS_NS, find_started_operations(PLAN, STARTS_NS, files, started or {}))


def joined(files: list[ColumnFile], started: dict[str, int] | None = None) -> Joined:
    """Join, with every attempt that is named marked as started."""
    return join(grid(files, started), set(started or {}), files, [], 10**10)


def test_a_schedule_s_slots_and_those_without_one_stand_in_one_numbering() -> None:
    """Warm-up in open loop: 2 events and 1; then 2 writers with 2 slices each, of which one has operations."""
    made = grid([file(0, 5, writer=1, slice=1)])
    assert made.count.tolist() == [2, 1, 0, 0, 0, 5]
    assert made.closed.tolist() == [False, False, True, True, True, True]
    assert made.span(5, 0) == (3, 8)
    assert made.span(5, 1) == (3, 3)
    assert made.sequences().tolist() == [0, 1, 0, 0, 1, 2, 3, 4]
    assert not made.arrives


def test_attempts_are_numbered_one_after_the_other() -> None:
    """Their operations are different ones, though their sequence numbers are alike."""
    made = joined([file(0, 3, attempt=2, last=True), file(0, 2, attempt=0, last=True)])
    assert made.attempt[3:].tolist() == [0, 0, 2, 2, 2]
    assert made.sequence[3:].tolist() == [0, 1, 0, 1, 2]
    assert made.sent_twice == 0
    assert (made.outcome[3:] == 0).all()


def test_what_was_begun_and_has_no_row_is_unrecorded_and_due_with_the_one_before() -> None:
    """Rows 0 and 1 and 4 are there, 6 had been started: so 2, 3 and 5 are missing."""
    made = joined([file(0, 2), file(4, 1)], {"01-0000-0000-00": 6})
    assert made.outcome[3:].tolist() == [0, 0, UNRECORDED, UNRECORDED, 0, UNRECORDED]
    assert (made.t0_ns[3:] - STARTS_NS[1]).tolist() == [0, 1, 1, 1, 4, 4]
    assert (made.attempt[3:] == 0).all()


def test_an_attempt_of_which_only_a_sign_of_life_is_left_is_unrecorded_as_a_whole() -> None:
    """In the second slice, so it is due from there on."""
    made = joined([], {"01-0000-0001-00": 2})
    assert made.outcome[3:].tolist() == [UNRECORDED] * 2
    assert set(made.t0_ns[3:].tolist()) == {STARTS_NS[1] + SLICE_NS}


def test_rows_say_more_than_an_old_sign_of_life() -> None:
    """A flush may come after the last heartbeat."""
    assert joined([file(0, 5)], {"01-0000-0000-00": 3}).outcome.size == 3 + 5


def test_an_operation_that_is_recorded_twice_is_refused() -> None:
    """Two files of one attempt that both have it contradict each other."""
    with pytest.raises(AccountingError, match="recorded an event twice"):
        joined([file(0, 3), file(2, 2)])


def test_extras_stand_beside_their_events_and_are_0_elsewhere() -> None:
    """Scheduled events of a phase before are numbered, too."""
    head, rows = file(0, 2)
    made = joined([ColumnFile(head, rows._replace(extras={"kind": np.array([4, 5])})), file(2, 1)])
    assert made.extras["kind"].tolist() == [0, 0, 0, 4, 5, 0]


def test_signs_of_life_of_others_say_nothing() -> None:
    """Watchers beat, too, and a writer's first has no counter yet."""
    beats = {
        "writer#01-0000-0000-00": {"progress": {"planned": 7}},
        "writer#01-0001-0000-00": {},
        "watcher#0": {"progress": {"planned": 9}},
    }
    assert started_by_heartbeats(beats) == {"01-0000-0000-00": 7}


def test_an_arrival_of_a_closed_loop_is_found_among_its_own_attempt_s_events() -> None:
    """A writer's second attempt starts executions of its own, whose numbers begin anew."""
    made = grid([file(0, 3, attempt=2, last=True), file(0, 2, attempt=0, last=True)])
    arrived = [(2, 0), (0, 1), (2, 3), (1, 0)]
    entries = np.array([Entry(1, attempt, 0, 0, 0, sequence, 1, 0) for attempt, sequence in arrived], ENTRY_TYPE)
    assert made.locate(entries).tolist() == [5, 4, -1, -1]

"""The join beside what was made up, and beside one that takes every event by itself, in any order of records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples.records import column_header, etcd_plan, read_item, writer_rows

from stepbench.model.request import Outcome
from stepbench.records.formats.columns import UNSENT, ColumnFile, Rows
from stepbench.records.formats.t4 import Entry
from stepbench.records.formats.t4_items import T4Item
from stepbench.records.join import trial as join_module
from stepbench.records.join.grid import Grid, build_grid
from stepbench.records.join.sent import NO_ATTEMPT, UNRECORDED
from stepbench.records.join.trial import account, check, join
from stepbench.records.storage.layout import attempt_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.records.join.joined import Joined

SECOND_NS = 10**9
MS = 10**6
START_NS = 1_700_000_000 * SECOND_NS
NAMES = (
    *("offered", "sent", "unsent", "unrecorded", "ok", "failed", "unknown", "received", "lost"),
    *("duplicates", "retried", "late"),
    *("held_back", "leaked"),
    *("ok_arrived", "failed_arrived", "unknown_arrived", "unrecorded_arrived"),
)


@dataclass
class Truth:
    """The truth of a made-up trial, counted while it is made up."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))
    rows: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    items: list[T4Item] = field(default_factory=list)

    def tell(self, *names: str) -> None:
        """Count one more of each."""
        for name in names:
            self.counts[name] += 1


WRITERS = 3
EVENTS = 60
fates = st.tuples(
    st.sampled_from(["ok", "failed", "unknown", "unsent", "unrecorded"]),
    st.sampled_from(["arrives", "late", "never"]),
    st.lists(st.booleans(), max_size=3),  # repeats: Lambda's own retry, or not
)


def tell_arrivals(truth: Truth, event: int, arrival: str, repeats: list[bool]) -> None:
    """Deliver an event as its fate says; times are far from the drain limit on either side."""
    at_ms = 60_000.0 if arrival == "late" else 7_000.0
    writer, sequence = event % WRITERS, event // WRITERS
    for number, retry in enumerate([False, *repeats]):
        request = f"{event}" if retry or number == 0 else f"{event}-{number}"
        t4_ns = START_NS + round((at_ms + number) * MS)
        truth.items.append(read_item(Entry(0, 0, writer, 0, 0, sequence, t4_ns), request=request))
    truth.counts["duplicates"] += len(repeats)
    truth.counts["retried"] += sum(repeats)


@pytest.mark.parametrize("share", [1, 0.4])
@settings(deadline=None, max_examples=100)
@given(st.lists(fates, min_size=EVENTS, max_size=EVENTS), st.randoms(use_true_random=False))
def test_the_books_balance_and_tell_the_truth_whatever_happens(
    share: float,
    lots: list[tuple[str, str, list[bool]]],
    random: Any,  # noqa: ANN401 -- random.Random
) -> None:
    """Random fates for every event, records in any order: each count is the one that was dealt."""
    truth = Truth()
    for event, (outcome, arrival, repeats) in enumerate(lots):
        truth.tell("offered", *(["sent"] if outcome in {"ok", "failed", "unknown"} else []), outcome)
        place = event // WRITERS
        matches = share == 1 or (place + 1) * 2 // 5 > place * 2 // 5
        if outcome == "unsent":
            truth.rows.setdefault(event % WRITERS, []).append((event, UNSENT))
            continue
        if outcome != "unrecorded":
            truth.rows.setdefault(event % WRITERS, []).append((event, int(Outcome[outcome.upper()])))
        if arrival == "arrives":
            truth.tell("received", f"{outcome}_arrived", *([] if matches else ["leaked"]))
        elif arrival == "late":
            truth.tell("late")
        if arrival != "never":
            tell_arrivals(truth, event, arrival, repeats)
        if outcome == "ok" and arrival != "arrives":
            truth.tell("lost" if matches else "held_back")
    files = []
    for writer, lines in truth.rows.items():
        rows = writer_rows([START_NS + event * 100 * MS for event, _ in lines], outcome=[code for _, code in lines])
        rows = rows._replace(sequence=np.array([event // WRITERS for event, _ in lines], dtype=np.int64))
        files.append(ColumnFile(column_header(writer=writer), rows))
    random.shuffle(files)
    random.shuffle(truth.items)
    started = {attempt_id(0, writer, 0, 0) for writer in range(WRITERS)}
    grid = build_grid(etcd_plan(EVENTS, WRITERS, matching_share=share), {0: START_NS})
    joined = join(grid, started, files, truth.items, 20 * SECOND_NS)
    found = account(joined, np.ones(EVENTS, dtype=np.bool_))
    assert {name: getattr(found, name) for name in NAMES} == truth.counts
    check(found)
    parts = [account(joined, joined.grid.writer[joined.slot] == writer, apart=False) for writer in range(WRITERS)]
    assert sum(part.received for part in parts) == found.received


FEW_EVENTS, FEW_WRITERS = 12, 2
DRAIN_NS = 2 * 10**9
STARTED = {"00-0000-0000-00", "00-0001-0000-00"}


class Arrival(NamedTuple):
    """An arrival of one event, so many ms after the start, in an invocation of this number."""

    event: int
    t4_ms: int
    request: int


class Left(NamedTuple):
    """The records that a trial left: cuts of each writer's rows into files, outcomes, service times in ms, arrivals."""

    cuts: tuple[int, ...]
    outcomes: list[int]
    service_ms: list[int]
    arrivals: list[Arrival]


LEFT = st.builds(
    Left,
    cuts=st.tuples(*[st.integers(0, FEW_EVENTS // FEW_WRITERS)] * FEW_WRITERS),
    outcomes=st.lists(st.sampled_from([*Outcome]), min_size=FEW_EVENTS, max_size=FEW_EVENTS),
    service_ms=st.lists(st.sampled_from([1, 2, 7, 3_000]), min_size=FEW_EVENTS, max_size=FEW_EVENTS),
    arrivals=st.lists(
        st.builds(
            Arrival, st.integers(0, FEW_EVENTS - 1), st.sampled_from([900, 901, 950, 8_000, 99_000]), st.integers(0, 4)
        ),
        max_size=25,
    ),
)


def grid() -> Grid:
    """Build the grid of two writers, six events each, 10/s together."""
    return build_grid(etcd_plan(FEW_EVENTS, FEW_WRITERS), {0: START_NS})


def files_of(left: Left) -> list[ColumnFile]:
    """Write two files a writer, of which the second ends where the cut is: what is behind it has no row."""
    each, due_ns, files = FEW_EVENTS // FEW_WRITERS, grid().t0_ns, []
    for writer, cut in enumerate(left.cuts):
        for flush, (first, end) in enumerate(((0, cut // 2), (cut // 2, cut))):
            own = slice(writer * each + first, writer * each + end)
            rows: Rows = writer_rows(
                due_ns[own].tolist(),
                service_ns=[ms * MS for ms in left.service_ms[own]],
                outcome=left.outcomes[own],
                first_sequence=first,
            )
            files.append(ColumnFile(column_header(writer=writer, flush=flush), rows))
    return files


def items_of(left: Left) -> list[T4Item]:
    """Return one item for each request and time."""
    batches: dict[tuple[int, int], list[Arrival]] = {}
    for arrival in left.arrivals:
        batches.setdefault((arrival.request, arrival.t4_ms), []).append(arrival)
    each = FEW_EVENTS // FEW_WRITERS
    items = []
    for (request, t4_ms), batch in batches.items():
        entries = [
            Entry(0, 0, arrival.event // each, 0, index, arrival.event % each, START_NS + t4_ms * MS)
            for index, arrival in enumerate(batch)
        ]
        items.append(read_item(*entries, request=f"r{request}"))
    return items


def joined(files: Sequence[ColumnFile], items: Sequence[T4Item]) -> Joined:
    """Join these files and items."""
    return join(grid(), STARTED, files, items, DRAIN_NS)


def everything(found: Joined) -> dict[str, list[int]]:
    """Return every column that does not depend on the order of error codes, and the counts beside them."""
    names = ("attempt", "outcome", "t0_ns", "t1_ns", "t2_ns", "t4_ns", "arrivals", "retried", "late", "disorder")
    columns = {name: getattr(found, name).tolist() for name in (*names, "batch", "batch_index", "cold")}
    return {**columns, "beside": [found.unmatched, found.canaries, found.sent_twice, found.limit_ns]}


@settings(deadline=None, max_examples=60)
@given(left=LEFT, data=st.data())
def test_neither_the_order_of_files_and_items_nor_how_many_are_taken_at_once_matters(
    left: Left, data: st.DataObject
) -> None:
    """A bucket lists files by name and a table items by request: nobody promises that these are in order of time."""
    files, items = files_of(left), items_of(left)
    expected = everything(joined(files, items))
    shuffled = data.draw(st.permutations(files)), data.draw(st.permutations(items))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join_module, "ENTRIES_AT_ONCE", data.draw(st.integers(1, 6)))
        assert everything(joined(*shuffled)) == expected


@settings(deadline=None, max_examples=60)
@given(left=LEFT)
def test_it_finds_what_looking_up_every_event_by_itself_finds(left: Left) -> None:
    """Dictionaries cannot mix up events as indices into columns could."""
    found, each = joined(files_of(left), items_of(left)), FEW_EVENTS // FEW_WRITERS
    first: dict[int, Arrival] = {}
    for arrival in sorted(left.arrivals, key=lambda arrival: arrival.t4_ms):
        first.setdefault(arrival.event, arrival)
    due_ns = grid().t0_ns.tolist()
    recorded = [event for event in range(FEW_EVENTS) if event % each < left.cuts[event // each]]
    t2_ns = {event: due_ns[event] + 50_000 + left.service_ms[event] * MS for event in recorded}
    limit_ns = max([*t2_ns.values(), *(due_ns[event] for event in range(FEW_EVENTS) if event not in t2_ns)]) + DRAIN_NS
    for event in range(FEW_EVENTS):
        t4_ns = START_NS + first[event].t4_ms * MS if event in first else 0
        assert found.outcome[event] == (left.outcomes[event] if event in t2_ns else UNRECORDED)
        assert found.t2_ns[event] == t2_ns.get(event, 0)
        assert found.t4_ns[event] == t4_ns
        assert found.late[event] == (t4_ns > limit_ns)
        assert found.arrivals[event] == sum(other.event == event for other in left.arrivals)
        assert found.attempt[event] == (0 if event in t2_ns or event in first else NO_ATTEMPT)
    accounting = account(found, np.ones(FEW_EVENTS, dtype=np.bool_))
    assert accounting.received == np.count_nonzero(found.arrived)
    assert accounting.unsent == np.count_nonzero(found.outcome == UNSENT) == 0


def test_a_time_that_needs_more_than_four_bytes_widens_its_column_and_no_value_changes() -> None:
    """2.1 s of service or of latency are usual under overload: 3 s after two events of milliseconds."""
    left = Left(
        (6, 6), [Outcome.OK] * FEW_EVENTS, [1] * (FEW_EVENTS - 1) + [3_000], [Arrival(0, 10, 0), Arrival(11, 8_000, 1)]
    )
    found = joined(files_of(left), items_of(left))
    assert (found.service_ns.itemsize, found.first_arrivals.response_ns.itemsize) == (8, 8)
    assert (found.t4_ns[0], found.t4_ns[1], found.t4_ns[11]) == (START_NS + 10 * MS, 0, START_NS + 8_000 * MS)
    small = joined(
        files_of(left._replace(service_ms=[1] * FEW_EVENTS)), items_of(left._replace(arrivals=[Arrival(0, 10, 0)]))
    )
    assert (small.service_ns.itemsize, small.first_arrivals.response_ns.itemsize) == (4, 4)
    assert np.array_equal(small.t2_ns[:11], found.t2_ns[:11])

"""The join beside one that takes every event by itself, whatever the order in which files and items come."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepbench.contracts.plan import LoadStep, Phase, TrialPlan
from stepbench.contracts.target import EtcdTarget
from stepbench.drivers.protocol import Outcome
from stepbench.records import join as join_module
from stepbench.records.books import account
from stepbench.records.columns import UNSENT, ColumnFile, Rows
from stepbench.records.grid import Grid, build_grid
from stepbench.records.join import join
from stepbench.records.sent import NO_ATTEMPT, UNRECORDED
from stepbench.records.t4 import Entry, T4Item, parse_item
from stepbench.testing.records import column_header, t4_item, writer_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.records.joined import Joined

START_NS = 1_700_000_000 * 10**9
MS = 10**6
EVENTS, WRITERS = 12, 2
DRAIN_NS = 2 * 10**9
STARTED = {"00-0000-0000-00", "00-0001-0000-00"}


class Arrival(NamedTuple):
    """Of one event, so many ms after the start, in an invocation of this number."""

    event: int
    t4_ms: int
    request: int


class Left(NamedTuple):
    """What a trial left: cuts of each writer's rows into files, outcomes, service times in ms, arrivals."""

    cuts: tuple[int, ...]
    outcomes: list[int]
    service_ms: list[int]
    arrivals: list[Arrival]


LEFT = st.builds(
    Left,
    cuts=st.tuples(*[st.integers(0, EVENTS // WRITERS)] * WRITERS),
    outcomes=st.lists(st.sampled_from([*Outcome]), min_size=EVENTS, max_size=EVENTS),
    service_ms=st.lists(st.sampled_from([1, 2, 7, 3_000]), min_size=EVENTS, max_size=EVENTS),
    arrivals=st.lists(
        st.builds(
            Arrival, st.integers(0, EVENTS - 1), st.sampled_from([900, 901, 950, 8_000, 99_000]), st.integers(0, 4)
        ),
        max_size=25,
    ),
)


def grid() -> Grid:
    """Two writers, six events each, 10/s together."""
    phases = (Phase(name="only", load=(LoadStep(rate_per_s=10, count=EVENTS),)),)
    plan = TrialPlan(target=EtcdTarget(store="etcd"), phases=phases, writers=WRITERS)
    return build_grid(plan, {0: START_NS})


def files_of(left: Left) -> list[ColumnFile]:
    """Two files a writer, of which the second ends where the cut is: what is behind it has no row."""
    each, due_ns, files = EVENTS // WRITERS, grid().t0_ns, []
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
    """One item for each request and time."""
    batches: dict[tuple[int, int], list[Arrival]] = {}
    for arrival in left.arrivals:
        batches.setdefault((arrival.request, arrival.t4_ms), []).append(arrival)
    each = EVENTS // WRITERS
    items = []
    for (request, t4_ms), batch in batches.items():
        entries = [
            Entry(0, 0, arrival.event // each, 0, index, arrival.event % each, START_NS + t4_ms * MS)
            for index, arrival in enumerate(batch)
        ]
        items.append(parse_item({"sk": f"r{request}#{START_NS + t4_ms * MS:020d}", **t4_item(entries)}))
    return items


def joined(files: Sequence[ColumnFile], items: Sequence[T4Item]) -> Joined:
    """Of these."""
    return join(grid(), STARTED, files, items, DRAIN_NS)


def everything(found: Joined) -> dict[str, list[int]]:
    """Every column that does not depend on the order of error codes, and the counts beside them."""
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
    found, each = joined(files_of(left), items_of(left)), EVENTS // WRITERS
    first: dict[int, Arrival] = {}
    for arrival in sorted(left.arrivals, key=lambda arrival: arrival.t4_ms):
        first.setdefault(arrival.event, arrival)
    due_ns = grid().t0_ns.tolist()
    recorded = [event for event in range(EVENTS) if event % each < left.cuts[event // each]]
    t2_ns = {event: due_ns[event] + 50_000 + left.service_ms[event] * MS for event in recorded}
    limit_ns = max([*t2_ns.values(), *(due_ns[event] for event in range(EVENTS) if event not in t2_ns)]) + DRAIN_NS
    for event in range(EVENTS):
        t4_ns = START_NS + first[event].t4_ms * MS if event in first else 0
        assert found.outcome[event] == (left.outcomes[event] if event in t2_ns else UNRECORDED)
        assert found.t2_ns[event] == t2_ns.get(event, 0)
        assert found.t4_ns[event] == t4_ns
        assert found.late[event] == (t4_ns > limit_ns)
        assert found.arrivals[event] == sum(other.event == event for other in left.arrivals)
        assert found.attempt[event] == (0 if event in t2_ns or event in first else NO_ATTEMPT)
    books = account(found, np.ones(EVENTS, dtype=np.bool_))
    assert books.received == np.count_nonzero(found.arrived)
    assert books.unsent == np.count_nonzero(found.outcome == UNSENT) == 0


def test_a_time_that_needs_more_than_four_bytes_widens_its_column_and_no_value_changes() -> None:
    """2.1 s of service or of latency are usual under overload: 3 s after two events of milliseconds."""
    left = Left((6, 6), [Outcome.OK] * EVENTS, [1] * (EVENTS - 1) + [3_000], [Arrival(0, 10, 0), Arrival(11, 8_000, 1)])
    found = joined(files_of(left), items_of(left))
    assert (found.service_ns.itemsize, found.came.response_ns.itemsize) == (8, 8)
    assert (found.t4_ns[0], found.t4_ns[1], found.t4_ns[11]) == (START_NS + 10 * MS, 0, START_NS + 8_000 * MS)
    small = joined(
        files_of(left._replace(service_ms=[1] * EVENTS)), items_of(left._replace(arrivals=[Arrival(0, 10, 0)]))
    )
    assert (small.service_ns.itemsize, small.came.response_ns.itemsize) == (4, 4)
    assert np.array_equal(small.t2_ns[:11], found.t2_ns[:11])

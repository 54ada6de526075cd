"""Changes that a watcher has seen are packed: many of one trial, and many among which one is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.samples.records import REF
from tests.samples.services import MemoryServices

from stepbench.contracts.identity import EventId
from stepbench.model.request import Change, ChangeBatch
from stepbench.records.formats.t4 import FEW_ENTRIES, MAX_BATCH_INDEX, Entry
from stepbench.records.formats.t4_items import parse_item
from stepbench.records.storage.t4_store import T4Log, T4Store
from stepbench.records.storage.watch_log import WatchLog

EVENT = EventId(REF.tag, 1, 2, 3, 4, 5)
FOREIGN = Change(b"junk", 1)
events = st.builds(
    EVENT._replace,
    phase=st.integers(0, 0xFF),
    writer=st.integers(0, 0xFFFF),
    slice=st.integers(0, 0xFFFE),
    attempt=st.integers(0, 0xFF),
    sequence=st.integers(0, 0xFFFF_FFFF),
)
batches = st.lists(
    st.tuples(st.integers(0, 2**62), st.lists(st.tuples(events, st.integers(0, 2**62)), max_size=2 * FEW_ENTRIES)),
    max_size=4,
)


def recorded(*batches: ChangeBatch) -> list[Entry]:
    """Return the entries that analysis reads, in order."""
    services = MemoryServices().services
    log = WatchLog(REF.tag, "etcd", 0, T4Log(lambda _: None, lambda _: None))
    log.record(batches, services.table, T4Store(services.table, services.runs))
    items = [parse_item(item) for item in services.table.t4_items(REF.tag)]
    return [Entry(*map(int, entry)) for item in items for entry in item.entries]


@given(batches)
def test_changes_are_recorded_with_their_batch_s_time_and_their_place_in_it(
    drawn: list[tuple[int, list[tuple[EventId, int]]]],
) -> None:
    """Whichever way they are packed: a change that is none of ours makes them go one by one."""
    taken = [
        ChangeBatch(t4_ns, tuple(Change(event.text().encode() + b"xx", position) for event, position in changes))
        for t4_ns, changes in drawn
    ]
    expected = [
        Entry(each.phase, each.attempt, each.writer, each.slice, place, each.sequence, t4_ns, 0, position)
        for t4_ns, changes in drawn
        for place, (each, position) in enumerate(changes)
    ]
    assert recorded(*taken) == expected
    assert recorded(*taken, ChangeBatch(1, (FOREIGN,))) == expected


def test_a_backlog_of_any_length_is_recorded() -> None:
    """After a watcher's outage a store hands over all that has come meanwhile."""
    count = MAX_BATCH_INDEX + 10
    value = EVENT.text().encode()
    found = recorded(ChangeBatch(7, tuple(Change(value, position) for position in range(count))))
    assert sorted(entry.position for entry in found) == list(range(count))
    assert max(entry.batch_index for entry in found) == MAX_BATCH_INDEX

"""When a measured function was done with each event, beside what was planted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples.estimates import present
from tests.samples.records import column_header, etcd_plan, read_item, run_of, writer_rows

from stepbench.errors import AccountingError
from stepbench.records.formats.columns import ColumnFile
from stepbench.records.formats.function_lines import Begin, End, Invocation
from stepbench.records.formats.platform_lines import platform_item
from stepbench.records.formats.t4 import Entry
from stepbench.records.formats.t4_items import parse_item
from stepbench.records.join.grid import build_grid
from stepbench.records.join.trial import account, check, join
from stepbench.records.storage.layout import attempt_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.result import Accounting
    from stepbench.records.formats.t4_items import T4Item
    from stepbench.records.join.joined import Joined
    from stepbench.records.join.processing import Processing

MS = 10**6
START_NS = 1_700_000_000 * 10**9
EVENTS = 4
PACE_NS = 100 * MS
DRAIN_MS = 10_000


def invocation(
    at_ms: float,
    took_ms: float | None,
    *events: int,
    processed: int | None = None,
    error: str = "",
    request: str = "",
) -> T4Item:
    """Return an item; None: it never ended."""
    t4_ns = START_NS + round(at_ms * MS)
    entries = [Entry(0, 0, 0, 0, place, event, t4_ns) for place, event in enumerate(events)]
    done = processed if processed is not None else 0 if error or took_ms is None else len(events)
    run = run_of(0 if took_ms is None else t4_ns + round(took_ms * MS), done, error)
    return read_item(*entries, request=request or f"at-{at_ms}", **run)


def joined(items: Sequence[T4Item], *, processing: bool = True) -> Joined:
    """Join four events, one every 100 ms, each acknowledged after 1.05 ms."""
    grid = build_grid(etcd_plan(EVENTS), {0: START_NS})
    rows = writer_rows([START_NS + PACE_NS * number for number in range(EVENTS)])
    file = ColumnFile(column_header(last=True), rows)
    return join(grid, [attempt_id(0, 0, 0, 0)], [file], items, DRAIN_MS * MS, processing=processing)


def by_order(items: Sequence[T4Item], stream_attempts: int = 0) -> Joined:
    """Join the four with invocations that name none of them."""
    grid = build_grid(etcd_plan(EVENTS), {0: START_NS})
    rows = writer_rows([START_NS + PACE_NS * number for number in range(EVENTS)])
    file, started = ColumnFile(column_header(last=True), rows), [attempt_id(0, 0, 0, 0)]
    return join(grid, started, [file], items, DRAIN_MS * MS, processing=True, by_order=stream_attempts)


def unnamed(at_ms: int, took_ms: int, request: str, error: str = "") -> T4Item:
    """Return an invocation as Lambda's own lines show it."""
    begin = Begin(trial="t", request=request, t4=START_NS + at_ms * MS, sandbox="s", batch=0)
    end = (
        None
        if took_ms is None
        else End(trial="t", request=request, t4=begin.t4, t5=begin.t4 + took_ms * MS, error=error)
    )
    item = present(platform_item(Invocation(begin=begin, end=end)))
    return parse_item({**item, "sk": begin.key})


def processing(items: Sequence[T4Item]) -> Processing:
    """Return when the four were done with."""
    return present(joined(items).processing)


def books(items: Sequence[T4Item], cut_off_ns: int | None = None) -> Accounting:
    """Account for the four."""
    found = joined(items)
    return account(found, found.offered, cut_off_ns=cut_off_ns)


def test_times_of_what_is_processed_at_once() -> None:
    """Event 1 is due at 100 ms, handed over at 150 and done at 153.5."""
    found = joined([invocation(50, 3, 0), invocation(150, 3.5, 1)])
    own = present(found.processing)
    assert own.handler_ns[:2].tolist() == [3 * MS, 3.5 * MS]
    assert own.processed_ns[:2].tolist() == [53 * MS, 53.5 * MS]
    assert found.processed.tolist() == own.ever.tolist() == [True, True, False, False]
    assert [column.any() for column in (own.again, own.failed, own.tries_before)] == [False] * 3


def test_what_the_layer_does_before_the_handler_is_no_time_of_the_handler_s() -> None:
    """It reads the names of a batch's events: 0.6 ms of a hundred in Node.js."""
    t4_ns = START_NS + 50 * MS
    run = {**run_of(t4_ns + 4 * MS, 1), "called_ns": t4_ns + MS}
    found = processing([read_item(Entry(0, 0, 0, 0, 0, 0, t4_ns), **run)])
    assert (found.handler_ns[0], found.processed_ns[0]) == (3 * MS, 54 * MS)


def test_a_partly_failed_batch_comes_again_from_the_first_failed_record_on() -> None:
    """The batch of four fails from its third on, and the rest is done at the second try."""
    found = processing([invocation(500, 4, 0, 1, 2, 3, processed=2), invocation(1_500, 6, 2, 3)])
    assert found.handler_ns.tolist() == [4 * MS] * 4
    assert found.processed_ns.tolist() == [504 * MS, 404 * MS, 1_306 * MS, 1_206 * MS]
    assert (found.failed.tolist(), found.tries_before.tolist()) == ([0, 0, 1, 1], [0, 0, 1, 1])
    assert found.again.tolist() == [0] * 4


def test_what_was_processed_first_counts_where_several_did_it() -> None:
    """The second try overlaps the first, and ends before it: the event is done then, and once more later."""
    found = processing([invocation(500, 900, 0), invocation(600, 5, 0), invocation(550, 1, 0, error="KeyError")])
    assert found.processed_ns[0] == 605 * MS
    assert found.handler_ns[0] == 900 * MS
    assert (found.again[0], found.failed[0], found.tries_before[0]) == (1, 1, 2)


def test_lambda_s_retries_have_the_request_of_their_first_try() -> None:
    """They are tries all the same: the third one was the good one."""
    tries = [(500, "A"), (60_500, "A"), (180_500, "")]
    found = processing([invocation(at_ms, 2, 0, error=error, request="one") for at_ms, error in tries])
    assert (found.failed[0], found.tries_before[0], found.processed_ns[0]) == (2, 2, 180_502 * MS)


def test_what_ends_after_the_drain_limit_has_failed() -> None:
    """It arrived in time; 10 s after the last acknowledgement, at 301.05 ms, nobody waits any longer."""
    last = DRAIN_MS + 301.05
    accounting = books([invocation(200, last - 200, 0), invocation(201, last - 200.9, 1), invocation(400, None, 2)])
    assert (accounting.received, accounting.processed, accounting.failed_in_handler) == (3, 1, 2)


@pytest.mark.parametrize(("cut_off_ms", "failed", "cut_off"), [(None, 3, 0), (150, 2, 1), (-1, 0, 3)])
def test_what_a_stop_cut_off_has_not_failed_in_the_handler(cut_off_ms: int | None, failed: int, cut_off: int) -> None:
    """Events 0, 1 and 2 are acknowledged at 1, 101 and 201 ms, and never end: a later try may still have come."""
    items = [invocation(50 + 100 * number, None, number) for number in range(3)]
    accounting = books(items, None if cut_off_ms is None else START_NS + cut_off_ms * MS)
    assert (accounting.received, accounting.processed) == (3, 0)
    assert (accounting.failed_in_handler, accounting.cut_off_in_handler) == (failed, cut_off)


def test_accounting_counts_processings_beyond_the_first() -> None:
    """Three deliveries did event 0, and one failed it, which is no duplicate; event 1 was never done."""
    items = [*(invocation(500 + number, 1, 0) for number in range(3)), invocation(900, 1, 0, 1, error="ValueError")]
    accounting = books(items)
    assert (accounting.processed, accounting.processed_twice, accounting.duplicates) == (1, 2, 2)
    assert accounting.failed_in_handler == 1


def test_a_try_after_a_failure_is_no_duplicate() -> None:
    """Lambda's own retry, with the same request, and another batch; event 1 was done twice by one request."""
    again = [invocation(500, 1, 0, error="KeyError", request="one"), invocation(900, 1, 0, request="one")]
    failed = [invocation(500, 1, 2, error="KeyError"), invocation(900, 1, 2, error="KeyError"), invocation(950, 1, 2)]
    twice = [invocation(600, 1, 1, request="two"), invocation(700, 1, 1, request="two")]
    found = joined([*again, *failed, *twice])
    assert (found.duplicates.tolist(), found.retried.tolist()) == ([0, 1, 0, 0], [0, 1, 0, 0])
    assert found.arrivals.tolist() == [2, 2, 3, 0]
    accounting = account(found, found.offered)
    assert (accounting.duplicates, accounting.processed_twice, accounting.retried) == (1, 1, 1)


def test_an_accounting_with_other_duplicates_does_not_balance() -> None:
    """A measured function's are what it processed again, and nothing else."""
    good = books([invocation(500, 1, 0), invocation(600, 1, 0)])
    with pytest.raises(AccountingError, match="duplicates = processed twice"):
        check(good.model_copy(update={"duplicates": 2}))


def test_other_trials_have_no_such_columns() -> None:
    """Their accounting says that nothing was to be processed, and not that nothing was."""
    found = joined([read_item(Entry(0, 0, 0, 0, 0, 1, START_NS + 200 * MS))], processing=False)
    accounting = account(found, found.offered)
    assert found.processing is None
    assert (accounting.processed, accounting.failed_in_handler, accounting.processed_twice) == (None, 0, 0)
    assert not found.processed.any()


deliveries = st.tuples(st.integers(1_000, 9_000), st.integers(0, 4_000), st.lists(st.integers(0, 3), min_size=1))


@settings(deadline=None, max_examples=100)
@given(st.lists(deliveries, max_size=12, unique_by=lambda each: each[0]), st.data())
def test_any_deliveries_in_any_order(drawn: list[tuple[int, int, list[int]]], data: st.DataObject) -> None:
    """The same by a loop over events: 0 ms stands for an invocation that never ended."""
    items, truth = [], {event: list[tuple[int, int, bool]]() for event in range(EVENTS)}
    for at_ms, took_ms, events in drawn:
        batch = list(dict.fromkeys(events))
        done = data.draw(st.integers(0, len(batch))) if took_ms else 0
        items.append(invocation(at_ms, took_ms or None, *batch, processed=done))
        for place, event in enumerate(batch):
            truth[event].append((at_ms, at_ms + took_ms, place < done))
    found = processing(data.draw(st.permutations(items)))
    for event, tries in truth.items():
        tries.sort()
        ends = sorted((end_ms, number) for number, (_, end_ms, processed) in enumerate(tries) if processed)
        assert (found.again[event], found.failed[event]) == (max(0, len(ends) - 1), len(tries) - len(ends))
        assert found.ever[event] == bool(ends)
        if ends:
            assert found.processed_ns[event] == (ends[0][0] - 100 * event) * MS
            assert found.tries_before[event] == ends[0][1]


@pytest.mark.parametrize("size", [1, 3])
def test_repeated_deliveries_are_kept_with_their_items(size: int) -> None:
    """Which invocations had an event of a window: all of them count for its errors."""
    found = processing([invocation(500 + number, 1, 2) for number in range(size)])
    assert found.repeated_event.tolist() == [2] * (size if size > 1 else 0)
    assert found.repeated_item.size == found.repeated_event.size


CANARY = unnamed(-500, 3, "canary")


def test_invocations_that_name_no_event_are_of_those_whose_turn_it_was() -> None:
    """Each began 50 ms after an event was due, and 50 ms before the next; the canary was before all."""
    found = by_order([CANARY, *(unnamed(50 + 100 * event, 3, f"r-{event}") for event in range(EVENTS))])
    own = present(found.processing)
    assert found.t4_ns.tolist() == [START_NS + (50 + 100 * event) * MS for event in range(EVENTS)]
    assert own.handler_ns.tolist() == [3 * MS] * EVENTS
    assert (bool(found.unpaired.any()), found.canaries, found.unmatched) == (False, 1, 0)
    assert account(found, found.offered).processed == EVENTS


def test_events_whose_invocations_could_be_each_others_arrive_without_times() -> None:
    """Two are due before either starts: both are there, and neither is lost; the others are as ever."""
    items = [unnamed(150, 3, "a"), unnamed(170, 3, "b"), unnamed(250, 3, "c"), unnamed(350, 3, "d")]
    found = by_order(items)
    books = account(found, found.offered)
    assert found.unpaired.tolist() == [True, True, False, False]
    assert found.timed.tolist() == [False, False, True, True]
    assert (books.received, books.unpaired, books.lost, books.processed) == (4, 2, 0, 4)


def test_one_of_several_that_is_lost_is_counted_and_not_named() -> None:
    """Of the last three two have started: which, nobody knows."""
    found = by_order([unnamed(50, 3, "a"), unnamed(260, 3, "b"), unnamed(350, 3, "c")])
    books = account(found, found.offered)
    assert found.unpaired.tolist() == [False, True, True, True]
    assert (books.received, books.unpaired, books.lost) == (3, 2, 1)


def test_an_invocation_too_many_is_no_event_s_and_puts_the_others_in_doubt() -> None:
    """An event came twice under two ids."""
    found = by_order(
        [*(unnamed(50 + 100 * event, 3, f"r-{event}") for event in range(EVENTS)), unnamed(360, 3, "more")]
    )
    assert found.unmatched == 1
    assert found.unpaired.all()


def test_a_try_that_another_one_follows_has_failed_whatever_its_lines_say() -> None:
    """Lambda keeps the request id of an asynchronous invocation, and not all its lines tell errors."""
    found = by_order([unnamed(50, 3, "a"), unnamed(60_050, 3, "a"), unnamed(150, 3, "b"), unnamed(250, 3, "c", "E")])
    own = present(found.processing)
    assert own.failed.tolist() == [1, 0, 1, 0]
    assert own.tries_before.tolist() == [1, 0, 0, 0]
    assert own.processed_ns[0] == 60_053 * MS


def test_a_stream_s_failed_event_comes_again_under_another_id() -> None:
    """And is the same event as long as it is the only one."""
    found = by_order([unnamed(20, 3, "a", "E"), unnamed(50, 3, "b"), unnamed(150, 3, "c")], stream_attempts=3)
    own = present(found.processing)
    assert not found.unpaired[:2].any()
    assert (own.failed.tolist(), own.processed_ns[0]) == ([1, 0, 0, 0], 53 * MS)

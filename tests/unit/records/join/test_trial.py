from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.samples.records import column_header, etcd_plan, read_item, writer_rows

from stepbench.contracts.identity import ANY_ATTEMPT, CANARY_PHASE, UNRESOLVED_PHASE
from stepbench.errors import AccountingError
from stepbench.model.request import Outcome
from stepbench.records.formats.columns import UNSENT, ColumnFile, Rows
from stepbench.records.formats.t4 import Entry
from stepbench.records.join.arrivals import WatchGap
from stepbench.records.join.grid import Grid, build_grid
from stepbench.records.join.joined import Joined
from stepbench.records.join.sent import NOT_OFFERED, UNRECORDED
from stepbench.records.join.trial import account, check, join
from stepbench.records.storage.layout import attempt_id

if TYPE_CHECKING:
    from stepbench.contracts.result import Accounting
    from stepbench.records.formats.t4_items import T4Item

SECOND_NS = 10**9
MS = 10**6
START_NS = 1_700_000_000 * SECOND_NS
DRAIN_NS = 5 * SECOND_NS


def grid(events: int, writers: int = 1) -> Grid:
    """Build the grid of one planned phase."""
    return build_grid(etcd_plan(events, writers), {0: START_NS})


def entry(  # noqa: PLR0913 -- a record's fields
    sequence: int, t4_ms: float, *, writer: int = 0, attempt: int = 0, index: int = 0, position: int = 0
) -> Entry:
    """Return an arrival, so many ms after the start."""
    return Entry(0, attempt, writer, 0, index, sequence, START_NS + round(t4_ms * MS), 0, position)


def file(rows: Rows, **header: Any) -> ColumnFile:  # noqa: ANN401 -- a header's fields
    """Return a column file of phase 0."""
    return ColumnFile(column_header(**{"last": True, **header}), rows)


def even_rows(count: int, **columns: Any) -> Rows:  # noqa: ANN401 -- as `writer_rows`
    """Return rows of the only writer: 100 ms apart, as planned."""
    return writer_rows([START_NS + n * 100 * MS for n in range(count)], **columns)


def account_for(joined: Joined) -> Accounting:
    """Return the accounting of all events."""
    return account(joined, np.ones(joined.t0_ns.size, dtype=np.bool_))


STARTED = {attempt_id(0, 0, 0, 0)}


def test_every_event_finds_its_row_and_its_first_arrival() -> None:
    """The plain case: two events, one batch, both arrived."""
    arrived = read_item(entry(0, 150), entry(1, 150, index=1), cold=True)
    joined = join(grid(2), STARTED, [file(even_rows(2))], [arrived], DRAIN_NS)
    assert (joined.t4_ns - joined.t0_ns).tolist() == [150 * MS, 50 * MS]
    assert (joined.t1_ns - joined.t0_ns).tolist() == [50_000, 50_000]
    assert (joined.t2_ns - joined.t1_ns).tolist() == [MS, MS]
    assert joined.batch.tolist() == [2, 2]
    assert joined.batch_index.tolist() == [0, 1]
    assert joined.cold.all()
    found = account_for(joined)
    assert (found.offered, found.ok, found.received, found.lost, found.duplicates) == (2, 2, 2, 0, 0)


def test_the_grid_spreads_a_phase_over_its_writers() -> None:
    """Events are numbered by writer and sequence; seven events over three writers are 3, 2, 2."""
    found = grid(7, writers=3)
    assert found.count.tolist() == [3, 2, 2]
    assert ((found.t0_ns - START_NS) // MS).tolist() == [0, 300, 600, 100, 400, 200, 500]
    assert found.slot(0, 2, 0) == 2
    assert [found.slot(0, 3, 0), found.slot(0, 0, 1), found.slot(1, 0, 0)] == [-1, -1, -1]


def test_phases_that_were_never_planned_are_not_offered() -> None:
    """A trial that failed in its first phase did not lose the second."""
    assert build_grid(etcd_plan(5, phases=2), {0: START_NS}).events == 5
    empty = build_grid(etcd_plan(5, phases=2), {})
    joined = join(empty, set(), [], [read_item(entry(0, 1))], DRAIN_NS)
    assert (account_for(joined).offered, joined.unmatched) == (0, 1)


def test_a_writer_that_never_began_has_sent_nothing() -> None:
    """Its events are unsent, not lost."""
    joined = join(grid(4, writers=2), STARTED, [file(even_rows(2))], [], DRAIN_NS)
    found = account_for(joined)
    assert (found.unsent, found.ok, found.unrecorded, found.lost) == (2, 2, 0, 2)


def test_a_killed_writer_leaves_unrecorded_events_some_of_which_arrived() -> None:
    """It flushed two of five rows, sent at least four events, and never ended in order."""
    arrivals = [read_item(entry(n, 100 * n + 5), request=f"r{n}") for n in range(4)]
    joined = join(grid(5), STARTED, [file(even_rows(2), last=False)], arrivals, DRAIN_NS)
    found = account_for(joined)
    assert (found.ok, found.unrecorded, found.unrecorded_arrived, found.received) == (2, 3, 2, 4)
    assert joined.attempt.tolist() == [0, 0, 0, 0, 255]


STOPS_NS = {0: START_NS + 250 * MS}
"""After three of the events, which are 100 ms apart."""


def test_what_was_due_after_the_phase_had_ended_was_not_offered() -> None:
    """`until` was sure: the rest of the schedule is in no accounting."""
    arrivals = [read_item(entry(n, 100 * n + 5), request=f"r{n}") for n in range(3)]
    joined = join(grid(10), STARTED, [file(even_rows(3))], arrivals, DRAIN_NS, stops_ns=STOPS_NS)
    assert joined.outcome.tolist() == [Outcome.OK] * 3 + [NOT_OFFERED] * 7
    found = account_for(joined)
    assert (found.offered, found.sent, found.unsent, found.unrecorded, found.lost) == (3, 3, 0, 0, 0)


def test_a_writer_that_died_after_the_end_leaves_only_what_was_due_before_unrecorded() -> None:
    """The row of the third was lost with it; the other seven were never to be offered, and delay no drain limit."""
    joined = join(grid(10), STARTED, [file(even_rows(2), last=False)], [], DRAIN_NS, stops_ns=STOPS_NS)
    assert joined.outcome.tolist() == [Outcome.OK] * 2 + [UNRECORDED] + [NOT_OFFERED] * 7
    assert joined.limit_ns == START_NS + 200 * MS + DRAIN_NS


def test_what_was_sent_after_the_end_counts_and_so_does_all_before_it() -> None:
    """The stop was seen late: the fifth arrived, so the fourth, of which nothing is known, was sent before it."""
    rows = even_rows(3)
    late = [read_item(entry(4, 405), request="r4")]
    joined = join(grid(10), STARTED, [file(rows, last=False)], late, DRAIN_NS, stops_ns=STOPS_NS)
    assert joined.outcome.tolist() == [Outcome.OK] * 3 + [UNRECORDED] * 2 + [NOT_OFFERED] * 5
    found = account_for(joined)
    assert (found.offered, found.sent, found.unrecorded, found.unrecorded_arrived) == (5, 3, 2, 1)


def test_a_writer_that_never_began_owes_what_was_due_before_the_end_of_each_phase() -> None:
    """That is unsent, and no more of the first phase; the second is due after the first one's end as a whole."""
    both = build_grid(etcd_plan(5, phases=2), {0: START_NS, 1: START_NS + 10 * SECOND_NS})
    joined = join(both, set(), [], [], DRAIN_NS, stops_ns=STOPS_NS)
    assert joined.outcome.tolist() == [UNSENT] * 3 + [NOT_OFFERED] * 2 + [UNSENT] * 5
    assert joined.offered.tolist() == [True] * 3 + [False] * 2 + [True] * 5


def test_a_retry_takes_over_what_was_still_ahead() -> None:
    """Attempt 0 died after two rows; attempt 1 offered events 4 and 5: two in the middle are unrecorded."""
    later = writer_rows([START_NS + n * 100 * MS for n in (4, 5)], first_sequence=4)
    files = [file(even_rows(2), last=False), file(later, attempt=1)]
    started = STARTED | {attempt_id(0, 0, 0, 1)}
    arrivals = [read_item(entry(4, 405, attempt=1)), read_item(entry(2, 205, attempt=0), request="r2")]
    joined = join(grid(6), started, files, arrivals, DRAIN_NS)
    assert joined.outcome.tolist() == [0, 0, UNRECORDED, UNRECORDED, 0, 0]
    assert joined.attempt.tolist() == [0, 0, 0, 255, 1, 1]


def test_what_an_attempt_that_ended_in_order_left_out_was_not_sent() -> None:
    """All its files are there, and they hold all that it sent."""
    whole = [file(even_rows(2), last=False, flush=0), file(even_rows(0), flush=1)]
    assert account_for(join(grid(4), STARTED, whole, [], DRAIN_NS)).unsent == 2
    torn = [file(even_rows(2), flush=1)]
    assert account_for(join(grid(4), STARTED, torn, [], DRAIN_NS)).unrecorded == 2


def test_an_arrival_proves_that_its_event_was_sent() -> None:
    """No started mark, no row, but there it is: unrecorded, and not unsent."""
    joined = join(grid(2), set(), [], [read_item(entry(1, 105))], DRAIN_NS)
    found = account_for(joined)
    assert (found.unsent, found.unrecorded, found.unrecorded_arrived) == (1, 1, 1)


@pytest.mark.parametrize("attempt", [0, ANY_ATTEMPT])
def test_an_arrival_of_an_event_that_its_attempt_did_not_send_is_a_contradiction(attempt: int) -> None:
    """Never papered over; deletions, whose keys name no attempt, follow the same rule."""
    rows = even_rows(2, outcome=[Outcome.OK, UNSENT])
    with pytest.raises(AccountingError, match="1 event arrived that the writer says it did not send"):
        join(grid(2), STARTED, [file(rows)], [read_item(entry(1, 105, attempt=attempt))], DRAIN_NS)


def test_two_attempts_that_both_sent_an_event_are_told_apart() -> None:
    """A zombie and its successor: the first row stands, the other's arrival is nobody's latency."""
    files = [file(even_rows(2), attempt=1), file(even_rows(2), attempt=0)]
    arrivals = [read_item(entry(0, 3, attempt=1)), read_item(entry(0, 9, attempt=0), request="other")]
    joined = join(grid(2), STARTED, files, arrivals, DRAIN_NS)
    assert (joined.sent_twice, joined.unmatched) == (2, 1)
    assert joined.t4_ns[0] == START_NS + 9 * MS


def test_a_sent_row_stands_before_an_unsent_one() -> None:
    """Attempt 0 came too late for event 0 and died; attempt 1 cannot have sent it, but attempt 2 says it did."""
    files = [file(even_rows(1, outcome=[UNSENT])), file(even_rows(1), attempt=2)]
    joined = join(grid(1), STARTED, files, [], DRAIN_NS)
    assert (joined.outcome[0], joined.attempt[0], joined.sent_twice) == (Outcome.OK, 2, 0)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([file(even_rows(3))], "0-0000-0000-00 recorded events that its schedule does not have"),
        ([file(even_rows(1, first_sequence=2))], "recorded events that its schedule does not have"),
        ([file(even_rows(2)), file(even_rows(1), flush=1)], "recorded an event twice"),
    ],
)
def test_rows_outside_the_schedule_and_two_of_one_event_are_contradictions(
    files: list[ColumnFile], message: str
) -> None:
    """Another plan's records, or a bug; two rows with two answers cannot both be true."""
    with pytest.raises(AccountingError, match=message):
        join(grid(2), STARTED, files, [], DRAIN_NS)


def test_error_codes_of_all_files_share_one_table() -> None:
    """Each file numbers its own."""
    rows = even_rows(2, outcome=[Outcome.FAILED, Outcome.UNKNOWN])._replace(error=np.array([1, 2], dtype=np.uint16))
    other = even_rows(1, first_sequence=2, outcome=[Outcome.FAILED])._replace(error=np.array([1], dtype=np.uint16))
    files = [file(rows, errors=("", "Throttled", "timeout")), file(other, flush=1, errors=("", "timeout"))]
    joined = join(grid(3), STARTED, files, [], DRAIN_NS)
    assert [joined.errors[code] for code in joined.error] == ["Throttled", "timeout", "timeout"]


RETRIES = [read_item(entry(0, t4_ms), request=request) for t4_ms, request in ((9, "b"), (8, "a"), (5, "a"), (12, "b"))]
"""Lambda's retry of A's request after 3 ms, a redelivery after 4 ms, its retry after 7 ms."""
ONE_BATCH = [read_item(entry(0, 5), entry(0, 5, index=1))]
"""The request id is equal, but the function was not called again for it."""
WATCHED = [
    read_item(entry(0, t4_ms, position=position), request=f"w{t4_ms}", source=f"watcher#{lane}")
    for t4_ms, position, lane in ((5, 70, 0), (4, 70, 1), (6, 71, 1))
]
"""An equal position is the same change, seen by two watchers; another position is the same event written again."""


@pytest.mark.parametrize(
    ("arrivals", "t4_ms", "duplicates", "retried"), [(RETRIES, 5, 3, 2), (ONE_BATCH, 5, 1, 0), (WATCHED, 4, 1, 0)]
)
def test_the_earliest_arrival_counts_and_repeats_are_told_apart(
    arrivals: list[T4Item], t4_ms: int, duplicates: int, retried: int
) -> None:
    """Each of the stories above has one event."""
    joined = join(grid(1), STARTED, [file(even_rows(1))], arrivals, DRAIN_NS)
    found = account_for(joined)
    assert joined.t4_ns[0] == START_NS + t4_ms * MS
    assert (found.received, found.duplicates, found.retried) == (1, duplicates, retried)


def test_an_arrival_after_the_drain_limit_is_late_and_lost() -> None:
    """The limit runs from the last acknowledgement: 101.05 ms + 5 s; the arrival at the limit still counts."""
    arrivals = [read_item(entry(0, 5_101.05), request="in"), read_item(entry(1, 5_101.06), request="out")]
    joined = join(grid(2), STARTED, [file(even_rows(2))], arrivals, DRAIN_NS)
    found = account_for(joined)
    assert (found.received, found.late, found.lost) == (1, 1, 1)


def test_order_is_by_writer_and_within_a_batch_by_place() -> None:
    """Writer 0: 1 before 0. Writer 1 in order, though all its arrivals are later than writer 0's."""
    arrivals = [read_item(entry(1, 300), entry(0, 300, index=1), entry(0, 300, writer=1, index=2))]
    arrivals.append(read_item(entry(1, 400, writer=1), request="later"))
    rows = writer_rows([START_NS, START_NS + 200 * MS])
    other = writer_rows([START_NS + 100 * MS, START_NS + 300 * MS])
    joined = join(grid(4, writers=2), STARTED, [file(rows), file(other, writer=1)], arrivals, DRAIN_NS)
    assert joined.disorder.tolist() == [True, False, False, False]
    assert account_for(joined).out_of_order == 1


def test_updates_are_found_by_their_token() -> None:
    """S3 tells a key and a version id; the writer knows which event that version is."""
    rows = even_rows(2, tokens=("v7", "v8"))
    unresolved = [Entry(UNRESOLVED_PHASE, 0, 0, 0, index, 3, START_NS + 120 * MS) for index in range(3)]
    arrived = read_item(*unresolved, tokens=["v8", "preload", ""])
    joined = join(grid(2), STARTED, [file(rows, attempt=1)], [arrived], DRAIN_NS)
    assert (joined.t4_ns > 0).tolist() == [False, True]
    assert joined.unmatched == 2


def test_canaries_stand_outside_the_books() -> None:
    """They are sent before the load, and prove delivery only."""
    canary = Entry(CANARY_PHASE, 0, 0, 0, 0, 1, START_NS)
    joined = join(grid(1), STARTED, [file(even_rows(1))], [read_item(canary, entry(0, 5))], DRAIN_NS)
    found = account_for(joined)
    assert (joined.canaries, joined.unmatched, found.canaries, found.received) == (1, 0, 1, 1)


def test_books_that_do_not_balance_are_refused() -> None:
    """The times are equal, whoever computes them."""
    good = account_for(join(grid(1), STARTED, [file(even_rows(1))], [], DRAIN_NS))
    with pytest.raises(AccountingError, match="lost = ok - ok arrived"):
        check(good.model_copy(update={"lost": 0}))


def test_a_deletion_belongs_to_whichever_attempt_made_it() -> None:
    """Its key was there before any attempt, and names none; unrecorded ones are proved to have been sent, too."""
    first = even_rows(3, outcome=[Outcome.OK, UNSENT, UNSENT])
    second = writer_rows([START_NS + 100 * MS], first_sequence=1)
    files = [file(first, last=False), file(second, attempt=1, last=False)]
    arrived = [read_item(*(entry(n, 150 + n, attempt=ANY_ATTEMPT) for n in (0, 1)))]
    joined = join(grid(3), STARTED, files, arrived, DRAIN_NS)
    assert joined.arrived.tolist() == [True, True, False]
    assert (joined.attempt[:2].tolist(), joined.unmatched) == ([0, 1], 0)
    unrecorded = join(grid(1), STARTED, [], [read_item(entry(0, 150, attempt=ANY_ATTEMPT))], DRAIN_NS)
    assert (unrecorded.outcome.tolist(), unrecorded.arrived.tolist()) == ([UNRECORDED], [True])


def test_two_watches_that_stood_still_deliver_what_is_in_their_gap() -> None:
    """Both were to hand over and went on one after the other: whichever delivers it, event 0 had waited for them."""
    rows = writer_rows([START_NS, START_NS + 7_000 * MS])
    arrivals = [
        read_item(entry(0, 6_002), request="a", source="watcher#1", sandbox="other"),
        read_item(entry(1, 7_002), request="b", source="watcher#1", sandbox="other"),
    ]
    gaps = [WatchGap("first", START_NS - SECOND_NS, START_NS + 6 * SECOND_NS)]
    assert join(grid(2), STARTED, [file(rows)], arrivals, DRAIN_NS, gaps=gaps).watch_gap.tolist() == [True, False]


def test_a_watch_that_is_taken_up_after_the_drain_limit_brings_what_was_not_lost() -> None:
    """Event 0 was acknowledged before the watch began, at 6 s; event 1 is late because of the store."""
    rows = writer_rows([START_NS, START_NS + 100 * MS], service_ns=[MS, 6_500 * MS])
    arrivals = [read_item(entry(0, 12_000), entry(1, 12_000), source="watcher#0", sandbox="again")]
    gaps = [WatchGap("again", START_NS - SECOND_NS, START_NS + 6 * SECOND_NS)]
    joined = join(grid(2), STARTED, [file(rows)], arrivals, DRAIN_NS, gaps=gaps)
    assert (joined.watch_gap.tolist(), joined.late.tolist()) == ([True, False], [False, True])
    found = account_for(joined)
    assert (found.received, found.watch_gap, found.late, found.lost) == (1, 1, 1, 1)

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.samples.records import column_header, concatenate

from stepbench.errors import LONGEST_ERROR
from stepbench.load.recorder import MOST_ERRORS, GrowingRecorder, OperationRecorder, Recorder
from stepbench.model.errors import OTHER_ERRORS
from stepbench.model.request import ConnectionParts, Outcome, Result
from stepbench.records.formats.columns import UNSENT, decode, encode

OK = Result(5, 6, Outcome.OK)


def recorder(rows: int) -> Recorder:
    """Make a recorder of rows due at 0, 10, 20, … ns."""
    return Recorder(np.arange(rows, dtype=np.int64) * 10)


def close(kept: Recorder | GrowingRecorder, number: int, result: Result) -> None:
    """Record what became of one request."""
    if isinstance(kept, Recorder):
        kept.record(number, result)
    else:
        kept.record(number, 100 + number, number % 6, number * 10, result)


@pytest.fixture(params=["planned", "growing"])
def kept(request: pytest.FixtureRequest) -> Recorder | GrowingRecorder:
    """Make the recorder of each engine."""
    return recorder(5) if request.param == "planned" else GrowingRecorder()


def test_what_was_taken_does_not_change_with_what_comes_later(kept: Recorder | GrowingRecorder) -> None:
    """It is encoded on another thread while the columns go on filling; a row in two flushes would be sent twice."""
    close(kept, 0, OK)
    taken = kept.take()
    assert taken.tokens == ()  # most stores tell none; a string a row would outweigh the rest of the file
    for number in (1, 2, 3):
        close(kept, number, Result(7, 8, Outcome.FAILED, error="no"))
    assert (taken.t2_ns.tolist(), taken.sequence.tolist()) == ([6], [0])
    assert (kept.take().sequence.tolist(), kept.take().sequence.size) == ([1, 2, 3], 0)


def test_tokens_and_errors_stay_with_their_rows_and_indices_stay_valid(kept: Recorder | GrowingRecorder) -> None:
    """An S3 update is known by its version id alone; error codes are numbered across flushes."""
    close(kept, 0, Result(5, 6, Outcome.FAILED, error="timeout"))
    assert kept.take().error.tolist() == [1]
    close(kept, 1, Result(5, 6, Outcome.OK, "v1"))
    close(kept, 2, Result(5, 6, Outcome.FAILED, error="refused"))
    close(kept, 3, Result(5, 6, Outcome.FAILED, error="timeout"))
    close(kept, 4, Result(5, 6, Outcome.OK, "v4"))
    rows = kept.take()
    assert (rows.tokens, rows.error.tolist()) == (("v1", "", "", "v4"), [0, 2, 1, 0])
    assert (kept.errors, kept.counts) == (("", "timeout", "refused"), [2, 3, 0, 0])


def test_counters_add_up() -> None:
    """The progress display and the state's output come from them."""
    kept = recorder(5)
    for row, outcome in enumerate((Outcome.OK, Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN)):
        kept.record(row, Result(1, 2, outcome))
    kept.unsent(0, 5)
    assert kept.progress() == {"sent": 4, "ok": 2, "failed": 1, "unknown": 1, "planned": 5}
    assert kept.counts[UNSENT] == 1


def test_endlessly_many_error_texts_do_not_overflow_their_column() -> None:
    """An error code with a request id in it would."""
    kept = recorder(70_000)
    for row in range(70_000):
        kept.record(row, Result(1, 2, Outcome.FAILED, error=f"error {row}"))
    rows = kept.take()
    assert (kept.errors[rows.error[0]], kept.errors[rows.error[-1]]) == ("error 0", OTHER_ERRORS)


def test_a_long_error_fills_no_file() -> None:
    """A store may answer with megabytes; what is the same is one error all the same."""
    kept = recorder(2)
    for row in range(2):
        kept.record(row, Result(1, 2, Outcome.FAILED, error="x" * 10**7))
    assert [len(error) for error in kept.errors] == [0, LONGEST_ERROR]
    assert kept.take().error.tolist() == [1, 1]


def test_a_known_error_is_counted_as_itself_however_many_came_later() -> None:
    """Also one that was cut."""
    kept = recorder(302)
    for row in range(302):
        long = row in {0, 301}
        kept.record(row, Result(1, 2, Outcome.FAILED, error="x" * 130 if long else f"error {row}"))
    codes = kept.take().error
    assert (codes[0], codes[301], len(kept.errors)) == (1, 1, MOST_ERRORS + 1)


def test_operations_have_their_columns_beside_the_rows_that_were_closed() -> None:
    """Open loop: kind and connection are noted at the send, what came of it with the answer."""
    kept = OperationRecorder(np.arange(4, dtype=np.int64) * 10, first_sequence=7)
    for sequence, kind, client in ((7, 1, 9_999_999), (8, 5, 2), (9, 3, 4)):
        kept.start(sequence, kind, client)
    kept.record(1, Result(1, 2, Outcome.OK, retries=4))
    kept.record(0, Result(1, 2, Outcome.OK))
    first = kept.take()
    assert {name: column.tolist() for name, column in first.extras.items()} == {
        "client": [9_999_999, 2],
        "kind": [1, 5],
        "retries": [0, 4],
    }
    kept.record(2, Result(1, 2, Outcome.OK))
    kept.unsent(3, 4)
    assert {name: column.tolist() for name, column in kept.take().extras.items()} == {"client": [4, 0], "kind": [3, 0]}


def test_rows_are_complete_and_in_order_while_more_are_recorded() -> None:
    """A thread copies what was handed over, and the load goes on; notes may be there before their rows are closed."""
    batch, batches = 5_000, 6
    kept = OperationRecorder(np.arange(batch * batches, dtype=np.int64) * 10, first_sequence=3)
    order: list[int] = np.random.default_rng(7).permutation(batch * batches).tolist()
    with ThreadPoolExecutor(1) as aside:
        building = []
        for at in range(0, len(order), batch):
            for row in order[at : at + batch]:
                operated = Result(row, row + 1, Outcome.OK, f"t{row}" if row % 2 else "", retries=row % 3)
                kept.start(row + 3, row % 6, row % 7)
                kept.record(row, operated)
            handed_over = kept.hand_over()
            assert handed_over.size == batch
            building.append(aside.submit(handed_over.rows))
    parts = [each.result() for each in building]
    assert [part.sequence.tolist() for part in parts] == [
        sorted(row + 3 for row in order[at : at + batch]) for at in range(0, len(order), batch)
    ]
    rows = concatenate(parts)
    place = rows.sequence - 3
    assert np.array_equal(rows.t1_ns, place)
    assert rows.tokens == tuple(f"t{row}" if row % 2 else "" for row in place.tolist())
    assert np.array_equal(rows.extras["retries"], place % 3)
    assert np.array_equal(rows.extras["client"], place % 7)
    assert np.array_equal(rows.extras["kind"], place % 6)


def test_an_open_row_is_looked_for_again_after_all_behind_it() -> None:
    """A write without an answer for minutes, while the others' rows go out, each once and in order."""
    kept = recorder(6)
    for row in (3, 0, 2):
        kept.record(row, OK)
    assert (kept.take().sequence.tolist(), kept.take().sequence.size) == ([0, 2, 3], 0)
    kept.record(5, OK)
    assert kept.take().sequence.tolist() == [5]
    kept.record(1, OK)
    assert kept.take().sequence.tolist() == [1]
    kept.unsent(0, 6)
    rows = kept.take()
    assert (rows.sequence.tolist(), rows.outcome.tolist(), kept.take().sequence.size) == ([4], [UNSENT], 0)


@pytest.fixture
def growing() -> GrowingRecorder:
    """Make an empty one."""
    return GrowingRecorder()


def write(growing: GrowingRecorder, sequence: int, *, token: str = "", error: str = "") -> None:
    """Record an operation that took from 10 to 20 after being due at its number."""
    outcome = Outcome.FAILED if error else Outcome.OK
    growing.record(sequence, 100 + sequence, sequence % 6, sequence, Result(10, 20, outcome, token, error))


def test_numbers_are_given_in_the_order_of_beginning_and_taken_in_it(growing: GrowingRecorder) -> None:
    """Answers come in any order; column files are by ascending sequence."""
    numbers = [growing.start() for _ in range(3)]
    for sequence in reversed(numbers):
        write(growing, sequence, token=f"t{sequence}")
    taken = growing.take()
    assert taken.sequence.tolist() == taken.t0_ns.tolist() == numbers == [0, 1, 2]
    assert (taken.extras["client"].tolist(), taken.extras["kind"].tolist()) == ([100, 101, 102], [0, 1, 2])
    assert taken.tokens == ("t0", "t1", "t2")


def test_rows_that_grow_are_complete_and_in_order_while_more_are_recorded(growing: GrowingRecorder) -> None:
    """A thread puts together what was handed over, and the load goes on."""
    batch, batches, order = 5_000, 6, np.random.default_rng(7)
    with ThreadPoolExecutor(1) as aside:
        building = []
        for _ in range(batches):
            numbers = [growing.start() for _ in range(batch)]
            for sequence in order.permutation(numbers).tolist():
                connecting = ConnectionParts(sequence, 0, 0, 1)
                operated = Result(10, 20, Outcome.OK, f"t{sequence}", "", sequence % 3, connecting)
                growing.record(sequence, sequence % 7, sequence % 6, sequence, operated)
            handed_over = growing.hand_over()
            assert (handed_over.size, growing.waiting) == (batch, 0)
            building.append(aside.submit(handed_over.rows))
    rows = concatenate([each.result() for each in building])
    numbers = list(range(batch * batches))
    assert rows.sequence.tolist() == rows.t0_ns.tolist() == numbers
    assert rows.tokens == tuple(f"t{number}" for number in numbers)
    assert rows.extras["client"].tolist() == [number % 7 for number in numbers]
    assert rows.extras["retries"].tolist() == [number % 3 for number in numbers]
    assert rows.extras["connect_ns"].tolist() == numbers


def test_somebody_is_told_once_that_too_much_waits() -> None:
    """A store that refuses at once makes rows faster than a flush expects."""
    told: list[int] = []
    watched = GrowingRecorder(max_waiting_rows=3, full=lambda: told.append(watched.waiting))
    for sequence in range(5):
        write(watched, sequence)
    assert told == [3]
    watched.take()
    for sequence in range(5, 8):
        write(watched, sequence)
    assert told == [3, 3]


def test_rows_fit_the_column_files(growing: GrowingRecorder) -> None:
    """The same files and readers serve both engines."""
    for sequence in (growing.start(), growing.start()):
        write(growing, sequence, error="timeout")
    rows = growing.take()
    read = decode("key", encode(column_header(errors=growing.errors), rows)).rows
    assert [column.tolist() for column in read[:6]] == [column.tolist() for column in rows[:6]]
    assert {name: column.tolist() for name, column in read.extras.items()} == {"client": [100, 101], "kind": [0, 1]}


def test_retries_and_connections_are_columns_only_where_there_are_any(growing: GrowingRecorder) -> None:
    """A flush without a conflict costs nothing for it."""
    write(growing, 0)
    growing.record(1, 7, 0, 1, Result(10, 20, Outcome.OK, retries=2))
    growing.record(2, 7, 0, 2, Result(10, 20, Outcome.OK, connecting=ConnectionParts(5, 0, 3, 2)))
    taken = growing.take().extras
    assert (taken["retries"].tolist(), taken["connect_ns"].tolist()) == ([0, 2, 0], [0, 0, 5])
    assert (taken["authenticate_ns"].tolist(), taken["operate_ns"].tolist()) == ([0, 0, 3], [0, 0, 2])
    assert "tls_ns" not in taken
    write(growing, 3)
    assert set(growing.take().extras) == {"client", "kind"}

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from stepbench.drivers.protocol import Connecting, Operated, Outcome
from stepbench.load.growing_recorder import GrowingRecorder
from stepbench.records.columns import concatenate, decode, encode
from stepbench.testing.records import column_header


@pytest.fixture
def recorder() -> GrowingRecorder:
    """Empty."""
    return GrowingRecorder()


def write(recorder: GrowingRecorder, sequence: int, *, token: str = "", error: str = "") -> None:
    """An operation that took from 10 to 20 after being due at its number."""
    outcome = Outcome.FAILED if error else Outcome.OK
    recorder.record(sequence, 100 + sequence, sequence % 6, sequence, Operated(10, 20, outcome, token, error))


def test_numbers_are_given_in_the_order_of_beginning_and_taken_in_it(recorder: GrowingRecorder) -> None:
    """Answers come in any order; column files are by ascending sequence."""
    numbers = [recorder.begin() for _ in range(3)]
    for sequence in reversed(numbers):
        write(recorder, sequence, token=f"t{sequence}")
    taken = recorder.take()
    assert taken.sequence.tolist() == taken.t0_ns.tolist() == numbers == [0, 1, 2]
    assert taken.extras["client"].tolist() == [100, 101, 102]
    assert taken.extras["kind"].tolist() == [0, 1, 2]
    assert taken.tokens == ("t0", "t1", "t2")


def test_every_row_is_taken_once_and_nothing_stays(recorder: GrowingRecorder) -> None:
    """Memory is what one flush holds, however long the load lasts."""
    write(recorder, 0)
    first = recorder.take()
    write(recorder, 1)
    second = recorder.take()
    assert (first.sequence.tolist(), second.sequence.tolist()) == ([0], [1])
    assert recorder.waiting == 0
    assert recorder.take().sequence.size == 0


def test_what_was_taken_does_not_change_with_what_comes_later(recorder: GrowingRecorder) -> None:
    """A thread on the side encodes it meanwhile."""
    write(recorder, 0)
    taken = recorder.take()
    for sequence in range(1, 1_000):
        write(recorder, sequence)
    assert taken.t2_ns.tolist() == [20]


def test_rows_are_complete_and_in_order_while_more_are_recorded(recorder: GrowingRecorder) -> None:
    """A thread puts together what was handed over, and the load goes on."""
    batch, batches, order = 5_000, 6, np.random.default_rng(7)
    with ThreadPoolExecutor(1) as aside:
        building = []
        for _ in range(batches):
            numbers = [recorder.begin() for _ in range(batch)]
            for sequence in order.permutation(numbers).tolist():
                connecting = Connecting(sequence, 0, 0, 1)
                operated = Operated(10, 20, Outcome.OK, f"t{sequence}", "", sequence % 3, connecting)
                recorder.record(sequence, sequence % 7, sequence % 6, sequence, operated)
            handed_over = recorder.hand_over()
            assert (handed_over.size, recorder.waiting) == (batch, 0)
            building.append(aside.submit(handed_over.rows))
    rows = concatenate([each.result() for each in building])
    numbers = list(range(batch * batches))
    assert rows.sequence.tolist() == rows.t0_ns.tolist() == numbers
    assert rows.tokens == tuple(f"t{number}" for number in numbers)
    assert rows.extras["client"].tolist() == [number % 7 for number in numbers]
    assert rows.extras["retries"].tolist() == [number % 3 for number in numbers]
    assert rows.extras["connect_ns"].tolist() == numbers


def test_errors_and_outcomes_are_counted_across_flushes(recorder: GrowingRecorder) -> None:
    """Indices into the error codes stay valid."""
    write(recorder, 0, error="timeout")
    assert recorder.take().error.tolist() == [1]
    write(recorder, 1, error="refused")
    write(recorder, 2, error="timeout")
    assert recorder.take().error.tolist() == [2, 1]
    assert recorder.errors == ("", "timeout", "refused")
    assert recorder.counts == [0, 3, 0, 0]


def test_tokens_are_left_out_where_there_are_none(recorder: GrowingRecorder) -> None:
    """A read has none; where one row has, the others' are empty."""
    write(recorder, 0)
    assert recorder.take().tokens == ()
    write(recorder, 1)
    write(recorder, 2, token="x")  # noqa: S106 -- the store's name of a change
    assert recorder.take().tokens == ("", "x")


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


def test_rows_fit_the_column_files(recorder: GrowingRecorder) -> None:
    """The same files and readers serve both engines."""
    for sequence in (recorder.begin(), recorder.begin()):
        write(recorder, sequence, error="timeout")
    rows = recorder.take()
    read = decode("key", encode(column_header(errors=recorder.errors), rows)).rows
    assert [column.tolist() for column in read[:6]] == [column.tolist() for column in rows[:6]]
    assert {name: column.tolist() for name, column in read.extras.items()} == {"client": [100, 101], "kind": [0, 1]}


def test_retries_and_connections_are_columns_only_where_there_are_any(recorder: GrowingRecorder) -> None:
    """A flush without a conflict costs nothing for it."""
    write(recorder, 0)
    recorder.record(1, 7, 0, 1, Operated(10, 20, Outcome.OK, retries=2))
    recorder.record(2, 7, 0, 2, Operated(10, 20, Outcome.OK, connecting=Connecting(5, 0, 3, 2)))
    taken = recorder.take().extras
    assert taken["retries"].tolist() == [0, 2, 0]
    assert taken["connect_ns"].tolist() == [0, 0, 5]
    assert taken["authenticate_ns"].tolist() == [0, 0, 3]
    assert taken["operate_ns"].tolist() == [0, 0, 2]
    assert "tls_ns" not in taken
    write(recorder, 3)
    assert set(recorder.take().extras) == {"client", "kind"}

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from stepbench.drivers.protocol import Operated, Outcome, Written
from stepbench.load.recorder import OperationRecorder, Recorder
from stepbench.records.columns import UNSENT, concatenate

OK = Written(5, 6, Outcome.OK)


def recorder(rows: int) -> Recorder:
    """Rows due at 0, 10, 20, … ns."""
    return Recorder(np.arange(rows, dtype=np.int64) * 10)


def test_each_closed_row_is_taken_once_and_in_order() -> None:
    """A row in two flushes would be an event that was sent twice."""
    kept = recorder(5)
    kept.record(3, OK)
    kept.record(0, OK)
    assert kept.take().sequence.tolist() == [0, 3]
    kept.record(1, OK)
    assert kept.take().sequence.tolist() == [1]
    kept.unsent(0, 5)
    assert kept.take().sequence.tolist() == [2, 4]
    assert kept.take().sequence.size == 0


def test_what_was_taken_does_not_change_under_the_flush() -> None:
    """It is encoded on another thread while the columns go on filling."""
    kept = recorder(2)
    kept.record(0, OK)
    taken = kept.take()
    kept.record(1, Written(7, 8, Outcome.FAILED, error="no"))
    assert taken.t2_ns.tolist() == [6]


def test_tokens_and_errors_stay_with_their_rows() -> None:
    """An S3 update is known by its version id alone."""
    kept = recorder(3)
    kept.record(0, Written(5, 6, Outcome.OK, "v0"))
    kept.record(1, Written(5, 6, Outcome.FAILED, error="SlowDown"))
    kept.record(2, Written(5, 6, Outcome.OK, "v2"))
    rows = kept.take()
    assert rows.tokens == ("v0", "", "v2")
    assert [kept.errors[index] for index in rows.error] == ["", "SlowDown", ""]


def test_without_any_token_there_is_no_column_of_empty_ones() -> None:
    """Most stores tell none; a string a row would outweigh the rest of the file."""
    kept = recorder(1)
    kept.record(0, OK)
    assert kept.take().tokens == ()


def test_counters_add_up() -> None:
    """The progress display and the state's output come from them."""
    kept = recorder(5)
    for row, outcome in enumerate((Outcome.OK, Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN)):
        kept.record(row, Written(1, 2, outcome))
    kept.unsent(0, 5)
    assert kept.progress() == {"sent": 4, "ok": 2, "failed": 1, "unknown": 1, "planned": 5}
    assert kept.counts[UNSENT] == 1


def test_endlessly_many_error_texts_do_not_overflow_their_column() -> None:
    """An error code with a request id in it would."""
    kept = recorder(70_000)
    for row in range(70_000):
        kept.record(row, Written(1, 2, Outcome.FAILED, error=f"error {row}"))
    rows = kept.take()
    assert kept.errors[rows.error[0]] == "error 0"
    assert kept.errors[rows.error[-1]] == "other"


def test_operations_have_their_columns_beside_the_rows_that_were_closed() -> None:
    """Open loop: kind and connection are noted at the send, what came of it with the answer."""
    kept = OperationRecorder(np.arange(4, dtype=np.int64) * 10, first_sequence=7)
    for sequence, kind, client in ((7, 1, 9_999_999), (8, 5, 2), (9, 3, 4)):
        kept.begin(sequence, kind, client)
    kept.record(1, Operated(1, 2, Outcome.OK, retries=4))
    kept.record(0, Operated(1, 2, Outcome.OK))
    first = kept.take()
    assert {name: column.tolist() for name, column in first.extras.items()} == {
        "client": [9_999_999, 2],
        "kind": [1, 5],
        "retries": [0, 4],
    }
    kept.record(2, Operated(1, 2, Outcome.OK))
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
                operated = Operated(row, row + 1, Outcome.OK, f"t{row}" if row % 2 else "", retries=row % 3)
                kept.begin(row + 3, row % 6, row % 7)
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
    """A write without an answer for minutes, while the others' rows go out."""
    kept = recorder(6)
    for row in (0, 2, 3):
        kept.record(row, OK)
    assert kept.take().sequence.tolist() == [0, 2, 3]
    assert kept.take().sequence.size == 0
    kept.record(5, OK)
    assert kept.take().sequence.tolist() == [5]
    kept.record(1, OK)
    assert kept.take().sequence.tolist() == [1]
    kept.unsent(0, 6)
    rows = kept.take()
    assert (rows.sequence.tolist(), rows.outcome.tolist()) == ([4], [UNSENT])
    assert kept.take().sequence.size == 0

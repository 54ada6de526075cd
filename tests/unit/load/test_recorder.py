from __future__ import annotations

import numpy as np

from stepbench.drivers.protocol import Outcome, Written
from stepbench.load.recorder import Recorder
from stepbench.records.columns import UNSENT

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

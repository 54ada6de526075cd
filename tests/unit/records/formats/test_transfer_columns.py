from __future__ import annotations

import numpy as np

from stepbench.contracts.transfer.rows import TransferRow
from stepbench.records.formats.transfer_columns import FAILED, OK, UNTOLD, TransferColumns


def row(number: int = 0, **fields: object) -> TransferRow:
    """Return a row of 2 MiB from EFS to Lambda that began at second `number`, with some fields otherwise."""
    usual = {
        "run_id": "run",
        "trial": 0,
        "number": number,
        "attempt": 0,
        "place": 0,
        "due_at_ns": number * 10**9,
        "began_at_ns": number * 10**9,
        "platform": "lambda",
        "source": "efs",
        "path": "files/7/2.bin",
        "file_bytes": 2 * 2**20,
        "received_bytes": 2 * 2**20,
        "sandbox": f"sandbox-{number}",
        "served": 0,
        "outcome": "ok",
    }
    return TransferRow.model_validate(usual | fields)


def test_what_a_row_does_not_tell_is_missing_and_never_zero() -> None:
    """A first byte after 0 ns, or no CPU time at all, would be a finding."""
    columns = TransferColumns.of([row()])
    untold = ("first_byte_ns", "transfer_ns", "connect_ns", "cold", "digest_ok", "cpu_ns", "memory_bytes")
    assert all(getattr(columns, name).tolist() == [UNTOLD] for name in untold)
    assert np.isnan(columns.cached_share[0])
    assert columns.marks(0).size == 0


def test_what_a_row_tells_is_there() -> None:
    """Names become places in the contract's own lists, which the Parquet file spells out again."""
    told = row(transfer_ns=5, cold=True, digest_ok=False, source="s3", outcome="failed", error="reset", mib_ns=(2, 5))
    columns = TransferColumns.of([row(), told])
    assert columns.transfer_ns.tolist() == [UNTOLD, 5]
    assert (columns.cold[1], columns.digest_ok[1]) == (1, 0)
    assert columns.outcome.tolist() == [OK, FAILED]
    assert columns.error.table[columns.error.codes[1]] == "reset"
    assert columns.marks(1).tolist() == [2, 5]


def test_a_part_keeps_each_reads_own_marks() -> None:
    """Marks of all reads lie in one array: taking some reads must not shift them."""
    columns = TransferColumns.of([row(0, mib_ns=(1, 2)), row(1), row(2, mib_ns=(3,)), row(3, mib_ns=(4, 5))])
    part = columns.take(np.array([3, 1, 0]))
    assert [part.marks(read).tolist() for read in range(3)] == [[4, 5], [], [1, 2]]
    assert part.number.tolist() == [3, 1, 0]
    masked = columns.take(np.array([False, False, True, True]))
    assert masked.mib_ns.tolist() == [3, 4, 5]


def test_no_rows_are_empty_columns() -> None:
    """A span without transfers has a report, too."""
    columns = TransferColumns.of([])
    assert columns.size == 0
    assert columns.mib_offsets.tolist() == [0]

"""Rows of tasks as bytes: what is packed comes back, however many objects a task reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.samples.dag_rows import MS, blob, dag_end, task_row

from stepbench.contracts.dataflow.dag import MAX_READS
from stepbench.errors import CorruptRecordsError
from stepbench.records.formats.dag_rows import (
    cut_in_parts,
    decode_end,
    decode_task,
    encode_end,
    encode_task,
    join_parts,
)

if TYPE_CHECKING:
    from stepbench.contracts.dataflow.rows import TaskRow

ITEM_BYTES = 400_000


def _row(reads: int) -> TaskRow:
    whole_ns = np.random.default_rng(1).integers(2 * MS, 90 * MS, reads).tolist()
    blobs = [
        blob("get", f"map-{each}/join-0", each + 0.123456, whole_ns=whole, wait_ns=each)
        for each, whole in enumerate(whole_ns)
    ]
    return task_row("join", 0, reads + 100, *blobs, compute_ns=7, result='{"n": 3}', cold=True)


@pytest.mark.parametrize("reads", [0, 1, 1_000])
def test_a_row_comes_back(reads: int) -> None:
    """Times are stored as differences, and transfers as columns."""
    row = _row(reads)
    assert decode_task(encode_task(row)) == row


def test_the_largest_row_fits_into_items() -> None:
    """DynamoDB refuses an item of more than 400 kB, and the row would be lost with what it tells."""
    body = encode_task(_row(MAX_READS))
    parts = list(cut_in_parts(body))
    assert max(map(len, parts)) < ITEM_BYTES - 1_000
    assert join_parts(list(enumerate(parts))[::-1]) == body


def test_an_end_comes_back() -> None:
    """What failed tells why."""
    end = dag_end(5, completed=False, error="TaskFailedError", cause="of a task", deleted=3, left=1)
    assert decode_end(encode_end(end)) == end


@pytest.mark.parametrize("body", [b"", b"somebody's", encode_end(dag_end(1))[:-3], encode_end(dag_end(1))])
def test_what_is_no_row_is_told(body: bytes) -> None:
    """It may be cut, or another's: analysis goes on without it, and says so."""
    with pytest.raises(CorruptRecordsError, match="cannot be read"):
        decode_task(body)

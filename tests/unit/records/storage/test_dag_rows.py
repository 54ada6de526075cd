"""Rows of tasks in the results table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.samples.dag_rows import MS, blob, dag_end, event_text, task_row
from tests.samples.dags import stage
from tests.samples.records import REF
from tests.samples.services import MemoryServices

from stepbench.contracts.dataflow.dag import MAX_READS, Dag
from stepbench.errors import CorruptRecordsError
from stepbench.experiments.dataflow.trial import DataflowAnalysis
from stepbench.records.storage import dag_rows as formats
from stepbench.records.storage import layout
from stepbench.records.storage.dag_rows import (
    DagRows,
    StoredTasks,
    cut_in_parts,
    decode_end,
    decode_task,
    encode_end,
    encode_task,
    join_parts,
    read_dag_ends,
    recorded_ends,
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


def test_rows_come_back_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any shard, and of several parts; a retried task has a row for each attempt."""
    monkeypatch.setattr(formats, "_PART_BYTES", 40)
    table = MemoryServices().services.table
    rows = [
        task_row(stage, 0, 9, blob("put", "a-0/b-0", 3), event=event_text(event), index=index, attempt=attempt)
        for event in range(3)
        for stage in ("a", "b")
        for index in range(12)
        for attempt in range(2)
    ]
    for row in reversed(rows):
        DagRows(table).put_task(REF.tag, row)
    stored = StoredTasks.read(REF.tag, table)
    assert stored.events == tuple(map(event_text, range(3)))
    assert [row for event in stored.events for row in stored.of(event)] == rows
    assert stored.damaged == ()
    assert stored.by_stage(event_text(1)) == {"a": 24, "b": 24}
    assert stored.write_units == 3 * 2 * 12 * 2  # each of less than a KiB


def test_what_ran_the_tasks_is_known_by_their_rows() -> None:
    """So many lines there have to be in the logs of each function, or the bill is not whole."""
    table = MemoryServices().services.table
    dag = Dag.model_validate(
        {"name": "dag", "stages": [stage("cut", task="video.split"), stage("work", ("cut", "scatter"))]}
    )
    for name, index, attempt in (("cut", 0, 0), ("cut", 0, 1), ("work", 0, 0), ("work", 1, 0), ("work", 2, 0)):
        DagRows(table).put_task(REF.tag, task_row(name, 0, 9, event=event_text(0), index=index, attempt=attempt))
    records = DataflowAnalysis(StoredTasks.read(REF.tag, table), (dag_end(9, event=event_text(0), dag="dag"),), (), 0)
    assert records.invocations([dag]) == {"RunVideoTask": 2, "RunTask": 3}
    assert records.write_units == 5 + 1


def test_ends_are_known_without_their_rows() -> None:
    """While the trial waits for arrivals it looks every few seconds, and nothing will arrive of those that failed."""
    table = MemoryServices().services.table
    ends = [dag_end(9, event=event_text(event), completed=event != 1, error="") for event in range(3)]
    for end in ends:
        DagRows(table).put_end(REF.tag, end)
    assert recorded_ends(REF.tag, table) == {event_text(event): event != 1 for event in range(3)}
    assert read_dag_ends(REF.tag, table) == (tuple(ends), ())


def test_a_row_that_cannot_be_read_is_told() -> None:
    """The others are analysed, and the report says that one is missing."""
    table = MemoryServices().services.table
    DagRows(table).put_task(REF.tag, row := task_row("a", 0, 9))
    table.put_row(layout.dag_rows_pk(REF.tag, 3), layout.dag_row_sk(row.event, "b", 0, 0, 0), {"body": b"others'"})
    stored = StoredTasks.read(REF.tag, table)
    assert stored.of(row.event) == (row,)
    assert len(stored.damaged) == 1
    assert "#b#0000#00: a row of a task cannot be read" in stored.damaged[0]

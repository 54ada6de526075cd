"""
Rows of tasks and ends of executions in the results table: written by functions without boto3, read by those with it.

    task   pk dag#<tag>#<nn>       sk <event>#<stage>#<index>#<attempt>#<part>    body
    end    pk dag-end#<tag>#<nn>   sk <event>                                     body completed
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from stepbench.errors import CorruptRecordsError
from stepbench.records.formats.dag_rows import (
    cut_in_parts,
    decode_end,
    decode_task,
    encode_end,
    encode_task,
    join_parts,
)
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.contracts.dataflow_rows import DagEnd, TaskRow
    from stepbench.records.storage.receiver_paths import ReceiverTable
    from stepbench.records.storage.trial_table import TrialTable


_Row = TypeVar("_Row")


class DagRows:
    """
    Stores rows and ends. Storing one again replaces it.

    What a task did is not stored anywhere else if the table does not answer: RecordsUnavailableError, and the task is
    made again.
    """

    def __init__(self, table: TrialTable | ReceiverTable) -> None:
        self._table = table

    def put_task(self, tag: str, row: TaskRow) -> None:
        """Store one attempt at a task. Raises RecordsUnavailableError."""
        for part, body in enumerate(cut_in_parts(encode_task(row))):
            key = layout.dag_row_sk(row.event, row.stage, row.index, row.attempt, part)
            self._table.put_row(layout.dag_rows_pk(tag, layout.t4_shard(key)), key, {"body": body})

    def put_end(self, tag: str, end: DagEnd) -> None:
        """Store the end of an execution. Raises RecordsUnavailableError."""
        attributes = {"body": encode_end(end), "completed": end.completed}
        self._table.put_row(layout.dag_ends_pk(tag, layout.t4_shard(end.event)), end.event, attributes)


def read_task_rows(tag: str, table: TrialTable) -> tuple[tuple[TaskRow, ...], tuple[str, ...]]:
    """
    Return all rows of a trial by event, stage, index and attempt, and a message for each that cannot be read.

    Raises:
        RecordsUnavailableError: the table does not answer.
    """
    parts: dict[str, list[tuple[int, bytes]]] = {}
    for item in table.rows([layout.dag_rows_pk(tag, shard) for shard in range(layout.T4_SHARDS)]):
        name, _, part = str(item["sk"]).rpartition("#")
        parts.setdefault(name, []).append((int(part), bytes(item["body"])))
    return _decode({name: join_parts(found) for name, found in sorted(parts.items())}, decode_task)


def read_dag_ends(tag: str, table: TrialTable) -> tuple[tuple[DagEnd, ...], tuple[str, ...]]:
    """
    Return the ends of a trial's executions by event, and a message for each that cannot be read.

    Raises:
        RecordsUnavailableError: the table does not answer.
    """
    found = {str(item["sk"]): bytes(item["body"]) for item in table.rows(_end_partitions(tag))}
    return _decode(dict(sorted(found.items())), decode_end)


def failed_ends(tag: str, table: TrialTable) -> set[str]:
    """
    Return the events of executions that ended and have failed, for which nobody waits any more.

    Raises:
        RecordsUnavailableError: the table does not answer.
    """
    items = table.rows(_end_partitions(tag), "sk, completed")
    return {str(item["sk"]) for item in items if not item["completed"]}


def _end_partitions(tag: str) -> list[str]:
    return [layout.dag_ends_pk(tag, shard) for shard in range(layout.T4_SHARDS)]


def _decode(bodies: dict[str, bytes], decode: Callable[[bytes], _Row]) -> tuple[tuple[_Row, ...], tuple[str, ...]]:
    rows: list[_Row] = []
    damaged: list[str] = []
    for name, body in bodies.items():
        try:
            rows.append(decode(body))
        except CorruptRecordsError as error:
            damaged.append(f"{name}: {error}")
    return tuple(rows), tuple(damaged)

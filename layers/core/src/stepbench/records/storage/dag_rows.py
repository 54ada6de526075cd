"""
Rows of tasks and ends of executions in the results table: written by functions without boto3, read by those with it.

    task   pk dag#<tag>#<nn>       sk <event>#<stage>#<index>#<attempt>#<part>    body
    end    pk dag-end#<tag>#<nn>   sk <event>                                     body completed
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

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
    from collections.abc import Mapping

    from stepbench.contracts.dataflow.rows import DagEnd, TaskRow
    from stepbench.records.storage.receiver_paths import ReceiverTable
    from stepbench.records.storage.trial_table import TrialTable


_NAME_BYTES = 150
"""Of a row's keys, about."""


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


class StoredTasks:
    """
    The rows of a trial's tasks, kept packed: a row of many transfers takes a hundred times as much unpacked.

    damaged: a message for each row that could not be read so far.
    """

    def __init__(self, bodies: Mapping[str, bytes]) -> None:
        """Take packed rows by event, stage, index and attempt, as `layout.dag_row_sk` has them."""
        self._of: dict[str, list[tuple[str, bytes]]] = {}
        for name, body in sorted(bodies.items()):
            self._of.setdefault(name.partition("#")[0], []).append((name, body))
        self._damaged: dict[str, str] = {}

    @classmethod
    def read(cls, tag: str, table: TrialTable) -> StoredTasks:
        """
        Read them.

        Raises:
            RecordsUnavailableError: the table does not answer.
        """
        parts: dict[str, list[tuple[int, bytes]]] = {}
        for item in table.rows([layout.dag_rows_pk(tag, shard) for shard in range(layout.T4_SHARDS)]):
            name, _, part = str(item["sk"]).rpartition("#")
            parts.setdefault(name, []).append((int(part), bytes(item["body"])))
        return cls({name: join_parts(found) for name, found in parts.items()})

    @property
    def damaged(self) -> tuple[str, ...]:
        """Return a message for each row that could not be read."""
        return tuple(self._damaged.values())

    @property
    def events(self) -> tuple[str, ...]:
        """Return the executions that have rows, in order of their identities."""
        return tuple(self._of)

    @property
    def write_units(self) -> int:
        """Return how many units of a table storing them took: one for each KiB begun, with their names."""
        rows = (row for rows in self._of.values() for row in rows)
        return sum(-(-(len(body) + _NAME_BYTES) // 1_024) for _, body in rows)

    def by_stage(self, event: str) -> Counter[str]:
        """Return how many rows of each stage an execution has, and so how many invocations have ended by themselves."""
        return Counter(name.split("#")[1] for name, _ in self._of.get(event, ()))

    def attempts(self, event: str) -> tuple[int, ...]:
        """Return of each task of an execution how many attempts there were; a killed one has no row, the next has."""
        found: dict[str, int] = {}
        for name, _ in self._of.get(event, ()):
            task, _, attempt = name.rpartition("#")
            found[task] = max(found.get(task, 0), int(attempt, 16) + 1)
        return tuple(found.values())

    def of(self, event: str) -> tuple[TaskRow, ...]:
        """Return the rows of one execution by stage, index and attempt."""
        rows = []
        for name, body in self._of.get(event, ()):
            try:
                rows.append(decode_task(body))
            except CorruptRecordsError as error:
                self._damaged[name] = f"{name}: {error}"
        return tuple(rows)


def read_dag_ends(tag: str, table: TrialTable) -> tuple[tuple[DagEnd, ...], tuple[str, ...]]:
    """
    Return the ends of a trial's executions by event, and a message for each that cannot be read.

    Raises:
        RecordsUnavailableError: the table does not answer.
    """
    ends: list[DagEnd] = []
    damaged: list[str] = []
    for item in table.rows(_end_partitions(tag)):
        try:
            ends.append(decode_end(bytes(item["body"])))
        except CorruptRecordsError as error:
            damaged.append(f"{item['sk']}: {error}")
    return tuple(sorted(ends, key=lambda end: end.event)), tuple(damaged)


def recorded_ends(tag: str, table: TrialTable) -> dict[str, bool]:
    """
    Return whether executions have completed, by their events: of those whose ends are recorded.

    Raises:
        RecordsUnavailableError: the table does not answer.
    """
    items = table.rows(_end_partitions(tag), "sk, completed")
    return {str(item["sk"]): bool(item["completed"]) for item in items}


def _end_partitions(tag: str) -> list[str]:
    return [layout.dag_ends_pk(tag, shard) for shard in range(layout.T4_SHARDS)]

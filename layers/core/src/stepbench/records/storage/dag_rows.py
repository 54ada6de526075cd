"""
Rows of tasks and ends of executions in the results table: written by functions without boto3, read by those with it.

    task   pk dag#<tag>#<nn>       sk <event>#<stage>#<index>#<attempt>#<part>    body
    end    pk dag-end#<tag>#<nn>   sk <event>                                     body completed

A body is JSON, packed by zlib. Transfers stand as columns, their times as differences to the task's beginning: a task
may read thousands of objects, and an item of the results table has to stay below 400 kB. 1,000 transfers take some
12 kB.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from typing import TYPE_CHECKING

from pydantic import ValidationError

from stepbench.contracts.dataflow.rows import BlobRow, DagEnd, TaskRow
from stepbench.errors import CorruptRecordsError
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stepbench.records.storage.t4_store import RecordTable
    from stepbench.records.storage.trial_table import TrialTable


_LEVEL = 6
_COLUMNS = tuple(BlobRow.model_fields)
_PART_BYTES = 350_000
"""A larger row is stored as several items."""


def encode_task(row: TaskRow) -> bytes:
    """Pack one attempt at a task."""
    blobs = [{**blob.model_dump(), "began_ns": blob.began_ns - row.began_ns} for blob in row.blobs]
    columns = {name: [blob[name] for blob in blobs] for name in _COLUMNS} if blobs else {}
    return _pack({**row.model_dump(exclude={"blobs"}, exclude_defaults=True), "blobs": columns})


def decode_task(body: bytes) -> TaskRow:
    """
    Unpack what `encode_task` packed.

    Raises:
        CorruptRecordsError: it is cut, or somebody else's.
    """
    try:
        fields = json.loads(zlib.decompress(body))
        columns = fields.pop("blobs")
        blobs = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        for blob in blobs:
            blob["began_ns"] += fields["began_ns"]
        return TaskRow.model_validate({**fields, "blobs": blobs})
    except _UNREADABLE as error:
        message = f"a row of a task cannot be read: {error!r}"
        raise CorruptRecordsError(message) from error


def encode_end(end: DagEnd) -> bytes:
    """Pack the end of an execution."""
    return _pack(end.model_dump(exclude_defaults=True))


def decode_end(body: bytes) -> DagEnd:
    """
    Unpack what `encode_end` packed.

    Raises:
        CorruptRecordsError: it is cut, or somebody else's.
    """
    try:
        return DagEnd.model_validate(json.loads(zlib.decompress(body)))
    except _UNREADABLE as error:
        message = f"an execution's end cannot be read: {error!r}"
        raise CorruptRecordsError(message) from error


def cut_in_parts(body: bytes) -> Iterator[bytes]:
    """Yield what one item holds each."""
    for first in range(0, len(body), _PART_BYTES):
        yield body[first : first + _PART_BYTES]


def join_parts(parts: Sequence[tuple[int, bytes]]) -> bytes:
    """Return a body of its parts and their numbers, in any order."""
    return b"".join(part for _, part in sorted(parts))


_UNREADABLE = (zlib.error, ValueError, ValidationError, KeyError, TypeError, AttributeError)


def _pack(fields: dict[str, object]) -> bytes:
    return zlib.compress(json.dumps(fields, separators=(",", ":")).encode(), _LEVEL)


_NAME_BYTES = 150
"""Of a row's keys, about."""


class DagRows:
    """
    Stores rows and ends. Storing one again replaces it.

    What a task did is not stored anywhere else if the table does not answer: RecordsUnavailableError, and the task is
    made again.
    """

    def __init__(self, table: RecordTable) -> None:
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

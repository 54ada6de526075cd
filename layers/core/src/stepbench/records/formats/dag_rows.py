"""
Rows of tasks and ends of executions as bytes: JSON, packed by zlib.

Transfers stand as columns, their times as differences to the task's beginning: a task may read thousands of objects,
and an item of the results table has to stay below 400 kB. 1,000 transfers take some 12 kB.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING

from pydantic import ValidationError

from stepbench.contracts.dataflow.rows import BlobRow, DagEnd, TaskRow
from stepbench.errors import CorruptRecordsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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

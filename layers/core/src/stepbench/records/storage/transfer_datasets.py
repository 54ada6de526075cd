"""
Datasets of transfers: rows of many runs, a Parquet file for each trial and day of UTC, from which any span is read.

A trial that is added again writes the same files again, so that nothing is counted twice. A file carries the meaning of
its columns itself, as `records.parquet` does; nothing else describes them.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stepbench.errors import CorruptRecordsError
from stepbench.records.formats.parquet import (
    ABOUT_FILE,
    Column,
    FileSchema,
    FileWriter,
    describe_columns,
    describe_metadata,
)
from stepbench.records.formats.transfer_columns import (
    CODED,
    ROW_FIELDS,
    TEXT_FIELDS,
    UNTOLD,
    ZERO_IS_UNTOLD,
    Texts,
    TransferColumns,
)
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import read_ahead
from stepbench.records.storage.transfers import Span, dataset_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import date

    from stepbench.contracts.transfer.rows import TransferRow
    from stepbench.records.storage.transfers import Objects


_NS = "ns"
_COLUMNS = (
    Column(
        "run_id", "repeated text", "name", "The run; of imported rows `import-` and what the file's digest begins with."
    ),
    Column("trial", "delta int32", "number", "The trial in it, from 0."),
    Column("number", "int64", "number", "The process within the trial, from 0; of imported rows the line."),
    Column("attempt", "delta int32", "number", "The attempt at the process, from 0."),
    Column("place", "delta int32", "number", "The read's place within the process, from 0."),
    Column("due_at_ns", "int64", _NS, "Intended start of the process, since 1970-01-01 UTC."),
    Column("began_at_ns", "int64", _NS, "Start of the transfer, since 1970-01-01 UTC, by the process's clock."),
    Column("platform", "repeated text", "name", "`lambda` or `fargate`."),
    Column("source", "repeated text", "name", "`s3` or `efs`."),
    Column("path", "repeated text", "name", "The object's key, or the path below the mount."),
    Column("file_bytes", "int64", "bytes", "The file's length."),
    Column("received_bytes", "int64", "bytes", "How much of it came."),
    Column("connect_ns", "int64", _NS, "Name, TCP and TLS together, before the start.", "no connection, or unknown"),
    Column("first_byte_ns", "int64", _NS, "From the start to the first byte.", "it has not come, or is unknown"),
    Column("transfer_ns", "int64", _NS, "From the start to the last byte.", "it has not come"),
    Column("mib_ns", "list<int64>", _NS, "From the start until each whole MiB was there, in order; empty: unknown."),
    Column("digest_ok", "bool", "yes or no", "Whether the bytes were the file's.", "unknown"),
    Column("digest_ns", "int64", _NS, "What the digest took of the transfer's time."),
    Column("cpu_ns", "int64", _NS, "Processor time of the process during the transfer, user and system."),
    Column("sandbox", "repeated text", "name", "Made anew with each process's first start; empty: unknown."),
    Column("served", "delta int32", "count", "Transfers' processes that the sandbox had served before."),
    Column("cold", "bool", "yes or no", "Whether it had served none.", "nobody can tell"),
    Column("cached_share", "double", "share", "Of the file, what came from memory.", "S3, or unknown"),
    Column("task", "repeated text", "name", "Lambda's request id, or the task's ARN; empty: unknown."),
    Column("zone", "repeated text", "name", "Availability zone; empty: unknown."),
    Column("network_interface", "repeated text", "address", "The process's address in the VPC; empty: unknown."),
    Column("memory_bytes", "int64", "bytes", "The process's largest resident set so far; 0: unknown."),
    Column("outcome", "repeated text", "name", "`ok`, `failed`, or `unknown`: cut off by the process's own end."),
    Column("error", "repeated text", "code", "Why it was not `ok`; empty where it was."),
)
TRANSFERS = FileSchema(
    _COLUMNS,
    "Stepbench: one row for each read of a file that a trial of `transfer` began, in the order of its processes. "
    "Every column has a unit, a description, and when it is null.",
    version=1,
    metadata=ABOUT_FILE
    | {
        "stand_ins": "JSON: what was measured in place of AWS's, by `s3`, `efs`, `lambda` and `fargate`; "
        "empty: nothing."
    },
    statistics=False,  # a file is read whole, and most have a few rows: statistics would be half of them
)


def encode_transfers(rows: Iterable[TransferRow], stand_ins: Mapping[str, str] | None = None) -> bytes:
    """Return a file that holds the rows; `stand_ins` as the metadata has them."""
    sink = pa.BufferOutputStream()
    with FileWriter(sink, TRANSFERS, {"stand_ins": json.dumps(stand_ins or {})}) as writer:
        writer.add(to_table(rows))
    content: bytes = sink.getvalue().to_pybytes()
    return content


def to_table(rows: Iterable[TransferRow]) -> pa.Table:
    """Return the rows as an Arrow table."""
    return pa.Table.from_pylist([row.model_dump() for row in rows], schema=TRANSFERS.arrow())


def decode_transfers(content: bytes, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """
    Return a file's rows as an Arrow table, with the file's own metadata.

    Args:
        content: the file.
        name: for errors.
        columns: only these; None: all.

    Raises:
        CorruptRecordsError: it is no Parquet file, or not one of this version.
    """
    try:
        # Of a file of a few rows, `read_table` and threads take three times as long.
        file = pq.ParquetFile(pa.BufferReader(content))
        table = file.read(columns=None if columns is None else list(columns), use_threads=False)
    except pa.ArrowException as error:
        message = f"{name} is no Parquet file: {error}"
        raise CorruptRecordsError(message) from error
    found = (table.schema.metadata or {}).get(b"schema", b"").decode()
    if found != str(TRANSFERS.version):
        message = f"{name} has schema {found or 'none'} of transfers, and this version reads {TRANSFERS.version}"
        raise CorruptRecordsError(message)
    return table


def stand_ins_of(table: pa.Table) -> dict[str, str]:
    """Return what was measured in place of AWS's, as a decoded file has it."""
    found: dict[str, str] = json.loads((table.schema.metadata or {}).get(b"stand_ins", b"{}"))
    return found


def columns_of(table: pa.Table) -> TransferColumns:
    """Return the columns of a table that has them all, as the analysis takes them."""
    whole = table.combine_chunks()
    found: dict[str, Any] = {name: _numbers(whole[name], name) for name in ROW_FIELDS}
    marks = whole["mib_ns"].chunk(0) if whole.num_rows else pa.array([], pa.list_(pa.int64()))
    offsets = marks.offsets.to_numpy().astype(np.int64)
    found["mib_ns"] = marks.flatten().to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    found["mib_offsets"] = offsets - offsets[0]
    return TransferColumns(**found)


def _numbers(column: pa.ChunkedArray, name: str) -> Any:  # noqa: ANN401 -- texts, integers or floats
    if name in TEXT_FIELDS:
        encoded = _one(column.dictionary_encode())
        return Texts(encoded.indices.to_numpy().astype(np.int64), tuple(encoded.dictionary.to_pylist()))
    if name in CODED:
        encoded = _one(column.dictionary_encode())
        codes = np.array([CODED[name].index(text) for text in encoded.dictionary.to_pylist()], np.int64)
        places = encoded.indices.to_numpy()
        return codes[places] if places.size else np.empty(0, np.int64)
    if name == "cached_share":
        return column.to_numpy().astype(np.float64)
    found = column.cast(pa.int64()).fill_null(UNTOLD).to_numpy().copy()
    if name in ZERO_IS_UNTOLD:
        found[found == 0] = UNTOLD
    return found


def _one(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole


def describe_transfer_columns() -> str:
    """Return the tables of `docs/datasets.md`, as Markdown."""
    columns, metadata = describe_columns(TRANSFERS.columns), describe_metadata(TRANSFERS)
    return f"## Columns of transfers\n{columns}\n\n## Metadata of a file of transfers\n{metadata}"


def dataset_files(
    name: str, team: str, rows: Iterable[TransferRow], stand_ins: Mapping[str, str] | None = None
) -> dict[str, bytes]:
    """Return the files that a team's rows add to a dataset, by key: one for each trial and day on which reads began."""
    parts: dict[str, list[TransferRow]] = {}
    for row in rows:
        key = layout.dataset_key(name, team, _day(row.began_at_ns).isoformat(), row.run_id, row.trial)
        parts.setdefault(key, []).append(row)
    return {key: encode_transfers(part, stand_ins) for key, part in sorted(parts.items())}


def append(
    name: str, team: str, rows: Iterable[TransferRow], objects: Objects, stand_ins: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """
    Add a team's rows to a dataset, and return the keys of their files. The rows of a trial have to come together.

    Raises:
        RecordsUnavailableError: the bucket does not answer.
    """
    files = dataset_files(name, team, rows, stand_ins)
    for key, content in files.items():
        objects.put_bytes(key, content)
    return tuple(files)


def read_span(name: str, objects: Objects, span: Span | None = None, columns: Sequence[str] | None = None) -> pa.Table:
    """Read the rows of all teams in a span of days, as `read_files` does; no file of another day is read."""
    return read_files((span or Span()).choose(dataset_keys(name, objects)), objects, columns)


def read_files(
    wanted: Sequence[str],
    objects: Objects,
    columns: Sequence[str] | None = None,
    check: Callable[[pa.Table], None] = lambda _table: None,
) -> pa.Table:
    """
    Read the rows of a dataset's files, in the order of these.

    Args:
        wanted: keys of files.
        objects: where they are.
        columns: some of all columns; None for all.
        check: is called with each file's rows, while some more files are read; what it raises ends the reading.

    Returns:
        An Arrow table with `stand_ins` of all files; without rows where there are none.

    Raises:
        CorruptRecordsError: a file is none of this version, or two files say that different things were measured.
        RecordsUnavailableError: the bucket does not answer.
    """
    tables = []
    for key, content in read_ahead(wanted, objects.get_bytes):
        tables.append(decode_transfers(content, key, columns))
        check(tables[-1])
    stand_ins = _all_stand_ins(dict(zip(wanted, tables, strict=True)))
    whole = pa.concat_tables(tables) if tables else TRANSFERS.arrow(columns).empty_table()
    return whole.combine_chunks().replace_schema_metadata(TRANSFERS.metadata_with({"stand_ins": json.dumps(stand_ins)}))


def _all_stand_ins(tables: Mapping[str, pa.Table]) -> dict[str, str]:
    """Return what stood in for what in all files: rates of a local folder and of EFS make no distribution together."""
    found: dict[str, str] = {}
    measured: set[str] = set()
    for key, table in tables.items():
        own, about = stand_ins_of(table), _measured(table)
        differ = {what for what in about & measured if own.get(what) != found.get(what)}
        if differ:
            message = (
                f"{key} was measured with {_words(own)}, and earlier files with {_words(found)}. "
                "Name a span of days on which all was measured alike, or keep two datasets."
            )
            raise CorruptRecordsError(message)
        found |= own
        measured |= about
    return found


def _measured(table: pa.Table) -> set[str]:
    """Return which platforms and sources a file has rows of: what stands in for others is no matter of its."""
    return {
        str(each)
        for name in ("platform", "source")
        if name in table.column_names
        for each in pc.unique(table[name]).to_pylist()
    }


def _words(stand_ins: Mapping[str, str]) -> str:
    return ", ".join(f"{what}: {stand_in}" for what, stand_in in stand_ins.items()) or "AWS's own services"


def _day(at_ns: int) -> date:
    return datetime.fromtimestamp(at_ns // 10**9, UTC).date()

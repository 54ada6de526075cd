"""
Datasets of transfers: rows of many runs, a file for each trial and day of UTC, from which any span is read.

A trial that is added again writes the same files again, so that nothing is counted twice.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from stepbench.errors import CorruptRecordsError
from stepbench.records.formats.transfer_parquet import (
    DESCRIPTION,
    TRANSFERS_SCHEMA,
    decode_transfers,
    encode_transfers,
    schema,
    stand_ins_of,
)
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stepbench.contracts.transfer_rows import TransferRow

READ_AT_ONCE = 16
"""A file a trial is small: its time is that of the way to the bucket."""


class Objects(Protocol):
    """It stores files by key, which is all a dataset needs of a bucket: a `RunStore`, or a folder of this machine."""

    def put_bytes(self, key: str, body: bytes) -> None:
        """Store a file whole, or not at all."""

    def get_bytes(self, key: str) -> bytes:
        """Return a file's content."""
        ...

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield all keys under a prefix, in order."""
        ...


class Span(NamedTuple):
    """Days of UTC, from the first to before the last; None: as far as there are any."""

    first: date | None = None
    end: date | None = None

    def holds(self, day: date) -> bool:
        """Return whether a day is one of them."""
        return (self.first is None or self.first <= day) and (self.end is None or day < self.end)

    @property
    def words(self) -> str:
        """Say which days they are; empty for all."""
        begin = f"from {self.first}" if self.first else ""
        end = f"before {self.end}" if self.end else ""
        return " and ".join(filter(None, (begin, end)))


def dataset_files(
    name: str, rows: Iterable[TransferRow], stand_ins: Mapping[str, str] | None = None
) -> dict[str, bytes]:
    """Return the files that rows add to a dataset, by key: one for each trial and day on which reads of it began."""
    parts: dict[str, list[TransferRow]] = {}
    for row in rows:
        key = layout.dataset_key(name, _day(row.began_at_ns).isoformat(), row.run_id, row.trial)
        parts.setdefault(key, []).append(row)
    return {key: encode_transfers(part, stand_ins) for key, part in sorted(parts.items())}


def append(
    name: str, rows: Iterable[TransferRow], objects: Objects, stand_ins: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """
    Add rows to a dataset, and return the keys of their files. The rows of a trial have to come together.

    Raises:
        RecordsUnavailableError: the bucket does not answer.
    """
    files = dataset_files(name, rows, stand_ins)
    for key, content in files.items():
        objects.put_bytes(key, content)
    return tuple(files)


def dataset_names(objects: Objects) -> tuple[str, ...]:
    """Return the names of all datasets. It lists all their files."""
    keys = (key for key in objects.keys(layout.DATASETS) if layout.dataset_day(key))
    return tuple(dict.fromkeys(key.split("/")[1] for key in keys))


def span_keys(name: str, objects: Objects, span: Span) -> tuple[str, ...]:
    """Return the keys of a dataset's files of a span of days."""
    keys = objects.keys(layout.dataset_prefix(name))
    return tuple(key for key in keys if (day := layout.dataset_day(key)) and span.holds(date.fromisoformat(day)))


def read_span(name: str, objects: Objects, span: Span | None = None, columns: Sequence[str] | None = None) -> pa.Table:
    """
    Read the rows of a span of days, by days; no file of another day is read.

    Returns:
        An Arrow table with `stand_ins` of all its files; without rows where there are none.

    Raises:
        CorruptRecordsError: a file is none of this version, or two files say that different things were measured.
        RecordsUnavailableError: the bucket does not answer.
    """
    wanted = span_keys(name, objects, span or Span())
    with ThreadPoolExecutor(READ_AT_ONCE) as threads:
        contents = threads.map(objects.get_bytes, wanted)
        tables = [decode_transfers(content, key, columns) for key, content in zip(wanted, contents, strict=True)]
    metadata = {
        "description": DESCRIPTION,
        "schema": str(TRANSFERS_SCHEMA),
        "stand_ins": json.dumps(_all_stand_ins(dict(zip(wanted, tables, strict=True)))),
    }
    whole = pa.concat_tables(tables) if tables else schema().empty_table()
    if columns is not None and not tables:
        whole = whole.select(list(columns))
    return whole.combine_chunks().replace_schema_metadata(metadata)


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

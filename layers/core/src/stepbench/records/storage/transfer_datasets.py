"""
Datasets of transfers: rows of many runs, a file for each trial and day of UTC, from which any span is read.

A trial that is added again writes the same files again, so that nothing is counted twice.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from stepbench.errors import CorruptRecordsError
from stepbench.records.formats.transfer_parquet import TRANSFERS, decode_transfers, encode_transfers, stand_ins_of
from stepbench.records.storage import layout
from stepbench.records.storage.dataset_keys import READ_AT_ONCE, Span, dataset_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import date

    from stepbench.contracts.transfer.rows import TransferRow
    from stepbench.records.storage.dataset_keys import Objects


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
        check: is called with each file's rows before the next files are read; what it raises ends the reading.

    Returns:
        An Arrow table with `stand_ins` of all files; without rows where there are none.

    Raises:
        CorruptRecordsError: a file is none of this version, or two files say that different things were measured.
        RecordsUnavailableError: the bucket does not answer.
    """
    tables = []
    with ThreadPoolExecutor(READ_AT_ONCE) as threads:
        for begin in range(0, len(wanted), READ_AT_ONCE):
            keys = wanted[begin : begin + READ_AT_ONCE]
            for key, content in zip(keys, threads.map(objects.get_bytes, keys), strict=True):
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

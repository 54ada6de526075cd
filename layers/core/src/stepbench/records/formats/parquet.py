"""
Parquet files that describe themselves: one table of columns makes a file's schema, encodings and texts, and its page.

Each field carries its column's unit, meaning and when it is null; the file, what it is and what it says of a trial. The
pages `docs/records.md` and `docs/datasets.md` show the same texts: nothing else describes a column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

NEVER = "never"
_DELTA, _DICTIONARY, _PLAIN = "DELTA_BINARY_PACKED", "dictionary", "plain"


class _Type(NamedTuple):
    """A type as Arrow has it, as a page names it, and its encoding in the file."""

    arrow: pa.DataType
    shown: str
    encoding: str = _PLAIN


# Times grow slowly and are all different: differences suit them, dictionaries do not.
_TYPES = {
    "category": _Type(pa.dictionary(pa.int32(), pa.string()), "string", _DICTIONARY),
    "repeated text": _Type(pa.string(), "string", _DICTIONARY),
    "text": _Type(pa.string(), "string"),
    "int64": _Type(pa.int64(), "int64", _DELTA),
    "plain int64": _Type(pa.int64(), "int64"),
    "delta int32": _Type(pa.int32(), "int32", _DELTA),
    "list<int64>": _Type(pa.list_(pa.int64()), "list<int64>", _DELTA),
    "int32": _Type(pa.int32(), "int32"),
    "uint16": _Type(pa.uint16(), "uint16"),
    "uint8": _Type(pa.uint8(), "uint8"),
    "bool": _Type(pa.bool_(), "bool"),
    "double": _Type(pa.float64(), "double"),
}
ABOUT_FILE = {
    "description": "What the file is.",
    "schema": "Version of this description; a column that means something else has a new one.",
}
ABOUT_TRIAL = ABOUT_FILE | {
    "run_id": "The run.",
    "trial": "The trial's number in it, from 0.",
    "name": "The trial's name.",
    "store": "The store, as the plan names it.",
}


class Column(NamedTuple):
    """One column of a file; `type` names one of this module's, `optional` is left out of a file where it is 0 only."""

    name: str
    type: str
    unit: str
    description: str
    null: str = NEVER
    optional: bool = False

    def field(self, *, nullable: bool) -> pa.Field:
        """Return its field in a file."""
        metadata = {"unit": self.unit, "description": self.description, "null": self.null}
        return pa.field(self.name, _TYPES[self.type].arrow, nullable, metadata)


class FileSchema(NamedTuple):
    """
    What a file holds.

    Args:
        columns: all that it may have.
        description: what the file says that it is.
        version: of the columns' meanings.
        metadata: the keys of the file's own metadata, in order, and what each means.
        all_nullable: fields allow null even where it never occurs.
        statistics: of each row group.
        rows_per_group: at most.
    """

    columns: tuple[Column, ...]
    description: str
    version: int
    metadata: Mapping[str, str]
    all_nullable: bool = False
    statistics: bool = True
    rows_per_group: int = 2**20

    def arrow(self, names: Iterable[str] | None = None) -> pa.Schema:
        """Return the schema of a file that has these columns, in their order; None: all."""
        fields = {each.name: each.field(nullable=self.all_nullable or each.null != NEVER) for each in self.columns}
        return pa.schema(list(fields.values()) if names is None else [fields[name] for name in names])

    def metadata_with(self, facts: Mapping[str, str]) -> dict[str, str]:
        """Return a file's own metadata: its description, its version, and these facts."""
        values = {"description": self.description, "schema": str(self.version), **facts}
        return {key: values[key] for key in self.metadata}


class FileWriter:
    """Writes one file, a row group at a time. A context manager: at its end the file is whole."""

    def __init__(
        self, sink: Path | pa.NativeFile, file: FileSchema, facts: Mapping[str, str], names: Sequence[str] | None = None
    ) -> None:
        self._limit, self._schema = file.rows_per_group, file.arrow(names)
        self._table, self._rows = self._schema.empty_table(), list[dict[str, Any]]()
        self.written = 0
        types = {each.name: each.type for each in file.columns if each.name in self._schema.names}
        paths = {name: f"{name}.list.element" if type_ == "list<int64>" else name for name, type_ in types.items()}
        self._writer = pq.ParquetWriter(
            sink,
            self._schema.with_metadata(file.metadata_with(facts)),
            compression="zstd",
            use_dictionary=[name for name, type_ in types.items() if _TYPES[type_].encoding == _DICTIONARY],
            column_encoding={paths[name]: _DELTA for name, type_ in types.items() if _TYPES[type_].encoding == _DELTA},
            write_statistics=file.statistics,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._add_waiting_rows()
        if self._table.num_rows:
            self._write(self._table)
        self._writer.close()

    def add(self, table: pa.Table) -> None:
        """Add a table of the file's columns."""
        waiting = pa.concat_tables([self._table, table]).unify_dictionaries()  # else a group of two has none
        while waiting.num_rows >= self._limit:
            self._write(waiting.slice(0, self._limit))
            waiting = waiting.slice(self._limit)
        self._table = waiting

    def add_rows(self, rows: Iterable[dict[str, Any]]) -> None:
        """Add rows, each as columns by name."""
        self._rows += rows
        if len(self._rows) >= self._limit:
            self._add_waiting_rows()

    def _add_waiting_rows(self) -> None:
        rows, self._rows = self._rows, []
        self.add(pa.Table.from_pylist(rows, schema=self._schema))

    def _write(self, table: pa.Table) -> None:
        self._writer.write_table(table)
        self.written += table.num_rows


def describe_columns(columns: Iterable[Column], *, nulls: bool = True) -> str:
    """Return a page's table of columns, as Markdown; without `nulls`, none of them is ever null."""
    left_out = " Left out where all are 0."
    rows = [
        (f"`{each.name}`", _TYPES[each.type].shown, each.unit, each.description + left_out * each.optional, each.null)
        for each in columns
    ]
    return _describe(("column", "type", "unit", "meaning", "null"), rows, width=5 if nulls else 4)


def describe_metadata(file: FileSchema) -> str:
    """Return a page's table of a file's own metadata, as Markdown."""
    return _describe(("key", "meaning"), [(f"`{key}`", meaning) for key, meaning in file.metadata.items()], width=2)


def _describe(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    lines = [headings, ["---"] * width, *rows]
    return "\n".join(f"| {' | '.join(line[:width])} |" for line in lines)

"""What every file of ours has in common: it is read with its texts, and pages show the same texts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepbench.experiments.dataflow.files import FILES
from stepbench.records.export import events_file
from stepbench.records.formats.parquet import ABOUT_FILE, Column, FileSchema, FileWriter
from stepbench.records.storage.transfer_datasets import TRANSFERS

ALL = [events_file(arrive=True), events_file(arrive=False), *FILES.values(), TRANSFERS]
FILE = FileSchema(
    (
        Column("at_ns", "int64", "ns", "When."),
        Column("code", "category", "name", "What.", "nobody knows"),
        Column("marks_ns", "list<int64>", "ns", "Steps."),
    ),
    "Three columns.",
    version=3,
    metadata=ABOUT_FILE | {"run_id": "The run."},
    rows_per_group=4,
)
ROWS = [{"at_ns": at, "code": None if at % 3 else "a", "marks_ns": [at, at + 1]} for at in range(10)]


def written(folder: Path, *parts: int) -> pq.ParquetFile:
    """Write the rows, a part at a time, and open the file."""
    path = folder / "file.parquet"
    with FileWriter(path, FILE, {"run_id": "r"}) as writer:
        for first, end in zip((0, *parts), (*parts, 10), strict=True):
            writer.add_rows(ROWS[first:end])
    assert writer.written == 10
    return pq.ParquetFile(path)


@pytest.mark.parametrize("file", ALL)
def test_every_column_of_times_is_in_nanoseconds(file: FileSchema) -> None:
    """A name's unit and the description's are one."""
    assert {column.unit for column in file.columns if column.name.endswith("_ns")} == {"ns"}


@pytest.mark.parametrize("parts", [(), (1, 2, 3), (9,)])
def test_row_groups_are_full_however_rows_come(tmp_path: Path, parts: tuple[int, ...]) -> None:
    """Rows of one task at a time would else make a row group each."""
    file = written(tmp_path, *parts)
    assert [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)] == [4, 4, 2]
    assert file.read().to_pylist() == ROWS


def test_columns_have_their_encodings(tmp_path: Path) -> None:
    """Times as differences, texts by number: a file ten times as large would be right, too."""
    group = written(tmp_path).metadata.row_group(0)
    found = {group.column(place).path_in_schema: group.column(place).encodings for place in range(3)}
    assert "DELTA_BINARY_PACKED" in found["at_ns"]
    assert "RLE_DICTIONARY" in found["code"]
    assert "DELTA_BINARY_PACKED" in found["marks_ns.list.element"]


def test_a_group_of_several_parts_has_one_dictionary(tmp_path: Path) -> None:
    """Parts have dictionaries of their own; in a group of two the later one would be written without any."""
    rows = [{"at_ns": 0, "code": code, "marks_ns": []} for code in "aabb"]
    sizes = []
    for parts in ([rows], [rows[:2], rows[2:]]):
        with FileWriter(tmp_path / "file.parquet", FILE, {"run_id": "r"}) as writer:
            for part in parts:
                writer.add(pa.Table.from_pylist(part, FILE.arrow()))
        group = pq.ParquetFile(tmp_path / "file.parquet").metadata.row_group(0)
        sizes.append((group.num_rows, group.column(1).total_uncompressed_size))
    assert sizes[0] == sizes[1]


def test_a_file_carries_its_texts_and_only_what_may_be_null_is_nullable(tmp_path: Path) -> None:
    """In the order of the description, so that two files of one kind differ in facts alone."""
    schema = written(tmp_path).schema_arrow
    assert list(schema.metadata.items()) == [(b"description", b"Three columns."), (b"schema", b"3"), (b"run_id", b"r")]
    assert schema.field("code").metadata == {b"unit": b"name", b"description": b"What.", b"null": b"nobody knows"}
    assert {field.name for field in schema if field.nullable} == {"code"}


def test_a_key_without_a_fact_is_refused() -> None:
    """A file that lacks its run would be found out by its reader only."""
    with pytest.raises(KeyError, match="run_id"):
        FILE.metadata_with({})


def test_an_empty_file_has_its_columns(tmp_path: Path) -> None:
    """So that readers need no special case."""
    with FileWriter(tmp_path / "none", FILE, {"run_id": "r"}):
        pass
    assert pq.read_table(tmp_path / "none").schema.equals(FILE.arrow())

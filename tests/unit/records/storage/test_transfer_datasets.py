"""Datasets: a file a trial and day, read for the days that are asked for."""

from __future__ import annotations

import io
from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples.transfers import DAY_NS, MIDNIGHT_NS, month, row, rows_of

from stepbench.contracts.transfer.rows import TransferRow
from stepbench.errors import CorruptRecordsError
from stepbench.records.formats.transfer_columns import ROW_FIELDS, TEXT_FIELDS, TransferColumns
from stepbench.records.storage.transfer_datasets import (
    TRANSFERS,
    append,
    columns_of,
    decode_transfers,
    encode_transfers,
    read_files,
    read_span,
    stand_ins_of,
)
from stepbench.records.storage.transfers import Span, dataset_keys, dataset_names

if TYPE_CHECKING:
    from collections.abc import Iterator


_NS = st.integers(0, 2**62)
ROWS = st.builds(
    row,
    number=st.integers(0, 2**31 - 1),
    transfer_ns=st.none() | _NS,
    first_byte_ns=st.none() | _NS,
    mib_ns=st.lists(_NS, max_size=5).map(tuple),
    digest_ok=st.none() | st.booleans(),
    cold=st.none() | st.booleans(),
    cached_share=st.none() | st.floats(0, 1),
    path=st.text(max_size=10),
    outcome=st.sampled_from(["ok", "failed", "unknown"]),
)


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(ROWS, max_size=6))
def test_what_was_written_is_read(rows: list[TransferRow]) -> None:
    """A row that changes on its way to a dataset changes a report of a month."""
    assert list(rows_of(decode_transfers(encode_transfers(rows), "file"))) == rows


def test_every_field_of_a_row_has_a_described_column() -> None:
    """A field that is added to rows and not to the file would be lost without a word."""
    assert [column.name for column in TRANSFERS.columns] == list(TransferRow.model_fields)


def test_a_column_is_null_only_where_its_description_says_when() -> None:
    """Whoever reads `never` writes no code for it."""
    table = decode_transfers(encode_transfers([row()]), "file")
    assert {field.name for field in table.schema if field.nullable} == {
        each.name for each in TRANSFERS.columns if each.null != "never"
    }


def test_the_file_carries_units_and_what_stood_in() -> None:
    """Rates of a local folder must not pass for those of EFS, whoever has the file."""
    content = encode_transfers([row()], {"efs": "local file system"})
    written = pq.read_schema(io.BytesIO(content))
    assert written.field("mib_ns").metadata[b"unit"] == b"ns"
    assert stand_ins_of(decode_transfers(content, "file")) == {"efs": "local file system"}


def test_progress_takes_a_few_bytes_a_mib() -> None:
    """Twelve thousand transfers a month have 2 million of them."""
    steps = tuple(range(10**7, 750 * 10**7 + 1, 10**7))
    fine = [row(mib_ns=tuple(at + (at * 7_919) % 10**6 for at in steps)) for _ in range(20)]
    assert len(encode_transfers(fine)) < 4 * 20 * 750


@pytest.mark.parametrize("content", [b"no Parquet", b""])
def test_what_is_no_file_of_transfers_is_named(content: bytes) -> None:
    """A dataset has many files, and one that a copy has cut short has to be found."""
    with pytest.raises(CorruptRecordsError, match=r"day=2025-06-05/x\.parquet is no Parquet file"):
        decode_transfers(content, "day=2025-06-05/x.parquet")


def test_a_file_of_another_version_is_refused() -> None:
    """Columns may mean something else there."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"run_id": ["a"]}), sink)
    with pytest.raises(CorruptRecordsError, match="has schema none of transfers, and this version reads 1"):
        decode_transfers(sink.getvalue(), "x.parquet")


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(ROWS, max_size=6))
def test_columns_from_a_file_are_those_from_its_rows(rows: list[TransferRow]) -> None:
    """The analysis of a dataset and that of a trial have to see the same."""
    found, expected = columns_of(decode_transfers(encode_transfers(rows), "file")), TransferColumns.of(rows)
    for name in (*ROW_FIELDS, "mib_ns", "mib_offsets"):
        have, want = getattr(found, name), getattr(expected, name)
        if name in TEXT_FIELDS:
            have, want = ([texts.table[code] for code in texts.codes] for texts in (have, want))
        np.testing.assert_array_equal(have, want, err_msg=name)


FIRST = date(2025, 6, 5)
SECOND = date(2025, 6, 6)


class MemoryObjects:
    """Files by key, and what was read of them."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.read: list[str] = []

    def put_bytes(self, key: str, body: bytes) -> None:
        """Store a file."""
        self.files[key] = body

    def get_bytes(self, key: str) -> bytes:
        """Return a file, and note it."""
        self.read.append(key)
        return self.files[key]

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield keys in order."""
        yield from sorted(key for key in self.files if key.startswith(prefix))

    def folders(self, prefix: str) -> Iterator[str]:
        """Yield folders in order."""
        names = (key.removeprefix(prefix).partition("/") for key in self.keys(prefix))
        yield from dict.fromkeys(name for name, slash, _ in names if slash)


def test_rows_are_split_by_the_day_of_utc_on_which_they_began() -> None:
    """A trial that runs over midnight belongs to two days."""
    objects = MemoryObjects()
    keys = append(
        "steady", "default", [row(began_at_ns=MIDNIGHT_NS - 1), row(began_at_ns=MIDNIGHT_NS, number=1)], objects
    )
    assert keys == (
        "datasets/steady/team=default/day=2025-06-04/run-0000.parquet",
        "datasets/steady/team=default/day=2025-06-05/run-0000.parquet",
    )


def test_a_trial_that_is_added_again_counts_once() -> None:
    """The state machine may run the stage twice."""
    objects = MemoryObjects()
    for _ in range(2):
        append("steady", "default", [row(), row(number=1)], objects)
    append("steady", "default", [row(run_id="other"), row(trial=1)], objects)
    assert read_span("steady", objects).num_rows == 4


def test_only_the_days_of_the_span_are_read() -> None:
    """A report of a week must not pay for a year."""
    objects = MemoryObjects()
    append("steady", "default", [row(began_at_ns=MIDNIGHT_NS + day * DAY_NS, number=day) for day in range(4)], objects)
    append("steadier", "default", [row()], objects)
    found = read_span("steady", objects, Span(SECOND, date(2025, 6, 8)))
    assert found["number"].to_pylist() == [1, 2]
    assert [key[:44] for key in objects.read] == [
        "datasets/steady/team=default/day=2025-06-06/",
        "datasets/steady/team=default/day=2025-06-07/",
    ]


@pytest.mark.parametrize(
    ("span", "numbers"), [(Span(), [0, 1]), (Span(SECOND), [1]), (Span(None, SECOND), [0]), (Span(SECOND, SECOND), [])]
)
def test_a_span_has_its_first_day_and_not_its_last(span: Span, numbers: list[int]) -> None:
    """So that spans that follow one another share no row."""
    objects = MemoryObjects()
    append("steady", "default", [row(), row(began_at_ns=MIDNIGHT_NS + DAY_NS, number=1)], objects)
    assert read_span("steady", objects, span)["number"].to_pylist() == numbers


def test_all_rows_come_back_in_any_number_of_runs() -> None:
    """What is appended by hourly runs is what a report is made from."""
    objects = MemoryObjects()
    rows = list(month(40))
    append("steady", "default", rows, objects)
    found = sorted(rows_of(read_span("steady", objects)), key=lambda each: (each.began_at_ns, each.platform))
    assert found == sorted(rows, key=lambda each: (each.began_at_ns, each.platform))


def test_columns_can_be_read_alone() -> None:
    """Progress is most of a file, and few readers need it."""
    objects = MemoryObjects()
    assert read_span("steady", objects, columns=["platform"]).column_names == ["platform"]
    append("steady", "default", [row()], objects)
    assert read_span("steady", objects, columns=["platform", "mib_ns"]).column_names == ["platform", "mib_ns"]


def test_what_was_measured_with_other_things_makes_no_one_distribution() -> None:
    """A local folder's rates beside EFS's would look like two modes."""
    objects = MemoryObjects()
    append("steady", "default", [row()], objects, {"s3": "emulated"})
    assert stand_ins_of(read_span("steady", objects)) == {"s3": "emulated"}
    append("steady", "default", [row(began_at_ns=MIDNIGHT_NS + DAY_NS)], objects)
    with pytest.raises(CorruptRecordsError, match="with AWS's own services, and earlier files with s3: emulated"):
        read_span("steady", objects)
    assert read_span("steady", objects, Span(SECOND)).num_rows == 1


def test_names_are_those_of_what_has_rows() -> None:
    """A page beside a dataset is none."""
    objects = MemoryObjects()
    append("steady", "default", [row()], objects)
    append("other", "default", [row(), row(trial=1)], objects)
    objects.put_bytes("datasets/steady/report.html", b"")
    objects.put_bytes("datasets/empty/report.html", b"")
    assert dataset_names(objects) == ("other", "steady")


def test_a_team_s_files_have_a_folder_that_is_quoted_as_hive_does() -> None:
    """A role's team has a slash, which would make two folders; readers of Hive's form get the name back."""
    objects = MemoryObjects()
    (key,) = append("steady", "role/ci", [row()], objects)
    assert key == "datasets/steady/team=role%2Fci/day=2025-06-05/run-0000.parquet"
    assert dataset_names(objects, ["role/ci"]) == ("steady",)
    assert dataset_keys("steady", objects, ["role/ci"]) == (key,)


def test_only_the_teams_that_are_asked_for_are_read_and_named() -> None:
    """Whoever asks over the API sees its own and the default team's; the command line reads all."""
    objects = MemoryObjects()
    for number, team in enumerate(("default", "mine", "theirs")):
        began_ns = MIDNIGHT_NS + (2 - number) * DAY_NS
        append("steady", team, [row(run_id=team, number=number, began_at_ns=began_ns)], objects)
    append("hidden", "theirs", [row()], objects)
    wanted = dataset_keys("steady", objects, ["mine", "default"])
    assert read_files(wanted, objects)["number"].to_pylist() == [1, 0], "by days, whoever added them"
    assert not any("theirs" in key for key in objects.read)
    assert dataset_names(objects, ["mine", "default"]) == ("steady",)
    assert dataset_names(objects) == ("hidden", "steady")
    assert read_span("steady", objects).num_rows == 3


def test_what_is_not_read_refuses_nothing() -> None:
    """Two teams may measure with different things; each sees its own."""
    objects = MemoryObjects()
    append("steady", "mine", [row()], objects, {"s3": "emulated"})
    append("steady", "theirs", [row(run_id="other")], objects)
    assert read_files(dataset_keys("steady", objects, ["mine"]), objects).num_rows == 1
    with pytest.raises(CorruptRecordsError, match="emulated"):
        read_span("steady", objects)


def test_a_file_that_is_cut_short_is_named() -> None:
    """Not passed over: the day would look as if fewer had been measured."""
    objects = MemoryObjects()
    (key,) = append("steady", "default", [row()], objects)
    objects.put_bytes(key, encode_transfers([row()])[:-9])
    with pytest.raises(CorruptRecordsError, match=key):
        read_span("steady", objects)

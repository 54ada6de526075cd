"""Rows of transfers survive Parquet, and the file says what they mean."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples.transfers import row, rows_of

from stepbench.contracts.transfer.rows import TransferRow
from stepbench.errors import CorruptRecordsError
from stepbench.records.formats.transfer_columns import ROW_FIELDS, TEXT_FIELDS, TransferColumns
from stepbench.records.formats.transfer_parquet import (
    TRANSFERS,
    columns_of,
    decode_transfers,
    describe_transfer_columns,
    encode_transfers,
    stand_ins_of,
)

PAGE = Path(__file__).parents[4] / "docs/datasets.md"
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


def test_the_page_has_the_texts_that_the_file_carries() -> None:
    """Two descriptions of a column would drift apart; paste `describe_transfer_columns()` where this fails."""
    assert PAGE.read_text("utf-8").endswith(f"\n\n{describe_transfer_columns()}\n")


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

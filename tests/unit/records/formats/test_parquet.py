from __future__ import annotations

from pathlib import Path

from stepbench.records.formats.parquet import COLUMNS, describe_columns

PAGE = Path(__file__).parents[4] / "docs/records.md"


def test_the_page_has_the_texts_that_the_file_carries() -> None:
    """Two descriptions of one column would drift apart; paste `describe_columns()` where this fails."""
    assert PAGE.read_text("utf-8").endswith(f"\n\n{describe_columns()}\n")


def test_every_column_of_times_is_in_nanoseconds() -> None:
    """A name's unit and the description's are one."""
    assert {column.unit for column in COLUMNS if column.name.endswith("_ns")} == {"ns"}

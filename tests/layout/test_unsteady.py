"""Tests that are known to be unsteady: few, named, and each with what was seen."""

from __future__ import annotations

import re
from datetime import date

from tests.samples.templates import ROOT

MOST = 5
COLUMNS = ["test", "date", "what was seen", "cure"]


def rows() -> list[list[str]]:
    """Return the cells of the table, its heading first."""
    lines = (ROOT / "tests/UNSTEADY.md").read_text(encoding="utf-8").splitlines()
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in cells if not set("".join(row)) <= set("- ")]


def test_at_most_five_tests_are_unsteady() -> None:
    """More would be a suite that nobody believes."""
    heading, *unsteady = rows()
    assert heading == COLUMNS
    assert len(unsteady) <= MOST


def test_each_row_names_a_test_a_day_and_what_was_seen() -> None:
    """Whoever cures it starts from there; a row of a test that is gone is to go with it."""
    for name, day, seen, cure in rows()[1:]:
        module, _, test = name.strip("`").partition("::")
        function = test.partition("[")[0].rpartition("::")[2] or test.partition("[")[0]
        assert f"def {function}(" in (ROOT / module).read_text(encoding="utf-8"), name
        assert date.fromisoformat(day)
        assert seen, name
        assert cure, name

"""Tables of repeats begin with what the run is judged by."""

from __future__ import annotations

import pytest
from tests.samples.comparisons import matrix

from stepbench.contracts.threshold_grammar import parse_judge
from stepbench.report import document as doc
from stepbench.report.groups import groups, groups_nodes


@pytest.mark.parametrize(
    ("judge", "headings"),
    [("", ["p50", "p90", "p99"]), ("p99", ["p99", "p50", "p90"]), ("max", ["max", "p50", "p90", "p99"])],
)
def test_the_table_of_repeats_has_the_measure_once_and_first(judge: str, headings: list[str]) -> None:
    """Over three runs even a maximum has an interval."""
    trials = matrix("writers", {1: [1.0, 1.1, 1.2]})
    table, *_ = groups_nodes(groups(trials), trials, "Latency", parse_judge(judge) if judge else None)
    assert isinstance(table, doc.Table)
    assert [column.heading for column in table.columns] == ["Trial", "Runs", *headings]
    assert all(len(row.cells) == len(headings) + 1 for body in table.bodies for row in body.rows)

"""A rehearsal in words."""

from __future__ import annotations

from tests.unit.tools.rehearsal.samples import one_round, rehearsal, run, trial

from stepbench_tools.rehearsal.assumptions import ASSUMPTIONS, judge_all
from stepbench_tools.rehearsal.record import Bill, Deletion
from stepbench_tools.rehearsal.text import report


def test_the_report_has_every_assumption_with_what_became_of_it() -> None:
    """One row each, whatever stands in the observation."""
    found = rehearsal(one_round(run(trial(failure="a | b\nc", p50_ms=None))))
    text = report(found.model_copy(update={"assumptions": judge_all(found)}))
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [each.id for each in ASSUMPTIONS]
    assert "a \\| b c" in text
    assert "## Assumptions: 4 confirmed, 2 refuted, of" in text


def test_what_is_left_and_what_was_billed_is_named() -> None:
    """By kind, and by service."""
    deletion = Deletion(seconds=9, left={"buckets": ("rehearsed-a",)}, unlisted={"hosts": "denied"})
    text = report(rehearsal(deletion=deletion, bill=Bill(tagged={}, account={"AmazonS3": 0.25}, settled=True)))
    assert "After 9 s there is left:\n- buckets: rehearsed-a\n- hosts could not be listed: denied" in text
    assert "| AmazonS3 | $0.0000 | $0.2500 |" in text


def test_one_that_has_not_ended_can_be_read() -> None:
    """It is written from the beginning on, so that a rehearsal that is killed has left something."""
    assert "Not yet." in report(rehearsal(deletion=None, ended_at=""))

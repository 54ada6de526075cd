"""`make nightly`: each part has a name, a bound and an end that is told."""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING

import pytest
from tests.suite.nightly import Ended, Part, all_parts, can_run, closing_line, main, run, table
from tests.suite.parts import PARTS

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_every_part_that_a_mark_can_name_is_run() -> None:
    """A part that nothing runs would protect nothing."""
    assert PARTS.keys() <= all_parts().keys()


def test_its_bounds_are_within_four_hours() -> None:
    """Each part ends, so that the whole night does; what it takes is far less (CONTRIBUTING.md)."""
    parts = all_parts().values()
    assert sum(part.limit_s for part in parts if part.needs != "docker") <= 4 * 3_600


@pytest.mark.parametrize(
    ("line", "closing"),
    [
        ("==== 12 passed, 3 deselected in 4.01s ====", "12 passed, 3 deselected in 4.01s"),
        ("= 1 failed, 2 passed, 1 error in 61.20s (0:01:01) =", "1 failed, 2 passed, 1 error in 61.20s (0:01:01)"),
        ("===== faults: whole runs (at most 60 s)", ""),
    ],
)
def test_a_part_s_result_is_pytests_own_closing_line(line: str, closing: str) -> None:
    """Whoever reads the table in the morning wants the counts."""
    assert closing_line(deque(["before", line, "after"])) == closing


@pytest.mark.parametrize(
    ("program", "limit_s", "verdict"),
    [("print()", 300, "ok"), ("exit(1)", 300, "failed"), ("import time; time.sleep(600)", 1, "out of time")],
)
def test_a_part_ends_by_itself_or_at_its_limit(program: str, limit_s: int, verdict: str) -> None:
    """One that hangs takes the time of no other."""
    ended = run("tried", Part((sys.executable, "-c", program), limit_s, "a program"))
    assert ended.verdict == verdict


def test_the_table_names_what_ran_and_what_could_not() -> None:
    """Nothing is left out in silence."""
    ended = [Ended("faults", 61.4, 0, "9 passed"), Ended("api", 700.0, 124, "")]
    assert table(ended, ["sam-local was left out: no docker here"]).splitlines() == [
        "faults      61 s  ok           9 passed",
        "api        700 s  out of time  ",
        "all        761 s",
        "sam-local was left out: no docker here",
    ]


def test_a_part_whose_program_is_missing_cannot_run() -> None:
    """It is named in the table instead."""
    assert not can_run(Part(("true",), 1, "", "no-such-program"))
    assert can_run(Part(("true",), 1, ""))


@pytest.mark.parametrize("names", [["fautls"], ["faults", "fautls"]])
def test_a_part_that_there_is_not_is_refused_before_any_runs(
    names: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A slip of the pen would else look like a night without failures."""
    assert main([*names]) == 2
    assert "no such part: fautls; the parts are api, browser" in capsys.readouterr().err

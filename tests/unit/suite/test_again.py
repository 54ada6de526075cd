"""The second run of tests that failed: who gets one, what is printed, and the whole on a small suite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.suite.again import Failure, Suite, closing_line, refusal, report, row, to_run_again

ROOT = Path(__file__).parents[3]
FLAKY = Failure("tests/unit/test_a.py::test_it[a|b c]", "assert 1 == 2")
STEADY = Failure("tests/unit/test_b.py::test_it", "KeyError: 'x'")


def suite(*failures: Failure, exit_code: int = 1, uncollected: int = 0) -> Suite:
    """Return how a suite of a hundred passed tests and two skipped ones ended."""
    return Suite(exit_code, {"passed": 100, "failed": len(failures), "skipped": 2}, uncollected, list(failures))


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (suite(*[FLAKY] * 5), ""),
        (suite(*[FLAKY] * 6), "6 tests failed"),
        (suite(FLAKY, exit_code=2), "ended with 2"),
        (suite(FLAKY, exit_code=3), "ended with 3"),
        (suite(FLAKY, uncollected=1), "could not be collected"),
    ],
    ids=["five", "six", "interrupted", "internal", "uncollected"],
)
def test_only_a_few_failed_tests_get_a_second_run(ended: Suite, expected: str) -> None:
    """Anything else is no mood of the machine."""
    assert expected in refusal(ended)
    assert bool(refusal(ended)) == bool(expected)


def test_a_changes_own_tests_get_no_second_run() -> None:
    """A new test that is unsteady would come in by luck; without a history any may be new."""
    ended = suite(FLAKY, STEADY)
    assert to_run_again(ended, {"tests/unit/test_b.py"}) == [FLAKY]
    assert to_run_again(ended, set()) == [FLAKY, STEADY]
    assert to_run_again(ended, None) == []


def test_a_row_can_be_put_into_the_table() -> None:
    """A bar in an id would be a further column."""
    expected = r"| `tests/unit/test_a.py::test_it[a\|b c]` | 2026-11-28 | assert 1 == 2; alone it passed | open |"
    assert row(FLAKY, "2026-11-28") == expected


def test_the_last_line_counts_both_runs_together() -> None:
    """A CI that reads it must see a failure that stayed, and none that went."""
    assert closing_line(suite(FLAKY, STEADY), unsteady=1) == "101 passed, 1 failed, 2 skipped"
    *_, last = report(suite(FLAKY), [FLAKY], [FLAKY], "2026-11-28")
    assert last == "101 passed, 0 failed, 2 skipped"


FIRST_FAILS = """
import pathlib, pytest

@pytest.mark.parametrize("text", ["a b", "x::y[z]", "|'$#"])
def test_odd(text):
    seen = pathlib.Path(__file__).with_suffix(f".{len(text)}")
    seen.touch() if (first := not seen.exists()) else None
    assert not first, "the first time"

def test_steady():
    pass
"""


class Checkout:
    """A small suite under git, with a module that is older than the change."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "conftest.py").write_text('pytest_plugins = ["tests.suite.again"]')
        (root / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib -p no:cacheprovider\n")
        (root / ".gitignore").write_text("*\n!*.py\n!*.ini\n__pycache__\n")
        self._git("init", "--quiet")

    def _git(self, *arguments: str) -> None:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
        subprocess.run(command, cwd=self.root, check=True, capture_output=True)

    def commit(self, **modules: str) -> None:
        """Write test modules and commit them."""
        for name, text in modules.items():
            (self.root / f"{name}.py").write_text(text)
        self._git("add", ".")
        self._git("commit", "--quiet", "--message=tests")

    def again(self, base: str) -> tuple[int, list[str]]:
        """Return how the suite and its second run ended, and what they printed."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
        environment = {
            **plain,
            "CHANGE_BASE": base,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # a second of each process
            "PYTHONPATH": str(ROOT),
        }
        suite = f"{sys.executable} -m pytest -p xdist --numprocesses=2 $PYTEST_ARGS"
        command = [sys.executable, "-m", "tests.suite.again", "sh", "-c", suite]
        ended = subprocess.run(
            command, cwd=self.root, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        return ended.returncode, ended.stdout.splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Return one whose only module fails at first."""
    checkout = Checkout(tmp_path)
    checkout.commit(test_flaky=FIRST_FAILS)
    return checkout


def test_unsteady_tests_keep_nothing_back(checkout: Checkout) -> None:
    """Each ran twice, in processes of their own, whatever its id looks like."""
    exit_code, lines = checkout.again("HEAD")
    rows = [line for line in lines if line.startswith("| `test_flaky.py::test_odd[")]
    assert exit_code == 0
    assert len(rows) == 3
    assert lines[-1] == "4 passed, 0 failed, 0 skipped"


def test_a_test_that_fails_twice_or_is_the_changes_own_fails_the_run(checkout: Checkout) -> None:
    """Else a fault would come in as an unsteady test."""
    checkout.commit(test_broken="def test_it():\n    assert False")
    checkout.commit(test_touched=FIRST_FAILS.replace('"a b", "x::y[z]", ', ""))
    exit_code, lines = checkout.again("HEAD~1")
    assert exit_code == 1
    assert "test_broken.py::test_it: failed (assert False), and again alone" in lines
    assert (
        "test_touched.py::test_odd[|'$#]" in lines[lines.index("=== failed, and of this change: no second run ===") :]
    )
    assert lines[-1] == "5 passed, 2 failed, 0 skipped"


def test_a_change_that_is_not_known_is_the_reason_for_no_second_run(checkout: Checkout) -> None:
    """Whoever reads the end of a log wants to know why; a CI reads the last line."""
    exit_code, lines = checkout.again("no-such-commit")
    assert exit_code == 1
    assert lines[-2:] == ["no second run: the change is not known", "1 passed, 3 failed, 0 skipped"]

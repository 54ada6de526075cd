"""Runs beside a load: each is kept, and none is run twice."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING

import pytest
from tests.suite.steadiness import main

if TYPE_CHECKING:
    from pathlib import Path

PASSED = {"exit_code": 0, "counts": {"passed": 3, "failed": 0, "skipped": 0}, "uncollected": 0, "failures": []}
FAILED = {"exit_code": 1, "counts": {"passed": 2, "failed": 1, "skipped": 0}, "uncollected": 0,
          "failures": [["tests/test_a.py::test_b", "late"]]}  # fmt: skip
WRITES = "import os, pathlib; pathlib.Path(os.environ['PYTEST_ARGS'].rpartition('=')[2]).write_text({text!r})"


@pytest.fixture(autouse=True)
def _no_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing compute beside the suite's own tests."""
    monkeypatch.setattr("tests.suite.steadiness.load", contextlib.nullcontext)


def series(folder: Path, program: str, runs: int) -> int:
    """Run a series whose suite is a program."""
    return main([str(folder), f"--runs={runs}", "--command", sys.executable, "-c", program])


def test_a_series_goes_on_where_it_was_interrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Five runs take longer than a session."""
    (tmp_path / "run-1.json").write_text(json.dumps(FAILED))
    assert series(tmp_path, WRITES.format(text=json.dumps(PASSED)), 2) == 1
    first, failure, second = capsys.readouterr().out.splitlines()
    assert first.startswith("run-1: exit code 1")
    assert failure == "  tests/test_a.py::test_b: late"
    assert second.startswith("run-2: exit code 0")


def test_a_run_that_does_not_end_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It leaves no outcomes; the next series tries it again."""
    assert series(tmp_path, "exit(2)", 1) == 1
    assert "run-1: did not end" in capsys.readouterr().out
    assert series(tmp_path, WRITES.format(text=json.dumps(PASSED)), 1) == 0

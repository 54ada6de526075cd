"""A run of the suite leaves nothing running: what a test leaves fails it, and is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.suite.leftovers import THREADS_LEFT

ROOT = Path(__file__).parents[3]
LEAVES_A_THREAD = """
import threading

def test_leaves_a_thread():
    threading.Thread(target=threading.Event().wait, name="forgotten", daemon=True).start()
"""
ENDS_IT = "def test_ends_it():\n    pass\n"


@pytest.mark.parametrize(("module", "code"), [(LEAVES_A_THREAD, THREADS_LEFT), (ENDS_IT, 0)], ids=["left", "ended"])
def test_a_thread_that_is_left_fails_the_run_and_no_second_run_hides_it(module: str, code: int, tmp_path: Path) -> None:
    """It takes its share of what the tests after it do; one that polls a closed socket took a whole core."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.suite.again", "tests.suite.leftovers"]')
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib -p no:cacheprovider\n")
    (tmp_path / "test_it.py").write_text(module)
    command = [sys.executable, "-m", "pytest", f"--outcomes={tmp_path}/outcomes", str(tmp_path)]
    ended = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == code, ended.stdout
    assert ("forgotten: " in ended.stdout) == bool(code)
    assert json.loads((tmp_path / "outcomes").read_text())["exit_code"] == code

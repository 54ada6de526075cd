"""From a fresh clone to a report, where neither clone nor user has a name that a program was tried with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import psutil
import pytest
from tests.end_to_end.deployment import ROOT

LIMIT_S = 1_200
PLAN = "quick-unloaded --no-floors --duration 2 --out"
"""A preset with options, as `make run` passes it to `stepbench run`."""

pytestmark = [
    pytest.mark.emulator,
    pytest.mark.stores,
    pytest.mark.nightly("environment"),
    pytest.mark.timeout(LIMIT_S),
]


def test_a_clone_in_a_folder_with_blanks_quotes_and_umlauts_runs(tmp_path: Path) -> None:
    """Make splits paths at blanks, shells at quotes; scripts of environments name their interpreter by its path."""
    clone, home = tmp_path / "größe it's", tmp_path / 'heim von "x" é'
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, listed):
        if (ROOT / name).exists():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, clone / name, follow_symlinks=False)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"}
    environ = {**inherited, "STEPBENCH_HOME": str(home)}
    done = subprocess.run(
        ["make", "run", f"PLAN={PLAN} 'out put'"],
        cwd=clone, env=environ, capture_output=True, text=True, check=False, timeout=LIMIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (summary,) = (clone / "out put").glob("*/summary.json")
    assert json.loads(summary.read_bytes())["status"] == "succeeded"
    assert summary.with_name("report.html").exists()
    shutil.rmtree(clone)  # more than a gigabyte, which pytest would keep
    assert not [each for each in psutil.process_iter() if str(home) in " ".join(_arguments(each))]


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []

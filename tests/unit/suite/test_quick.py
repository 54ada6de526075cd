"""Which tests are near a change, and how a run ends whose time is up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.suite.quick import arguments, imported_names, mirrors, module_name, nearest

CORE = "layers/core/src/stepbench"
TEXTS = {
    f"{CORE}/load/pacer.py": "",
    f"{CORE}/load/engine.py": "from stepbench.load import pacer",
    f"{CORE}/report/page.py": "from stepbench.load.engine import run",
    "functions/run_load.py": "",
    "tests/conftest.py": "",
    "tests/samples/paces.py": "import stepbench.load.pacer",
    "tests/unit/load/test_pacer.py": "from stepbench.load.pacer import pace",
    "tests/unit/load/test_other.py": "",
    "tests/unit/report/test_page.py": "from stepbench.load.engine import run",
    "tests/unit/report/test_far.py": "from stepbench.report.page import render",
    "tests/unit/stages/test_run_load.py": "",
    "tests/unit/stats/test_direct.py": "from stepbench.load import pacer",
    "tests/unit/stats/test_by_sample.py": "from tests.samples.paces import slow",
    "tests/unit/api/test_description.py": 'open("docs/openapi.json")',
    "tests/layout/test_template.py": "",
    "tests/statemachines/test_definitions.py": "",
    "tests/integration/load/test_pacer.py": "from stepbench.load import pacer",
}


def test_modules_have_the_names_they_are_imported_by() -> None:
    """A name that is wrong finds no importer, silently."""
    paths = (f"{CORE}/load/pacer.py", f"{CORE}/load/__init__.py", "functions/run_load.py", "tests/samples/paces.py")
    assert module_name("tools/src/stepbench_tools/cli/main.py") == "stepbench_tools.cli.main"
    assert list(map(module_name, paths)) == [
        "stepbench.load.pacer",
        "stepbench.load",
        "functions.run_load",
        "tests.samples.paces",
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import stepbench.load.pacer as p", "stepbench.load.pacer"),
        ("from stepbench.load import pacer", "stepbench.load.pacer"),
        ("from stepbench.load.pacer import pace", "stepbench.load.pacer"),
        ("from . import pacer", "stepbench.load.pacer"),
        ("from ..stats import tails", "stepbench.stats.tails"),
        ("def f():\n    from stepbench.load import pacer", "stepbench.load.pacer"),
    ],
)
def test_every_form_of_import_is_seen(text: str, name: str) -> None:
    """Where `y` of `from x import y` is a module, x is not what it needs."""
    assert name in imported_names(text, f"{CORE}/load/engine.py")


def test_the_nearest_tests_come_first() -> None:
    """If the time is not enough, it is the far ones that are left."""
    assert nearest([f"{CORE}/load/pacer.py", "tests/unit/stages/test_run_load.py"], TEXTS) == [
        "tests/unit/stages/test_run_load.py",
        "tests/unit/load/test_pacer.py",
        "tests/unit/load/test_other.py",
        "tests/unit/stats/test_direct.py",
        "tests/unit/report/test_page.py",
        "tests/unit/stats/test_by_sample.py",
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("functions/run_load.py", ["tests/unit/stages/test_run_load.py"]),
        (f"{CORE}/load/templates/page.css", ["tests/unit/load/test_other.py", "tests/unit/load/test_pacer.py"]),
        (f"{CORE}/load/gone.sql", ["tests/unit/load/test_other.py", "tests/unit/load/test_pacer.py"]),
        ("statemachines/run.asl.json", ["tests/statemachines/test_definitions.py"]),
        ("stacks/efs.yaml", ["tests/layout/test_template.py"]),
        ("docs/openapi.json", ["tests/layout/test_template.py", "tests/unit/api/test_description.py"]),
        ("tests/unit/report/conftest.py", ["tests/unit/report/test_far.py", "tests/unit/report/test_page.py"]),
        ("README.md", []),
    ],
)
def test_files_that_no_test_imports_have_tests(path: str, expected: list[str]) -> None:
    """A change of a template or a state machine is tested as quickly as one of a module."""
    assert nearest([path], TEXTS) == expected


def test_a_changed_test_has_no_mirror() -> None:
    """It is its own; its folder's others do not depend on it."""
    assert mirrors("tests/unit/load/test_pacer.py", TEXTS) == ([], [])


def test_few_modules_run_in_one_process() -> None:
    """A second one would import for longer than they take."""
    assert not any(each.startswith("--numprocesses") for each in arguments(["a"] * 12, 0))
    assert "--numprocesses=2" in arguments(["a"] * 13, 0)


@pytest.mark.parametrize("shared", [[], ["--numprocesses=2"]], ids=["alone", "shared"])
def test_what_there_is_no_time_for_is_counted_and_named(tmp_path: Path, shared: list[str]) -> None:
    """Tests that were passed over must not look like tests that passed."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.suite.quick"]')
    for name in ("one", "two"):
        (tmp_path / f"test_{name}.py").write_text("def test_it(): pass")
    root = Path(__file__).parents[3]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        f"--rootdir={tmp_path}",
        "--until=0",
        "-p",
        "xdist",
        *shared,
        str(tmp_path),
    ]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(root)}
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert "time is up: 2 modules not run, or not to their end" in ended.stdout
    assert {"test_one.py", "test_two.py"} <= set(ended.stdout.split())
    assert "passed" not in ended.stdout


INTERRUPTED = """
import os, signal
def test_it():
    os.kill(os.getpid(), signal.SIGINT)
"""


def test_an_interrupted_run_names_modules_that_had_not_begun(tmp_path: Path) -> None:
    """A test that goes on after the limit is interrupted, and those behind it must not be lost from sight."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.suite.quick"]')
    (tmp_path / "test_one.py").write_text(INTERRUPTED)
    (tmp_path / "test_two.py").write_text("def test_it(): pass")
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-m", "pytest", "-q", "--until=1e18", "-p", "xdist", "test_one.py", "test_two.py"]
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == pytest.ExitCode.INTERRUPTED
    assert "time is up: 1 modules not run, or not to their end" in ended.stdout
    assert "test_two.py" in ended.stdout.split()

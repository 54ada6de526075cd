"""Makefiles in a folder with blanks, quotes and letters beyond ASCII, which make takes for several names."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = 'größe it\'s 10 "x"'


def test_products_are_not_tracked() -> None:
    """A checkout may give a product and its sources times by which make takes it for current, and would deploy it."""
    ignored = subprocess.run(
        ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ignored.stdout == ""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a folder that a clone may lie in, with the Makefile and what the rules under test read."""
    clone = tmp_path / FOLDER
    (clone / "requirements").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "package-lock.json"):
        shutil.copy(ROOT / name, clone)
    shutil.copytree(ROOT / "layers" / "applications", clone / "layers" / "applications")
    shutil.copytree(ROOT / "requirements", clone / "requirements", dirs_exist_ok=True)
    return clone


def make(folder: Path, *arguments: str, path: Path | None = None) -> str:
    """Return what make prints there, as in a shell of its own, with programs of ours first on PATH."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "MFLAGS"}
    search = os.pathsep.join([*([str(path)] if path else []), os.environ["PATH"]])
    command = ["make", "--no-print-directory", *arguments]
    done = subprocess.run(
        command, cwd=folder, env={**inherited, "PATH": search}, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def program(folder: Path, text: str) -> None:
    """Put a shell script there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.write_text(f"#!/bin/sh\n{text}\n")
    folder.chmod(0o755)


def test_jars_are_put_into_the_clone(clone: Path, tmp_path: Path) -> None:
    """Maven is given one folder, and that is this one."""
    program(clone / ".ci" / "system-packages", "exit 0")
    program(tmp_path / "bin" / "mvn", 'for each; do echo "$each"; done; mkdir -p .stepbench/cassandra')
    said = make(clone, "--silent", ".stepbench/cassandra/.ready", path=tmp_path / "bin").splitlines()
    assert f"-DoutputDirectory={clone}/.stepbench/cassandra" in said
    assert (clone / ".stepbench" / "cassandra" / ".ready").exists()


@pytest.mark.parametrize(("target", "platform"), [("python3.11-x86_64", "x86_64"), ("python3.13-arm64", "aarch64")])
def test_layers_of_applications_are_for_the_python_that_their_folder_names(
    clone: Path, target: str, platform: str
) -> None:
    """SAM CLI runs it in a folder below STEPBENCH_HOME; it took the first word of that for Python's version."""
    folder = clone / "layers" / "applications" / "targets" / target
    said = make(folder, "--dry-run", "--file", "../../Makefile", "build-VideoLayer", "ARTIFACTS_DIR=/nowhere")
    assert f"--python-version {target.removeprefix('python').partition('-')[0]} " in said
    assert f"manylinux_2_28_{platform} " in said


@pytest.mark.parametrize("makefile", [*sorted(ROOT.glob("layers/*/Makefile")), ROOT / "events" / "Makefile"], ids=str)
def test_no_layer_writes_its_folder_into_a_command(makefile: Path) -> None:
    """Below a STEPBENCH_HOME with a double quote or a dollar, only the shell's own variables hold it whole."""
    targets = re.findall(r"(?m)^(build-\w+Layer):", makefile.read_text())
    assert targets
    said = make(makefile.parent, "--dry-run", "--always-make", *targets, 'ARTIFACTS_DIR=/nowhere/"x"')
    assert "ARTIFACTS_DIR" in said
    assert "nowhere" not in said
    assert str(ROOT) not in said


def test_every_command_of_set_up_is_one_for_the_shell(clone: Path) -> None:
    """A quote in a path that make writes out would begin a text that nothing ends."""
    said = make(clone, "--dry-run", "setup", "setup-test", "setup-cassandra", "PYTHON=python3", "MAKE=true")
    assert "venv" in said
    subprocess.run(["sh", "-n"], input=said, text=True, check=True, timeout=60)
    assert FOLDER not in said

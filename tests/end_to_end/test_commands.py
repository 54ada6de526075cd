"""Every command of the README, installed by `make setup` alone: without the libraries that only tests have."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.end_to_end.deployment import ROOT, STEPBENCH, UP_LIMIT_S, Deployment, plan

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(UP_LIMIT_S)]

INSTALL_LIMIT_S = 300
SECTION = re.compile(r"## Command line\n(.*?)\n## ", re.DOTALL)
COMMAND = re.compile(r"`(?:stepbench )?([a-z-]+)[^`]*`")


def commands_of(readme: str) -> list[str]:
    """Return the commands that the README's table names, in its first column."""
    (section,) = SECTION.findall(readme)
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    return [command for row in rows for command in COMMAND.findall(row)]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return `stepbench` in an environment that the Makefile's own rule has made, from what a run needs."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run(
        ["make", "--silent", f"VENV={folder}", f"{folder}/.run"], check=True, cwd=ROOT, timeout=INSTALL_LIMIT_S
    )
    return folder / "bin" / "stepbench"


@pytest.fixture(scope="module")
def fresh(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Return an environment of its own, which its commands start and stop."""
    folder = tmp_path_factory.mktemp("fresh")
    (folder / "out").mkdir()
    deployment = Deployment(folder / "home", folder / "out", {"PYTHONPATH": ""}, installed)
    yield deployment
    deployment.command("down")


Arguments = Callable[[Deployment], tuple[str | Path, ...]]


def _small_plan(fresh: Deployment) -> Path:
    path = fresh.home.parent / "small.json"
    path.write_text(json.dumps(plan("small", "etcd", warm_up=5, measured=20)))
    return path


ARGUMENTS: dict[str, Arguments] = {
    "init": lambda fresh: (fresh.home.parent / "plan.yaml",),
    "validate": lambda fresh: ("quick-unloaded", fresh.home.parent / "plan.yaml", "--repeats", "2", "--json"),
    "plans": lambda _: ("show", "quick-sql", "--yaml"),
    "schema": lambda _: (),
    "stores": lambda _: (),
    "calibrate": lambda _: ("--runs", "1", "--rate", "50", "--json"),
    "up": lambda _: (),
    "run": lambda fresh: (_small_plan(fresh), "--no-floors", "--out", fresh.out),
    "invoke": lambda _: ("ValidatePlan",),
    "load-host": lambda _: ("--help",),  # it serves a deployed stack for ever: test_load_host.py
    "report": lambda fresh: ("latest", "--out", fresh.out, "--quiet"),
    "runs": lambda fresh: ("--out", fresh.out),
    "compare": lambda fresh: ("latest", "latest", "--out", fresh.out),
    "completion": lambda _: ("bash",),
    "down": lambda _: (),
}
"""Cheap arguments that do a command's whole work, in the order in which the commands need each other."""


def test_the_readme_names_every_command_and_all_of_them_are_tried_here() -> None:
    """A new one belongs into the README's table, and into ARGUMENTS."""
    named = commands_of((ROOT / "README.md").read_text())
    helped = subprocess.run([STEPBENCH, "--help"], check=True, capture_output=True, text=True, timeout=60).stdout
    assert sorted(named) == sorted(ARGUMENTS) == sorted(re.findall(r"^    ([a-z-]+)", helped, re.MULTILINE))


@pytest.mark.parametrize("command", ARGUMENTS)
def test_every_command_works_after_make_setup_alone(fresh: Deployment, command: str) -> None:
    """The tests' libraries hid that `calibrate` lacked one of its own."""
    finished = fresh.command(command, *ARGUMENTS[command](fresh), limit_s=UP_LIMIT_S)
    assert finished.code == 0, finished.stderr
    assert finished.stdout.strip() or command == "down"

"""Every command of docs/command-line.md, installed by `make setup` alone: without libraries that only tests have."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.request import HTTPCookieProcessor, ProxyHandler, build_opener

import pytest
from tests.end_to_end.deployment import ROOT, STEPBENCH, UP_LIMIT_S, Deployment, plan
from tests.samples.transfers import published_line, published_text

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(UP_LIMIT_S)]

SECTION = re.compile(r"## Commands\n(.*?)\n## ", re.DOTALL)
COMMAND = re.compile(r"`(?:stepbench )?([a-z-]+)[^`]*`")


def commands_of(page: str) -> list[str]:
    """Return the commands that the page's table names, in its first column."""
    (section,) = SECTION.findall(page)
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    return [command for row in rows for command in COMMAND.findall(row)]


Arguments = Callable[[Deployment], tuple[str | Path, ...]]


def _small_plan(deployment: Deployment) -> Path:
    path = deployment.out / "small.json"
    path.write_text(json.dumps(plan("small", "etcd", warm_up=5, measured=20)))
    return path


def _another_run(deployment: Deployment) -> Path:
    """Leave the small run once more, as a run of its own: its numbers are alike."""
    (summary,) = deployment.out.glob("small-*/summary.json")
    folder = deployment.out / "another"
    folder.mkdir()
    again = {**json.loads(summary.read_text()), "run_id": folder.name, "started_at": "2026-01-01T00:00:00+00:00"}
    (folder / summary.name).write_text(json.dumps(again))
    return folder


def _published_rows(deployment: Deployment) -> Path:
    path = deployment.out / "rows.ndjson"
    path.write_text(published_text(published_line()))
    return path


ARGUMENTS: dict[str, Arguments] = {
    "init": lambda here: (here.out / "plan.yaml",),
    "validate": lambda here: ("quick-unloaded", here.out / "plan.yaml", "--repeats", "2", "--json"),
    "plans": lambda _: ("show", "quick-sql", "--yaml"),
    "schema": lambda _: (),
    "stores": lambda _: (),
    "calibrate": lambda _: ("--runs", "1", "--rate", "50", "--json"),
    "up": lambda _: (),
    "run": lambda here: (_small_plan(here), "--no-floors", "--out", here.out),
    "invoke": lambda _: ("ValidatePlan",),
    "sweep": lambda _: (),
    "dashboard": lambda _: ("--help",),  # it serves until Ctrl-C: see below
    "load-host": lambda _: ("--help",),  # it serves a deployed stack for ever: test_load_host.py
    "report": lambda here: ("latest", "--out", here.out, "--quiet"),
    "runs": lambda here: ("--out", here.out),
    "import": lambda here: (_published_rows(here), "--dataset", "theirs", "--out", here.out),
    "regressions": lambda here: ("--out", here.out),
    "prices": lambda _: ("--region", "eu-west-1"),
    "compare": lambda here: (_another_run(here), "latest", "--out", here.out),
    "tune": lambda _: ("--help",),  # it starts some sixty nodes; its search: tests/unit/tuning
    "completion": lambda _: ("bash",),
    "down": lambda _: ("--help",),  # the environment is other tests', too; its fixture ends it by this command
}
"""Cheap arguments that do a command's whole work, in the order in which the commands need each other."""


def test_the_page_names_every_command_and_all_of_them_are_tried_here() -> None:
    """A new one belongs into the table of docs/command-line.md, and into ARGUMENTS."""
    named = commands_of((ROOT / "docs/command-line.md").read_text())
    helped = subprocess.run([STEPBENCH, "--help"], check=True, capture_output=True, text=True, timeout=60).stdout
    assert sorted(named) == sorted(ARGUMENTS) == sorted(re.findall(r"^    ([a-z-]+)", helped, re.MULTILINE))


@pytest.mark.parametrize("command", ARGUMENTS)
def test_every_command_works_after_make_setup_alone(deployment: Deployment, command: str) -> None:
    """Whatever only tests have is not there."""
    finished = deployment.command(command, *ARGUMENTS[command](deployment), limit_s=UP_LIMIT_S)
    assert finished.code == 0, finished.stderr
    assert finished.stdout.strip()


def test_the_dashboard_serves_until_ctrl_c(deployment: Deployment) -> None:
    """It has a token of its own, and ends as one that was asked to."""
    command = [str(deployment.program), "dashboard"]
    with subprocess.Popen(command, env=deployment.environ, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            opener = build_opener(ProxyHandler({}), HTTPCookieProcessor())
            with opener.open(address, timeout=UP_LIMIT_S) as answer:
                assert "<h1>Runs</h1>" in answer.read().decode()
                assert re.fullmatch(rf"{re.escape(address.partition('?')[0])}[\w-]{{43}}/", answer.url)
            process.send_signal(signal.SIGINT)
            assert process.wait(UP_LIMIT_S) == 0
        finally:
            process.kill()

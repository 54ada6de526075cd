"""`make rehearse` on an emulator of its own: whole, and interrupted half-way; neither leaves anything."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stepbench_tools.local.deploy import build, exclusive_lock, python_runtime
from stepbench_tools.local.emulator.server import start_emulator
from stepbench_tools.local.paths import Paths
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.sam import emulator_account
from stepbench_tools.local.stores.references import start_clock_reference
from stepbench_tools.rehearsal.account import find_account, take_inventory

ROOT = Path(__file__).parents[2]
BUILD_LIMIT_S, LIMIT_S = 900, 600


@dataclass(frozen=True)
class Place:
    """An emulator, and what a rehearsal on it is given."""

    emulator: str
    endpoint: str
    clock: str
    out: Path

    def begin(self, stack: str, *more: str) -> subprocess.Popen[str]:
        """Start a rehearsal."""
        parameters = (f"ClockReference={self.clock}", "LeadSeconds=2")
        command = [
            sys.executable,
            "-m",
            "stepbench_tools.rehearsal",
            "--stack",
            stack,
            "--emulator",
            self.emulator,
            "--yes",
            *more,
        ]
        command += [word for each in parameters for word in ("--parameter", each)]
        environ = {**os.environ, "AWS_ENDPOINT_URL": self.endpoint}
        return subprocess.Popen(
            [*command, "--out", self.out],
            cwd=ROOT,
            env=environ,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def document(self, stack: str) -> dict[str, Any]:
        """Return the `rehearsal.json` of a stack's only rehearsal."""
        (path,) = self.out.glob(f"rehearsal-{stack}-*/rehearsal.json")
        document: dict[str, Any] = json.loads(path.read_text())
        return document

    def left(self, monkeypatch: pytest.MonkeyPatch, stack: str) -> dict[str, tuple[str, ...]]:
        """Return what the emulator has of a stack's name."""
        for name, value in emulator_account(self.endpoint).items():
            monkeypatch.setenv(name, value)
        return take_inventory(find_account(self.emulator), stack).found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Start an emulator and a clock reference, with a build at hand; no store."""
    paths = Paths(ROOT, tmp_path_factory.mktemp("rehearsal"))
    with exclusive_lock(paths.build, print):
        build(paths, python_runtime(paths))
    emulator = start_emulator(paths)
    clock_pid, clock = start_clock_reference(paths.logs)
    yield Place(emulator.name, emulator.endpoint, clock, paths.home / "out")
    terminate([*emulator.pids, clock_pid])


@pytest.mark.timeout(BUILD_LIMIT_S + LIMIT_S)
def test_a_rehearsal_runs_whole_and_leaves_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is assumed of AWS stays untried; what can be judged here, holds."""
    process = place.begin("whole")
    stdout, stderr = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, f"{stdout}\n{stderr}"
    document = place.document("whole")
    judged = {each["id"]: each for each in document["assumptions"]}
    assert {each["status"] for each in judged.values()} == {"not tried"}
    held = {
        name for name, each in judged.items() if f"{place.emulator}, which is not AWS, it held: " in each["observed"]
    }
    assert held >= {"deployment", "latency", "accounting", "iam", "logs", "clocks", "stopping", "deletion"}
    assert [each["part"] for each in document["runs"]] == ["s3-and-dynamodb", "clock-check", "stopping"]
    assert document["deletion"]["left"] == {}
    assert place.left(monkeypatch, "whole") == {}


@pytest.mark.timeout(LIMIT_S)
def test_an_interrupted_rehearsal_leaves_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C under load: the run is stopped, the stack deleted, and the record says so."""
    process = place.begin("halfway")
    assert process.stderr is not None
    try:
        begun = next((line for line in process.stderr if re.search(r"^trial 1/4 s3 · phase ", line)), None)
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
    assert begun is not None, rest
    assert process.returncode == 1, rest
    assert place.document("halfway")["ended"] == "it was interrupted"
    assert place.document("halfway")["runs"][0]["status"] == "stopped"
    assert place.left(monkeypatch, "halfway") == {}


@pytest.mark.timeout(LIMIT_S)
def test_a_name_that_is_taken_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of that name is deleted at the end, so nothing of it may be somebody else's."""
    for name, value in emulator_account(place.endpoint).items():
        monkeypatch.setenv(name, value)
    s3 = find_account(place.emulator).client("s3")
    s3.create_bucket(Bucket="taken-by-others")
    process = place.begin("taken")
    stdout, stderr = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 2, stdout
    assert 'STACK: is taken: buckets: taken-by-others (got "taken")' in stderr
    assert s3.list_buckets()["Buckets"][0]["Name"] == "taken-by-others"
    s3.delete_bucket(Bucket="taken-by-others")

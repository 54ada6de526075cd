"""Servers that die under a run, in a home of its own: what is finished is here, and each death is named."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.end_to_end.deployment import UP_LIMIT_S, Deployment, finish, plan, run_tag_of, wait_for

from stepbench.progress import WRITER
from stepbench_tools.local.environment import strays

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1_200)]


@pytest.fixture
def cold() -> Iterator[Deployment]:
    """Return a home in which nothing runs: the run starts its servers itself, so that it learns how they end."""
    with tempfile.TemporaryDirectory(prefix="stepbench-e2e-") as folder:
        home, out = Path(folder, "home"), Path(folder, "out")
        out.mkdir()
        yield Deployment(home, out)
        assert strays(home) == []


def sends(deployment: Deployment, name: str, trial: int) -> bool:
    """Tell whether a writer of the trial has sent something."""
    if not deployment.state.complete or (first := run_tag_of(deployment, name)) is None:
        return False
    tag = f"{first.rpartition('-')[0]}-{trial:04d}"
    beats = deployment.stack.table.beats(tag)
    return any(beat.get("progress", {}).get("sent") for who, beat in beats.items() if who.startswith(WRITER))


def kill(deployment: Deployment, server: str) -> int:
    """Kill the server itself, not the shell in front of it; return its pid."""
    found = deployment.state.server(server)
    assert found is not None
    os.kill(pid := found.processes[-1].pid, signal.SIGKILL)
    return pid


def test_each_server_that_is_killed_is_named_and_what_was_finished_is_kept(cold: Deployment) -> None:
    """Valkey in trial 1, PostgreSQL in trial 2; trial 3 goes through; the emulator, with the bucket, in trial 4."""
    name = "dying"
    victims = {0: "redis", 1: "postgresql", 3: "emulator"}
    document = plan(name, "redis", "postgresql", "etcd", "etcd")
    mix = {"mix": {"read": 1, "overwrite": 1}, "records": 10}
    document["trials"][0] |= {"experiment": "operations", "workload": mix}
    del document["trials"][0]["drain_limit_s"]
    for trial in victims:  # so long that it is killed in the middle, however busy the machine is
        document["trials"][trial]["phases"] = plan("", "etcd", measured=400)["trials"][0]["phases"]
    pids: dict[int, int] = {}
    with cold.running(document) as process:
        for trial, server in victims.items():
            assert wait_for(lambda trial=trial: sends(cold, name, trial), UP_LIMIT_S), trial  # type: ignore[misc]
            pids[trial] = kill(cold, server)
        finished = finish(process)
    assert finished.code == 1
    trials = finished.summary["trials"]
    assert finished.summary["status"] == "failed"
    for trial, server in victims.items():
        failure = trials[trial]["failure"]
        assert failure is not None, server
        assert failure["error"] == "ServerEndedError"
        assert failure["cause"].startswith(f"{server} (")
        assert f"{pids[trial]}) was ended by SIGKILL, seen at 20" in failure["cause"]
        assert failure["cause"] in finished.stderr
    assert trials[2]["failure"] is None
    assert trials[2]["accounting"]["ok_arrived"] == 60
    page = (cold.folder(finished) / "report.html").read_text()
    assert page.count("was ended by SIGKILL") >= len(victims)
    assert json.loads((cold.folder(finished) / "trials/0002/result.json").read_text())["summary"]["name"] == "etcd"
    assert (cold.folder(finished) / "trials/0002/records.parquet").stat().st_size > 0
    assert "left no account" not in page

"""Load from a host: the program that EC2 runs, beside the emulator; what a trial tells when it dies, or is gone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.end_to_end.deployment import (
    MEASURED_ATTEMPT,
    Deployment,
    Finished,
    finish,
    sandboxes,
    started_attempts,
    wait_for,
)
from tests.end_to_end.load_hosts import load_hosts, plan_from_host, writers_of

from stepbench_tools.local.processes import await_end

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(600), pytest.mark.nightly("load-host")]


def test_a_host_offers_the_load_and_no_function_does(deployment: Deployment) -> None:
    """The published experiments sent theirs from EC2: what came from there must not pass for Lambda's."""
    before, writers = deployment.inventory(), sandboxes(deployment, "RunWriter")
    name = "from-host"
    with deployment.running(plan_from_host(name)) as run:
        assert wait_for(lambda: MEASURED_ATTEMPT in started_attempts(deployment, name))
        (host,) = load_hosts(run)
        items = writers_of(host)
        assert set(sandboxes(deployment, "RunWriter")) <= set(writers), "those of earlier tests may still be there"
        finished = finish(run)
    trial = finished.trial
    assert finished.code == 0, finished.stderr
    assert len(items) == 1  # a process of its own for each writer
    accounting = trial["accounting"]
    assert (accounting["offered"], accounting["lost"]) == (60, 0)
    assert accounting["ok_arrived"] == accounting["ok"] == 60 - accounting["unsent"] > 0
    (machine,) = trial["load_hosts"]
    assert machine.startswith("this machine, ")
    assert trial["setup"]["load_from"] == "host"
    assert "RunWriter" not in {each["function"] for each in trial["invocations"]}
    assert machine in (deployment.folder(finished) / "report.html").read_text()
    assert await_end([host], 0) == []
    assert deployment.settled_inventory(before) == before


def test_without_a_host_the_trial_says_so_before_any_load(deployment: Deployment) -> None:
    """Somebody has stopped the instance to save its cost, and an execution must not wait for a year."""
    path = deployment.out / "no-host.json"
    path.write_text(json.dumps(plan_from_host("no-host")))
    finished = _run_there(deployment, path)
    trial = finished.trial
    assert finished.code == 1
    assert trial["failure"]["error"] == "LoadHostLostError"
    assert "stepbench load-host --stack NAME" in trial["failure"]["cause"]
    assert trial["accounting"] is None


def _run_there(deployment: Deployment, path: Any) -> Finished:  # noqa: ANN401 -- a path
    """Run as on a deployed stack, whose load host is nobody's business but its owner's."""
    command = ("run", path, "--stack", deployment.state.stack, "--json", "--out", deployment.out)
    return deployment.as_account().command(*command)

"""A run is stopped while each of its functions works, and each of them is killed at its work: nothing is left of it."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import signal
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
import pytest
from tests.end_to_end.api_client import ApiClient
from tests.end_to_end.deployment import plan, sandboxes, wait_for
from tests.samples.dags import DIAMOND, SMALL, dataflow_trial
from tests.statemachines.conftest import MACHINES, load_machine

from stepbench.contracts.runs import ENDED_STATES
from stepbench.planning import find_plan

if TYPE_CHECKING:
    from tests.end_to_end.deployment import Deployment
    from tests.faults.surroundings import Surroundings

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]

RUN_LIMIT_S = 200
WORK_S = 0.005
"""So much of the processor an invocation takes at least; an idle sandbox takes none."""
STILL_S = 2.0
LOAD = {"rate_per_s": 20, "count": 40}
UNITS = [{"capacity": {"mode": "provisioned", "write_units": units}} for units in (50, 100)]
STEADY: dict[str, Any] = {"name": "steady", "load": [LOAD]}
TRANSFER: dict[str, Any] = {"experiment": "transfer", "transfers": 2, "file_sizes_mib": [50], "seed": 0}
NEW_FILE_MIB = itertools.count(200)
"""Of files that are not there yet: those of earlier cases stay."""
DRAINED = {"drain_limit_s": 10}
OF_PRESET = {dag["name"]: dag for dag in json.loads(find_plan("quick-dataflow"))["trials"][0]["dags"]}
MOST_USD = 20.0
"""Of tasks that all took their whole time-outs."""
WIDE = 41
"""Tasks of a level that has executions of its own: see `workload.topology`."""


def _wide(task: str) -> dict[str, Any]:
    """Return a trial of DAGs of one wide level; whether its tasks succeed is nothing to who stops or kills them."""
    return dataflow_trial({"name": "wide", "stages": [{"name": "wide", "task": task, "tasks": WIDE, "timeout_s": 20}]})


TRIALS: dict[str, dict[str, Any]] = {
    "MakeInput": dataflow_trial(SMALL),
    "MakeVideoInput": dataflow_trial(OF_PRESET["video"], drain_limit_s=200),
    "MakeLearningInput": dataflow_trial(OF_PRESET["learning"], drain_limit_s=200),
    "RunTask": dataflow_trial(DIAMOND),
    "RunVideoTask": dataflow_trial(OF_PRESET["video"], drain_limit_s=200),
    "RunLearningTask": dataflow_trial(OF_PRESET["learning"], drain_limit_s=200),
    "RunWideTask": _wide("synthetic.work"),
    "RunWideVideoTask": _wide("video.classify"),
    "RunWideLearningTask": _wide("learning.train"),
    "RunInlineWriter": {
        "target": {"store": "postgresql"},
        "experiment": "operations",
        "workload": {"mix": {"insert": 1}, "records": 0},
        "phases": [{"name": "load", "invoked": {"operations": 200, "map": "inline"}}],
        "writers": 6,
    },
    "EndDataflow": dataflow_trial(DIAMOND),
    "SeedFiles": TRANSFER,
    "RefreshSandboxes": TRANSFER,
    "RunTransfer": TRANSFER,
    "ReceiveEvents": {"target": {"store": "s3"}, "phases": [STEADY], **DRAINED},
    "ScaleTarget": {
        **DRAINED,
        "target": {"store": "dynamodb", **UNITS[0]},
        "phases": [STEADY, {"name": "scaled", "load": [LOAD], "scale": UNITS[1]}],
    },
    "CheckPrecision": {
        **DRAINED,
        "target": {"store": "etcd"},
        "phases": [
            {
                "name": "steady",
                "load": [{"rate_per_s": 50, "duration_s": 5}],
                "until": {"metric": "p50", "relative_width": 2, "max_events": 2_000},
            }
        ],
    },
    "MeasureUtilisation": {
        **DRAINED,
        "target": {"store": "dynamodb", **UNITS[0]},
        "phases": [{"name": "load", "load": [{"rate_per_s": 20, "of_found": 1, "duration_s": 4}]}],
        "find_rate": {
            "utilisation": 0.6,
            "tolerance": 0.1,
            "low_per_s": 5,
            "high_per_s": 20,
            "probe_s": 5,
            "probes": 3,
        },
    },
}
"""Trials that have a function which those on etcd have not."""


def _functions() -> list[str]:
    """Return the functions of both machines' Task states, and the receiver; a task on Fargate is none."""
    names = {state.name for machine in MACHINES for state in load_machine(machine).tasks()}
    return sorted({*names, "ReceiveEvents"} - {"RunTransferTask"})


def _plan(function: str) -> dict[str, Any]:
    """Return a plan in which the function has something to do."""
    found = plan(f"at-{function}".lower(), "etcd", warm_up=10, measured=40)
    new = {"file_sizes_mib": [next(NEW_FILE_MIB)]} if function == "SeedFiles" else {}
    if function not in TRIALS:
        return found
    return {**found, "budget_usd": MOST_USD, "trials": [{**TRIALS[function], **new}]}


class Worker(NamedTuple):
    """A sandbox, and how much of the processor it has taken so far."""

    process: psutil.Process
    cpu_s: float


def _workers(deployment: Deployment, function: str) -> dict[int, Worker]:
    found = {}
    for process in sandboxes(deployment, re.sub("Wide|Inline", "", function)):  # another Map's state, of one function
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        found[process.pid] = Worker(process, times.user + times.system)
    return found


def _at_work(before: dict[int, Worker], now: dict[int, Worker]) -> list[psutil.Process]:
    """Return the sandboxes that are new, or have taken some of the processor since."""
    return [
        worker.process for pid, worker in now.items() if pid not in before or worker.cpu_s - before[pid].cpu_s >= WORK_S
    ]


def _start_until_at_work(api: ApiClient, deployment: Deployment, function: str) -> tuple[str, list[psutil.Process]]:
    """Start a run and wait until the function is at work in it; return the run's id, and the function's sandboxes."""
    before, working = _workers(deployment, function), list[psutil.Process]()
    run_id = str(api.call("POST", "/runs", {"plan": _plan(function)}).body["run_id"])
    until = time.monotonic() + RUN_LIMIT_S
    while not working and time.monotonic() < until:
        working = _at_work(before, _workers(deployment, function))
    assert working, f"{function} was never at work"
    return run_id, working


def _await_end(api: ApiClient, run_id: str) -> str:
    assert wait_for(lambda: api.call("GET", f"/runs/{run_id}").body["state"] in ENDED_STATES, RUN_LIMIT_S)
    return str(api.call("GET", f"/runs/{run_id}").body["state"])


def _assert_nothing_left(surroundings: Surroundings, before: dict[str, object]) -> None:
    """Leases, queue, targets and processes are as before, and no writer works any more."""
    assert surroundings.leftovers(before) == "nothing"
    assert wait_for(lambda: not _writers_at_work(surroundings.deployment), RUN_LIMIT_S)


def _writers_at_work(deployment: Deployment) -> list[psutil.Process]:
    """Return the sandboxes of writers that take some of the processor within `STILL_S`."""
    then = {name: _workers(deployment, name) for name in ("RunWriter", "RunTransfer")}
    time.sleep(STILL_S)
    return [each for name, before in then.items() for each in _at_work(before, _workers(deployment, name))]


@pytest.mark.parametrize("function", _functions())
def test_a_run_is_stopped_at_each_of_its_states(surroundings: Surroundings, function: str) -> None:
    """Whoever stops a run over the API does not know where it is."""
    api, before = ApiClient(surroundings.deployment), surroundings.footprint()
    run_id, _ = _start_until_at_work(api, surroundings.deployment, function)
    assert api.call("DELETE", f"/runs/{run_id}").status == 202
    assert _await_end(api, run_id) in {"stopped", "succeeded"}  # it may just have been concluded
    _assert_nothing_left(surroundings, before)


@pytest.mark.parametrize("function", _functions())
def test_a_function_that_is_killed_at_its_work_leaves_nothing(surroundings: Surroundings, function: str) -> None:
    """Its state is tried again, or the run fails; either way the store is free for the next one."""
    api, before = ApiClient(surroundings.deployment), surroundings.footprint()
    run_id, working = _start_until_at_work(api, surroundings.deployment, function)
    for process in working:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
    assert _await_end(api, run_id) in {"succeeded", "failed"}
    _assert_nothing_left(surroundings, before)

"""A run that is stopped or has nobody to write to, at every moment, and stores that stand still or are not there."""

from __future__ import annotations

import json
import os
import re
import select
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.end_to_end.deployment import RUN_LIMIT_S, Deployment, finish, plan, stopped, wait_for
from tests.end_to_end.moments import MOMENTS, assert_stops_cleanly

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]


def _drain(master: int) -> None:
    """Read what a terminal shows; its buffer is small, and a command would wait for the reader."""
    while select.select([master], [], [], 0)[0]:
        os.read(master, 65_536)


def _shown(deployment: Deployment, name: str, master: int) -> bool:
    _drain(master)
    return MOMENTS["measured"](deployment, name)


def test_a_terminal_that_is_closed_stops_the_run_and_leaves_nothing(deployment: Deployment) -> None:
    """Progress can be shown to nobody any more; writers, watchers and targets end all the same."""
    name = "closed-terminal"
    before = deployment.inventory()
    master, slave = os.openpty()
    terminal: dict[str, Any] = {"stdout": None, "stderr": None, "preexec_fn": partial(os.login_tty, slave)}
    with deployment.running(plan(name, "etcd", warm_up=60, measured=4_000), **terminal) as process:
        os.close(slave)
        assert wait_for(lambda: _shown(deployment, name, master))
        os.close(master)
        assert process.wait(RUN_LIMIT_S) == 1
    assert deployment.settled_inventory(before) == before
    (summary,) = deployment.out.glob(f"{name}-*/summary.json")
    assert json.loads(summary.read_text())["status"] == "stopped"


def test_a_run_whose_messages_have_no_room_goes_through(deployment: Deployment) -> None:
    """The log of a nightly run may fill its disk; the result is what counts."""
    with (
        Path("/dev/full").open("w") as full,
        deployment.running(plan("full-log", "etcd", warm_up=20, measured=20), stderr=full) as process,
    ):
        stdout, _ = process.communicate(timeout=RUN_LIMIT_S)
    assert process.returncode == 0
    assert json.loads(stdout)["status"] == "succeeded"


def test_a_run_whose_data_have_no_room_fails_and_leaves_its_results(deployment: Deployment) -> None:
    """A script would read half a document; the folder has all of it."""
    name = "full-data"
    before = deployment.inventory()
    with (
        Path("/dev/full").open("w") as full,
        deployment.running(plan(name, "etcd", warm_up=20, measured=20), stdout=full) as process,
    ):
        _, stderr = process.communicate(timeout=RUN_LIMIT_S)
    assert process.returncode == 4
    assert "No space left on device" in stderr
    (summary,) = deployment.out.glob(f"{name}-*/summary.json")
    assert json.loads(summary.read_text())["status"] == "succeeded"
    assert deployment.settled_inventory(before) == before


def test_a_store_that_stood_still_is_named_with_its_time_and_the_generator_is_not_blamed(
    deployment: Deployment,
) -> None:
    """100 events are due while etcd is stopped: some wait in flight, some for a place, none because of the writer."""
    name, stopped_s = "stalled", 5.0
    etcd = deployment.state.server("etcd")
    assert etcd is not None
    with deployment.running(plan(name, "etcd", measured=300)) as process:
        assert wait_for(lambda: MOMENTS["measured"](deployment, name))
        at = datetime.now(UTC)
        with stopped([psutil.Process(each.pid) for each in etcd.processes]):
            time.sleep(stopped_s)
        finished = finish(process)
    assert finished.code == 0, finished.stderr
    accounting = finished.trial["accounting"]
    assert (accounting["offered"], accounting["ok"], accounting["lost"]) == (300, 300, 0)
    caveats = {caveat["kind"]: caveat["text"] for caveat in finished.trial["caveats"]}
    assert "saturated_generator" not in caveats
    told = re.search(
        r"Phase unloaded: .* between ([\d.]+) s and ([\d.]+) s of the trial \((.*) UTC\)", caveats["store_stalled"]
    )
    assert told is not None, caveats
    assert float(told[2]) - float(told[1]) == pytest.approx(stopped_s, abs=1.5)
    began = datetime.strptime(f"{at:%Y-%m-%d} {told[3]} +0000", "%Y-%m-%d %H:%M:%S %z")
    assert abs(began - at) < timedelta(seconds=3)


def test_trials_on_a_dead_store_fail_soon_say_why_and_hold_up_no_other(deployment: Deployment) -> None:
    """The first once kept its lease for want of the store, and the second waited ten minutes for that."""
    dead = {
        "experiment": "operations",
        "target": {"store": "redis", "endpoint": "127.0.0.1:1"},
        "workload": {"mix": {"read": 1}, "records": 10},
        "phases": [{"name": "load", "closed": {"clients": 1, "duration_s": 2}}],
    }
    mixed = plan("dead-store", "etcd")
    mixed["trials"] = [{"name": "one", **dead}, {"name": "two", **dead}, *mixed["trials"]]
    before = deployment.inventory()
    finished = deployment.run(mixed)
    assert finished.code == 1
    failures = [trial.get("failure") for trial in finished.summary["trials"]]
    assert [failure and failure["error"] for failure in failures] == ["TargetUnreachableError"] * 2 + [None]
    assert "Redis at 127.0.0.1:1: connect: refused" in failures[0]["cause"]
    assert "did not answer trial 1 of this run" in failures[1]["cause"]
    assert finished.summary["trials"][2]["accounting"]["received"] == 60
    assert deployment.settled_inventory(before) == before


@pytest.mark.parametrize(
    ("moment", "store"),
    [
        ("start", "postgresql"),
        ("prepare", "etcd"),
        ("warm-up", "postgresql"),
        ("measured", "etcd"),
        ("measured", "dynamodb"),
        ("measured", "postgresql"),
        ("analysis", "s3"),
    ],
)
def test_control_c_at_any_moment_leaves_nothing_running_and_nothing_behind(
    deployment: Deployment, moment: str, store: str
) -> None:
    """The user who presses Ctrl-C has no second tool to clean up with."""
    assert_stops_cleanly(deployment, moment, store)

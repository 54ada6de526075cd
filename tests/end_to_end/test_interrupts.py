from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest
from tests.end_to_end.deployment import (
    MEASURED_ATTEMPT,
    Deployment,
    finish,
    plan,
    run_tag_of,
    wait_for,
)

from stepbench.records import layout

pytestmark = pytest.mark.end_to_end

WARM_UP_ATTEMPT = layout.attempt_id(0, 0, 0, 0)


def _leased(deployment: Deployment, name: str) -> bool:
    tag = run_tag_of(deployment, name)
    return any(lease.tag == tag for lease in deployment.stack.table.leases())


def _progress(deployment: Deployment, name: str, attempt: str) -> dict[str, Any]:
    tag = run_tag_of(deployment, name)
    beats = deployment.stack.table.beats(tag) if tag else {}
    return beats.get(f"writer#{attempt}", {})


def _sends(deployment: Deployment, name: str, attempt: str) -> bool:
    return bool(_progress(deployment, name, attempt).get("progress", {}).get("sent"))


MOMENTS: dict[str, Callable[[Deployment, str], bool]] = {
    "start": lambda deployment, name: run_tag_of(deployment, name) is not None,
    "prepare": _leased,
    "warm-up": lambda deployment, name: _sends(deployment, name, WARM_UP_ATTEMPT),
    "measured": lambda deployment, name: _sends(deployment, name, MEASURED_ATTEMPT),
    "analysis": lambda deployment, name: bool(_progress(deployment, name, MEASURED_ATTEMPT).get("ended")),
}


@pytest.mark.parametrize(
    ("moment", "store"),
    [
        ("start", "postgresql"),
        ("prepare", "etcd"),
        ("warm-up", "postgresql"),
        ("measured", "etcd"),
        ("measured", "dynamodb"),
        ("analysis", "s3"),
    ],
)
def test_control_c_at_any_moment_leaves_nothing_running_and_nothing_behind(
    deployment: Deployment, moment: str, store: str
) -> None:
    """The user who presses Ctrl-C has no second tool to clean up with."""
    name = f"ctrl-c-{moment}-{store}"
    before = deployment.inventory()
    with deployment.running(plan(name, store, warm_up=60, measured=100)) as process:
        assert wait_for(lambda: MOMENTS[moment](deployment, name), 90)
        process.send_signal(signal.SIGINT)
        finished = finish(process)
    assert finished.code == 1, finished.stderr
    assert deployment.settled_inventory(before) == before
    assert finished.summary["status"] == "stopped"
    if moment == "measured":
        books = finished.trial["accounting"]
        assert finished.trial["incomplete"]
        assert books["offered"] == 100 == books["sent"] + books["unsent"] + books["unrecorded"]
        assert 0 < books["ok"] < 100

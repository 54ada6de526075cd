"""Moments of a run, for tests that strike or stop it at one."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from tests.end_to_end.deployment import MEASURED_ATTEMPT, TO_BE_STOPPED, Deployment, finish, plan, run_tag_of, wait_for

from stepbench.records.storage import layout

WARM_UP_ATTEMPT = layout.attempt_id(0, 0, 0, 0)


def _leased(deployment: Deployment, name: str) -> bool:
    tag = run_tag_of(deployment, name)
    return any(lease.tag == tag for lease in deployment.stack.table.leases())


def _progress(deployment: Deployment, name: str, attempt: str) -> dict[str, Any]:
    tag = run_tag_of(deployment, name)
    beats = deployment.stack.table.beats(tag) if tag else {}
    return beats.get(f"writer#{attempt}", {})


def sends(deployment: Deployment, name: str, attempt: str, *, more_than: int = 0) -> bool:
    """Tell whether a writer's attempt has said that it has sent more than so many."""
    return int(_progress(deployment, name, attempt).get("progress", {}).get("sent", 0)) > more_than


MOMENTS: dict[str, Callable[[Deployment, str], bool]] = {
    "start": lambda deployment, name: run_tag_of(deployment, name) is not None,
    "prepare": _leased,
    "warm-up": lambda deployment, name: sends(deployment, name, WARM_UP_ATTEMPT),
    "measured": lambda deployment, name: sends(deployment, name, MEASURED_ATTEMPT),
    "analysis": lambda deployment, name: bool(_progress(deployment, name, MEASURED_ATTEMPT).get("ended")),
}


def assert_stops_cleanly(deployment: Deployment, moment: str, store: str) -> None:
    """Press Ctrl-C at a moment of a run: it ends in order, accounts for what it has done, and leaves nothing."""
    name = f"ctrl-c-{moment}-{store}"
    before = deployment.inventory()
    measured = 60 if moment == "analysis" else TO_BE_STOPPED
    with deployment.running(plan(name, store, warm_up=60, measured=measured)) as process:
        assert wait_for(lambda: MOMENTS[moment](deployment, name))
        process.send_signal(signal.SIGINT)
        finished = finish(process)
    assert finished.code == 1, finished.stderr
    assert deployment.settled_inventory(before) == before
    assert finished.summary["status"] == "stopped"
    if moment == "measured":
        accounting = finished.trial["accounting"]
        assert finished.trial["incomplete"]
        assert (
            accounting["offered"]
            == TO_BE_STOPPED
            == accounting["sent"] + accounting["unsent"] + accounting["unrecorded"]
        )
        assert 0 < accounting["ok"] < TO_BE_STOPPED
        assert (accounting["lost"], accounting["ok"]) == (0, accounting["ok_arrived"] + accounting["cut_off"])
        kinds = {"incomplete", "unsent", "missing_writer", "short_sample", "lost_events"}
        remedies = {caveat["remedy"] for caveat in finished.trial["caveats"] if caveat["kind"] in kinds}
        assert remedies == {"The run was stopped: run it again, to its end."}

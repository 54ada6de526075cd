from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.end_to_end.deployment import MEASURED_ATTEMPT, finish, plan, started_attempts, wait_for
from tests.end_to_end.load_hosts import load_hosts, plan_from_host, writers_of

from stepbench_tools.local.processes import await_end

if TYPE_CHECKING:
    from tests.end_to_end.deployment import Deployment

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]


def test_a_host_that_dies_leaves_an_accounted_trial_and_the_next_one_runs(deployment: Deployment) -> None:
    """Nobody says so but the silence, which the state machine has to notice."""
    name, measured = "host-dies", 600
    document = plan_from_host(name, measured=measured)
    document["trials"].append({**plan("next", "etcd")["trials"][0], "name": "next"})
    with deployment.running(document) as run:
        assert wait_for(lambda: MEASURED_ATTEMPT in started_attempts(deployment, name))
        (host,) = load_hosts(run)
        items = writers_of(host)
        host.kill()
        assert await_end(items, 10) == []  # it takes its writers along
        finished = finish(run, 400)
    died, after = finished.summary["trials"]
    accounting = died["accounting"]
    assert accounting["offered"] == measured == sum(accounting[each] for each in ("sent", "unsent", "unrecorded"))
    assert accounting["ok"] < measured
    (missing,) = [caveat["text"] for caveat in died["caveats"] if caveat["kind"] == "missing_writer"]
    assert "LoadHostLostError: no load host took the slice" in missing
    assert items
    assert (after["failure"], after["accounting"]["offered"], after["load_hosts"]) == (None, 60, [])

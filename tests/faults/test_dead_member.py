"""etcd as a cluster of three in the embedded run, and what a trial tells of the death of its leader."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import urllib.request
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from tests.end_to_end.deployment import UP_LIMIT_S, Deployment, finish, plan, run_tag_of, wait_for

from stepbench.progress import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench_tools.local.state import Server

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
MEASURED = 600
NO_LEADER_S = 0.5
"""A follower waits for one to two seconds for its leader before it stands for election."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Deployment]:
    """Bring an environment of its own up, whose etcd has three members."""
    with tempfile.TemporaryDirectory(prefix="stepbench-members-") as folder:
        home, out = Path(folder, "home"), Path(folder, "out")
        out.mkdir()
        deployment = Deployment(home, out)
        up = deployment.command("up", "--etcd-members", "3", limit_s=UP_LIMIT_S)
        assert up.code == 0, up.stderr
        yield deployment
        assert deployment.command("down").code == 0


def _status(server: Server) -> dict[str, Any]:
    request = urllib.request.Request(f"http://{server.endpoint}/v3/maintenance/status", b"{}")
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 -- loopback
        status: dict[str, Any] = json.load(answer)
    return status


def _leader(deployment: Deployment) -> Server:
    members = deployment.state.members("etcd")
    told = {_status(each)["header"]["member_id"]: each for each in members}
    return told[_status(members[0])["leader"]]


def _sent(deployment: Deployment, name: str) -> int:
    tag = run_tag_of(deployment, name)
    return counted(deployment.stack.table.beats(tag), "sent") if tag else 0


def test_a_leader_that_dies_in_the_middle_leaves_a_gap_and_nothing_unaccounted(cluster: Deployment) -> None:
    """A fail-over is what three members are for: its cost has to be seen, and no event may be lost in it."""
    name = "leader"
    with cluster.running({**plan(name, "etcd", measured=MEASURED)}) as process:
        assert wait_for(lambda: _sent(cluster, name) > MEASURED / 3)
        leader = _leader(cluster)
        os.kill(leader.processes[0].pid, signal.SIGKILL)
        finished = finish(process)
    trial = finished.trial
    accounting = trial["accounting"]
    assert accounting["offered"] == MEASURED == accounting["sent"] + accounting["unsent"]
    assert accounting["sent"] == accounting["ok"] + accounting["failed"] + accounting["unknown"]
    assert accounting["failed"] + accounting["unknown"] > 0
    assert accounting["ok"] > MEASURED / 2
    assert (accounting["lost"], accounting["ok_arrived"]) == (0, accounting["ok"])
    assert "store_stalled" in {caveat["kind"] for caveat in trial["caveats"]}
    assert trial["provider"].endswith("(3 members)")
    assert f"{leader.name} (3.5.1 (wheel), pid {leader.processes[0].pid}) is gone" in finished.stderr
    assert _longest_gap_s(cluster.folder(finished)) > NO_LEADER_S


def _longest_gap_s(folder: Path) -> float:
    """Return the longest time between two acknowledgements."""
    (records,) = folder.glob("trials/*/records.parquet")
    table = pq.read_table(records, columns=["t2_ns", "outcome"])
    acknowledged = sorted(
        t2_ns
        for t2_ns, outcome in zip(*(column.to_pylist() for column in table.columns), strict=True)
        if outcome == "ok"
    )
    return float(max(after - before for before, after in pairwise(acknowledged))) / 1e9

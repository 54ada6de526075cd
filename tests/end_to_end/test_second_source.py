from __future__ import annotations

from typing import Any

import pytest
from tests.end_to_end.deployment import Deployment, plan

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.tasks import TrialRef
from stepbench.records.t4 import parse_item
from stepbench.records.t4_pages import read_t4_lines

pytestmark = pytest.mark.end_to_end


@pytest.mark.parametrize("store", ["s3", "etcd"])
def test_arrivals_come_by_the_log_as_well_and_agree(deployment: Deployment, store: str) -> None:
    """A receiver's and a watcher's print, through CloudWatch Logs, against what they stored: the same, byte by byte."""
    asked: dict[str, Any] = plan(f"log-{store}", store)
    asked["trials"][0]["log_t4"] = "all"
    finished = deployment.run(asked)
    assert finished.code == 0, finished.stderr
    assert [each["kind"] for each in finished.trial["caveats"] if each["kind"] == "log_disagreement"] == []
    run_id = str(finished.summary["run_id"])
    ref = TrialRef(run_id=run_id, trial=0, tag=trial_tag(run_id, 0))
    lines, damaged = read_t4_lines(ref, deployment.stack.runs)
    items = [item for item in map(parse_item, deployment.stack.table.t4_items(ref.tag)) if item.entries.size]
    assert damaged == ()
    assert {(line.request_id, line.entries) for line in lines} == {
        (item.request_id, item.entries.tobytes()) for item in items
    }
    assert sum(item.entries.size for item in items) >= 80

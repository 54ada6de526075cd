"""Ten real runs at once: they take turns at two stores, in the order in which they came, and all of them go through."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from tests.end_to_end.api_client import ApiClient
from tests.end_to_end.deployment import plan, wait_for

from stepbench.contracts.runs import ENDED_STATES

if TYPE_CHECKING:
    from tests.faults.surroundings import Surroundings

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

RUNS, LIMIT_S = 10, 600
STORES = ("s3", "etcd")


def test_ten_runs_at_once_take_turns(surroundings: Surroundings) -> None:
    """Two at one store would measure each other; one that is lost would be waited for in vain."""
    api, before = ApiClient(surroundings.deployment), surroundings.footprint()

    def submit(number: int) -> str:
        document = plan(f"many-{number}", STORES[number % len(STORES)], warm_up=5, measured=20)
        return str(api.call("POST", "/runs", {"plan": document}).body["run_id"])

    with ThreadPoolExecutor(RUNS) as threads:
        ids = list(threads.map(submit, range(RUNS)))

    def look() -> list[dict[str, Any]]:
        return [api.call("GET", f"/runs/{run_id}").body for run_id in ids]

    assert wait_for(lambda: all(run["state"] in ENDED_STATES for run in look()), LIMIT_S)
    runs = look()
    assert {run["state"] for run in runs} == {"succeeded"}
    for store in range(len(STORES)):
        own = sorted(
            (datetime.fromisoformat(run["started_at"]), datetime.fromisoformat(run["finished_at"]))
            for number, run in enumerate(runs)
            if number % len(STORES) == store
        )
        assert all(ended <= begun for (_, ended), (begun, _) in pairwise(own)), own
    assert surroundings.leftovers(before) == "nothing"

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from tests.end_to_end.deployment import Deployment

pytestmark = pytest.mark.end_to_end

RATE_PER_S = 50


def test_a_phase_ends_when_it_is_sure_and_the_report_says_why(deployment: Deployment) -> None:
    """
    Both branches of the state machine; no gap before the end, balanced books.

    On a busy machine a writer that begins late leaves events unsent; one that sees the end late sends some beyond it.
    """
    until = {"metric": "p50", "relative_width": 2, "max_events": 100 * RATE_PER_S}
    phase = {"name": "steady", "load": [{"rate_per_s": RATE_PER_S, "duration_s": 5}], "until": until}
    trial: dict[str, Any] = {"target": {"store": "etcd"}, "phases": [phase], "writers": 2, "drain_limit_s": 10}
    finished = deployment.run({"name": "until", "trials": [trial]})
    assert finished.code == 0, finished.stderr
    (stopped,) = finished.trial["stopped"]
    (window,) = finished.trial["windows"]
    books = finished.trial["accounting"]
    assert (stopped["reason"], stopped["metric"]) == ("sure", "p50")
    assert stopped["stopped_at_s"] < 100
    assert books["offered"] == books["ok"] + books["unsent"] < 100 * RATE_PER_S, books
    assert window["n"] <= books["ok"] == books["received"], books
    run = deployment.out / finished.summary["run_id"]
    t0_ns = pq.read_table(next(run.rglob("records.parquet")))["t0_ns"].to_numpy()
    assert t0_ns.size == books["offered"]
    due_ns = t0_ns[t0_ns < t0_ns[0] + stopped["stopped_at_s"] * 1e9]
    assert due_ns.size == pytest.approx(stopped["stopped_at_s"] * RATE_PER_S, abs=1)
    assert (np.diff(due_ns) == 10**9 // RATE_PER_S).all()
    assert stopped["text"] in (run / "report.html").read_text()

"""One execution's tasks as they are drawn, added up by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.samples.dag_rows import MS, ORIGIN_NS, event_text
from tests.samples.finished_dags import FORK, fork_rows

from stepbench.experiments.dataflow.analysis.chart_data import gantt
from stepbench.experiments.dataflow.analysis.executions import Execution, ExecutionTasks

EXECUTION = Execution(event_text(), FORK, 0, 0, ORIGIN_NS, ORIGIN_NS + MS, ORIGIN_NS + 90 * MS, arrived=True, end=None)


@pytest.mark.parametrize(
    ("get_ms", "put_ms", "opens"),
    [(0, 0, []), (0.05, 0.05, []), (0.5, 0, [(37.5, 38)]), (1, 0.25, [(37, 38), (58.75, 59)])],
)
def test_connecting_is_drawn_before_what_waited_for_it(
    get_ms: float, put_ms: float, opens: list[tuple[float, float]]
) -> None:
    """Of b-1: it begins at 37, gets from 38 on, has computed at 58, and puts from 59 on; what is too short is left."""
    a, b0, b1, c = fork_rows(event_text())
    waited = zip(b1.blobs, (get_ms, put_ms), strict=True)
    blobs = tuple(blob.model_copy(update={"connect_ns": round(ms * MS)}) for blob, ms in waited)
    window: Any = SimpleNamespace(name="all", phase="run")
    tasks = ExecutionTasks(FORK, [a, b0, b1.model_copy(update={"blobs": blobs}), c])
    drawn = gantt(EXECUTION, tasks, window)
    spans = [span for row in drawn.rows if (row.stage, row.index) == ("b", 1) for span in row.spans]
    assert [(span.from_ms, span.to_ms) for span in spans if span.kind == "open"] == opens
    assert [span.from_ms for span in spans] == sorted(span.from_ms for span in spans)

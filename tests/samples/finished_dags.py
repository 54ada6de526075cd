"""A trial of DAGs as its writers, tasks and ends would have left it, with times that can be added up by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from tests.samples.dag_rows import MS, ORIGIN_NS, blob, dag_end, event_text, task_row
from tests.samples.dags import dag_of, stage
from tests.samples.finished_trials import SECOND_NS, AnalysedTrial

from stepbench.records.storage.dag_rows import DagRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.dataflow.rows import DagEnd, TaskRow

FORK = dag_of(stage("a"), stage("b", ("a", "scatter"), tasks=2), stage("c", ("b", "gather")), name="fork")
"""Four tasks on three levels; a-0/b-0, a-0/b-1, b-0/c-0 and b-1/c-0, each read once."""
END_MS = 90


def fork_rows(event: str, at_ms: float = 0, *, slower_ms: float = 0, **fields: Any) -> list[TaskRow]:  # noqa: ANN401 -- rows' fields
    """
    Return the rows of an execution that was due so long after the origin; its last task computes longer by so much.

    Of each: a-0 from 10 to 30 ms, b-0 from 35 to 55, b-1 from 37 to 65, c-0 from 70 to 80. a-0 has 2 ms of opening, 5
    of computing, two puts of 4 ms, the second 2 ms after the first, with 1 ms of code each: 8 ms. b-0 and b-1 get and
    put for 5 ms each, and compute for 8 and 15. c-0 gets two objects one beside the other, in 4 + 2 ms.
    """
    t, same = at_ms, {"event": event, "dag": "fork", **fields}
    cold = {**same, "cold": True, "init_ns": 100 * MS}
    puts = blob("put", "a-0/b-0", t + 20), blob("put", "a-0/b-1", t + 22)
    gets = blob("get", "b-0/c-0", t + 71), blob("get", "b-1/c-0", t + 71)
    return [
        task_row("a", t + 10, t + 30, *puts, open_ns=2 * MS, compute_ns=5 * MS, **same),
        task_row("b", t + 35, t + 55, blob("get", "a-0/b-0", t + 36), blob("put", "b-0/c-0", t + 50),
                 compute_ns=8 * MS, **same),
        task_row("b", t + 37, t + 65, blob("get", "a-0/b-1", t + 38), blob("put", "b-1/c-0", t + 60),
                 compute_ns=15 * MS, index=1, **cold),
        task_row("c", t + 70, t + 80 + slower_ms, *gets, compute_ns=round((2 + slower_ms) * MS),
                 result='{"labels": [1]}', **same),
    ]  # fmt: skip


SLOWER_MS = (3, 6, 1, 4, 7, 0, 5, 2)


def slower_each_time() -> FinishedDags:
    """Return eight executions, slower than the fork's times by 0 to 7 ms, in no order."""
    trial = FinishedDags(len(SLOWER_MS))
    for number, slower_ms in enumerate(SLOWER_MS):
        trial.execution(number, slower_ms=slower_ms)
    return trial


class FinishedDags(AnalysedTrial):
    """Executions of the fork, one a second, due from the origin on; every one was started."""

    def __init__(self, executions: int, **plan: Any) -> None:  # noqa: ANN401 -- a plan's fields
        phases = [{"name": "run", "load": [{"rate_per_s": 1, "count": executions}]}]
        fields = {"experiment": "dataflow", "dags": [FORK.model_dump()], "phases": phases, **plan}
        super().__init__(**fields)
        self.rows_of = DagRows(self.memory.services.table)
        self.records.plan_phase(0)
        self.records.rows(0, ORIGIN_NS + np.arange(executions) * SECOND_NS)

    def execution(
        self, number: int, rows: Sequence[TaskRow] | None = None, end: DagEnd | None = None, *, slower_ms: float = 0
    ) -> None:
        """Leave what one execution leaves: the fork's rows, its end and its arrival, unless others are given."""
        event, at_ms = event_text(number), number * 1e3
        for row in fork_rows(event, at_ms, slower_ms=slower_ms) if rows is None else rows:
            self.rows_of.put_task(self.ref.tag, row)
        ended = end or dag_end(at_ms + END_MS + slower_ms, event=event, dag="fork", deleted=4)
        self.rows_of.put_end(self.ref.tag, ended)
        if ended.completed:
            self.records.deliver(0, number, ended.ended_ns)

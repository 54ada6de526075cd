"""A window's executions of a DAG: gathered one by one, by due time, what the report shows of them, and their cost."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, get_args

import numpy as np

from stepbench.clock import covered
from stepbench.contracts.dataflow.result import (
    ORCHESTRATION,
    PASSING,
    CriticalTask,
    DagWindow,
    DataflowCost,
    PathPart,
    PathShare,
)
from stepbench.experiments.dataflow.analysis.executions import critical_path, level_times, task_parts
from stepbench.experiments.dataflow.analysis.stages import (
    EdgeTallies,
    LevelTally,
    StageTally,
    mean_share,
    spread,
    spread_ms,
)
from stepbench.experiments.dataflow.offering import ExecutionUsage, WindowUsage
from stepbench.stats.dependence import DependentSeries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepbench.contracts.dataflow.dag import Dag
    from stepbench.contracts.measures import Estimate, WindowResult
    from stepbench.experiments.dataflow.analysis.executions import Execution, ExecutionTasks
    from stepbench.experiments.dataflow.offering import WindowCost

NS_PER_S = 1e9


class WindowTally:
    """Gathers the executions of one window."""

    def __init__(self, dag: Dag, result: WindowResult, begin_ns: int, length_s: float) -> None:
        self.dag, self.result = dag, result
        self._begin_ns, self._length_s = begin_ns, length_s
        self._place = {"dag": dag.name, "window": result.name, "phase": result.phase}
        # Of the executions of which every task has a row: t4 - t0 in ns by event, what they used, from when to when.
        self._whole: dict[str, int] = {}
        self._usages: list[ExecutionUsage] = []
        self._spans_ns: list[tuple[int, int]] = []
        # How many have not arrived in time, as quantiles count them.
        self._missing = self._completed = self._failed = self._unrecorded = 0
        self._paths: list[dict[PathPart, int]] = []
        self._of_tasks: list[float] = []
        self._passed_mib: list[float] = []
        self._critical: Counter[tuple[int, str, int]] = Counter()
        self._stages = [
            StageTally(stage, level, is_read=bool(dag.consumers_of(stage.name)))
            for level, stages in enumerate(dag.levels)
            for stage in stages
        ]
        self._levels = LevelTally(dag)
        self._edges = EdgeTallies(dag)

    def add(self, execution: Execution, tasks: ExecutionTasks) -> None:
        """Take one execution, by due time."""
        self._completed += execution.completed
        self._failed += execution.failed
        if not execution.t4_ns or not execution.arrived:
            self._missing += 1
            return
        if not tasks.whole:
            self._unrecorded += 1
            return
        levels = level_times(tasks)
        self._whole[execution.event] = execution.t4_ns - execution.t0_ns
        self._usages.append(_billed_usage(execution, tasks))
        self._spans_ns.append((execution.t1_ns, execution.t4_ns))
        self._paths.append(critical_path(execution, levels))
        self._critical.update(
            (number, level.critical.stage, level.critical.index) for number, level in enumerate(levels)
        )
        parts = [task_parts(row) for row in tasks.counted.values()]
        self._of_tasks.append(_over(sum(each.passing for each in parts), sum(each.whole for each in parts)))
        for stage in self._stages:
            stage.add(tasks)
        self._levels.add(execution, levels)
        self._passed_mib.append(self._edges.add(tasks))

    @property
    def median_event(self) -> str | None:
        """Return the execution whose time from its due time is nearest to the median, the first of several."""
        if not self._whole:
            return None
        times = sorted(self._whole.values())
        middle = len(times) // 2
        median_ns = (times[middle] + times[~middle]) / 2
        return min(self._whole, key=lambda event: abs(self._whole[event] - median_ns))

    def finding(self) -> DagWindow:
        """Return what the report shows."""
        result, n = self.result, len(self._whole)
        return DagWindow(
            **self._place,
            n=n,
            completed=self._completed,
            failed=self._failed,
            unrecorded=self._unrecorded,
            end_to_end_ms=result.response_trigger_ms or result.latency_ms,
            from_start_ms=result.latency_ms,
            path=tuple(self._path()) if n else (),
            critical=tuple(self._critical_tasks()),
            passing_on_path=self._share_of_path(PASSING),
            passing_of_tasks=mean_share(self._of_tasks),
            orchestration=self._share_of_path(ORCHESTRATION),
            stages=tuple(stage.result() for stage in self._stages) if n else (),
            levels=tuple(self._levels.results()) if n else (),
            edges=tuple(self._edges.results()) if n else (),
            passed_mib=spread(self._passed_mib, n),
        )

    def _path(self) -> Iterator[PathShare]:
        for part in get_args(PathPart):
            values = [path[part] for path in self._paths]
            shares = [_over(path[part], sum(path.values())) for path in self._paths]
            yield PathShare(part=part, ms=spread_ms(values, len(values)), share=mean_share(shares))

    def _share_of_path(self, parts: tuple[PathPart, ...]) -> Estimate:
        shares = [_over(sum(path[part] for part in parts), sum(path.values()) - path["late"]) for path in self._paths]
        return mean_share(shares)

    def _critical_tasks(self) -> Iterator[CriticalTask]:
        """Yield the stages that were the last of their level, the most frequent of a level first."""
        found: dict[tuple[int, str], Counter[int]] = {}
        for (level, stage, index), times in self._critical.items():
            found.setdefault((level, stage), Counter())[index] += times
        ordered = sorted(found.items(), key=lambda each: (each[0][0], -each[1].total(), each[0][1]))
        for (level, stage), indices in ordered:
            often = min(indices, key=lambda index: (-indices[index], index))
            yield CriticalTask(level=level, stage=stage, executions=indices.total(), most_often=often)

    def costs(self, price: Callable[[WindowUsage], Iterator[WindowCost]]) -> Iterator[DataflowCost]:
        """
        Yield what the executions cost, by each price table, with and without idle hours.

        One that has not arrived performs nothing, whatever it has cost: its performance per dollar is 0.
        """
        if not self._usages:
            return
        until_last_s = (max(end_ns for _, end_ns in self._spans_ns) - self._begin_ns) / NS_PER_S
        busy_s, whole_s = covered(self._spans_ns) / NS_PER_S, max(self._length_s, until_last_s)
        latency_s = np.array([one.latency_s for one in self._usages])
        for cost in price(WindowUsage(tuple(self._usages), busy_s, whole_s)):
            usd = np.array(cost.usd)
            yield DataflowCost(
                **self._place,
                prices=cost.prices,
                idle=cost.idle,
                usd=DependentSeries(usd).mean(),
                parts_usd=cost.parts,
                perf_per_usd=DependentSeries(np.append(1 / latency_s / usd, np.zeros(self._missing))).quantile(0.5),
                modelled=cost.modelled,
            )


def _billed_usage(execution: Execution, tasks: ExecutionTasks) -> ExecutionUsage:
    """Return what one execution used, as far as it is billed; requests of transfers that failed count, too."""
    rows = list(tasks.rows)
    blobs = [blob for row in rows for blob in row.blobs]
    return ExecutionUsage(
        latency_s=(execution.t4_ns - execution.t0_ns) / NS_PER_S,
        task_s=sum(row.ended_ns - row.began_ns for row in rows) / NS_PER_S,
        end_s=execution.end.delete_ns / NS_PER_S if execution.end is not None else 0.0,
        attempts=len(tasks.attempts) + tasks.repeated,
        tasks=len(tasks.attempts),
        levels=len(execution.dag.levels),
        puts=sum(blob.requests for blob in blobs if blob.operation == "put"),
        gets=sum(blob.requests for blob in blobs if blob.operation == "get"),
        moved_bytes=sum(blob.blob_bytes for blob in blobs),
    )


def _over(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0

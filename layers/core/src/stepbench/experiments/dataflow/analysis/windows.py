"""A window's executions of a DAG: gathered one by one, by due time, and what the report shows of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, get_args

from stepbench.contracts.dataflow.result import ORCHESTRATION, PASSING, CriticalTask, DagWindow, PathPart, PathShare
from stepbench.experiments.dataflow.analysis.edges import EdgeTallies
from stepbench.experiments.dataflow.analysis.parts import critical_path, level_times, task_parts
from stepbench.experiments.dataflow.analysis.spread import mean_share, spread, spread_ms
from stepbench.experiments.dataflow.analysis.stages import LevelTally, StageTally
from stepbench.experiments.dataflow.prices import ExecutionUsage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.dataflow.dag import Dag
    from stepbench.contracts.measures import Estimate, WindowResult
    from stepbench.experiments.dataflow.analysis.executions import Execution, ExecutionTasks

NS_PER_S = 1e9
PARTS: tuple[PathPart, ...] = get_args(PathPart)


class WindowTally:
    """
    Gathers the executions of one window.

    whole: event and t4 - t0 of those of which every task has a row, in ns. usages, spans_ns: of the same, what they
    used, and from when to when they went on. missing: how many have not arrived in time, as quantiles count them.
    """

    def __init__(self, dag: Dag, result: WindowResult, begin_ns: int, length_s: float) -> None:
        self.dag, self.result, self.begin_ns, self.length_s = dag, result, begin_ns, length_s
        self.whole: list[tuple[str, int]] = []
        self.usages: list[ExecutionUsage] = []
        self.spans_ns: list[tuple[int, int]] = []
        self.missing = self._completed = self._failed = self._unrecorded = 0
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
            self.missing += 1
            return
        if not tasks.whole:
            self._unrecorded += 1
            return
        levels = level_times(tasks)
        self.whole.append((execution.event, execution.t4_ns - execution.t0_ns))
        self.usages.append(_billed_usage(execution, tasks))
        self.spans_ns.append((execution.t1_ns, execution.t4_ns))
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
        if not self.whole:
            return None
        times = sorted(time_ns for _, time_ns in self.whole)
        middle = len(times) // 2
        median_ns = (times[middle] + times[~middle]) / 2
        return min(self.whole, key=lambda each: abs(each[1] - median_ns))[0]

    def finding(self) -> DagWindow:
        """Return what the report shows."""
        result, n = self.result, len(self.whole)
        return DagWindow(
            dag=self.dag.name,
            window=result.name,
            phase=result.phase,
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
        for part in PARTS:
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

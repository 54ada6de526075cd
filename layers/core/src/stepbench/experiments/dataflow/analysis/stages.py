"""
A window's stages, levels and edges: values are gathered execution by execution, by due time.

Measures over tasks, objects and executions have intervals in which tasks of one execution count as one.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.contracts.dataflow.result import EdgeResult, LevelResult, Spread, StageResult
from stepbench.experiments.dataflow.analysis.executions import before_ns, task_parts
from stepbench.stats.dependence import DependentSeries
from stepbench.workload.topology import edge_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepbench.contracts.dataflow.dag import Dag, Input, Stage
    from stepbench.contracts.dataflow.rows import BlobRow
    from stepbench.contracts.measures import Estimate
    from stepbench.experiments.dataflow.analysis.executions import Execution, ExecutionTasks, LevelTimes, TaskParts

    Floats = NDArray[np.float64]

NS_PER_MS = 1e6
NS_PER_S = 1e9
MIB = 2**20
FEWEST_TASKS = 3
"""With fewer tasks no slowest one differs from the median one."""


def spread(values: Sequence[float] | Floats, executions: int) -> Spread:
    """
    Return a measure's quantiles, with intervals.

    Args:
        values: by the executions' due times.
        executions: how many they are of: no more of the values are taken as independent.
    """
    series = DependentSeries(np.array(values, dtype=np.float64), executions)
    size = series.values.size
    return Spread(
        n=size,
        p50=series.quantile(0.5),
        p95=series.quantile(0.95),
        mean=float(series.values.mean()) if size else None,
        max=float(series.ascending[-1]) if size else None,
    )


def spread_ms(values_ns: Sequence[int] | Floats, executions: int) -> Spread:
    """Return the same of times in ns, in ms."""
    return spread(np.array(values_ns, dtype=np.float64) / NS_PER_MS, executions)


def mean_share(shares: Sequence[float]) -> Estimate:
    """Return the mean of one share an execution."""
    return DependentSeries(np.array(shares, dtype=np.float64)).mean()


class StageTally:
    """Gathers what the tasks of one stage took."""

    def __init__(self, stage: Stage, level: int, *, is_read: bool) -> None:
        self._stage, self._level, self._is_read = stage, level, is_read
        self._durations_ns: list[int] = []
        self._parts: list[TaskParts] = []
        self._shares: list[float] = []
        self._stragglers: list[float] = []
        self._inits_ns: list[int] = []
        self._retries = self._cpu_ns = self._memory_bytes = 0

    def add(self, tasks: ExecutionTasks) -> None:
        """Take one execution, of which every task has a row."""
        rows = tasks.of(self._stage)
        parts = [task_parts(row) for row in rows]
        first_ns = min(tasks.first_begins([self._stage]))
        self._durations_ns.append(max(row.ended_ns for row in rows) - first_ns)
        self._parts += parts
        whole_ns = [each.whole for each in parts]
        if sum(whole_ns) > 0:
            self._shares.append(sum(each.passing for each in parts) / sum(whole_ns))
        median_ns = float(np.median(whole_ns))
        if len(rows) >= FEWEST_TASKS and median_ns > 0:
            self._stragglers.append(max(whole_ns) / median_ns)
        self._inits_ns += [row.init_ns for row in rows if row.cold]
        self._retries += sum(tasks.attempts[row.stage, row.index][-1].attempt for row in rows)
        self._cpu_ns += sum(row.cpu_ns for row in rows)
        self._memory_bytes = max(self._memory_bytes, *(row.memory_bytes for row in rows))

    def result(self) -> StageResult:
        """Return what the report shows."""
        n, stage = len(self._durations_ns), self._stage
        whole_ns = [each.whole for each in self._parts]

        def of(part: str) -> Spread:
            return spread_ms([getattr(each, part) for each in self._parts], n)

        return StageResult(
            name=stage.name,
            task=stage.task,
            level=self._level,
            tasks=stage.tasks,
            duration_ms=spread_ms(self._durations_ns, n),
            task_ms=spread_ms(whole_ns, n),
            open_ms=of("open"),
            input_ms=of("input") if stage.takes_input or stage.files else None,
            get_ms=None if stage.takes_input else of("get"),
            compute_ms=of("compute"),
            put_ms=of("put") if self._is_read else None,
            rest_ms=of("rest"),
            passing_share=mean_share(self._shares),
            stragglers=spread(self._stragglers, n) if stage.tasks >= FEWEST_TASKS else None,
            cold_starts=len(self._inits_ns),
            init_ms=float(np.median(np.array(self._inits_ns) / NS_PER_MS)) if self._inits_ns else None,
            retries=self._retries,
            memory_mib=self._memory_bytes / MIB if self._memory_bytes else None,
            cpu_share=self._cpu_ns / sum(whole_ns) if sum(whole_ns) > 0 else None,
        )


class LevelTally:
    """Gathers what orchestration took at the levels of a DAG."""

    def __init__(self, dag: Dag) -> None:
        self._dag = dag
        self._before_ns: list[list[int]] = [[] for _ in dag.levels]
        self._dispatch_ns: list[list[int]] = [[] for _ in dag.levels]

    def add(self, execution: Execution, levels: tuple[LevelTimes, ...]) -> None:
        """Take one execution."""
        for number, (before, level) in enumerate(zip(before_ns(execution, levels), levels, strict=True)):
            self._before_ns[number].append(before)
            self._dispatch_ns[number].append(level.last_ns - level.first_ns)

    def results(self) -> Iterator[LevelResult]:
        """Yield what the report shows, level by level."""
        for number, stages in enumerate(self._dag.levels):
            before, dispatch = self._before_ns[number], self._dispatch_ns[number]
            yield LevelResult(
                level=number,
                tasks=sum(stage.tasks for stage in stages),
                stages=tuple(stage.name for stage in stages),
                before_ms=spread_ms(before, len(before)),
                dispatch_ms=spread_ms(dispatch, len(dispatch)),
            )


class EdgeTallies:
    """Gathers the transfers of all edges of a DAG: of attempts that count, those that went well."""

    def __init__(self, dag: Dag) -> None:
        stages = dag.by_name
        self._edges = {
            (each.stage, stage.name): _Edge(stages[each.stage], stage, each)
            for stage in dag.stages
            for each in stage.inputs
        }
        self._executions = 0

    def add(self, tasks: ExecutionTasks) -> float:
        """Take one execution, and return how many MiB it passed, written and read."""
        self._executions += 1
        passed = 0
        for name, rows in tasks.attempts.items():
            for row in rows:
                counts = tasks.counted.get(name) is row
                for blob in row.blobs:
                    edge = self._edges.get(edge_of(blob.object))
                    if edge is None:
                        continue
                    if blob.outcome != "ok":
                        edge.failed += 1
                    elif counts:
                        edge.add(blob)
                        passed += blob.blob_bytes
        return passed / MIB

    def results(self) -> Iterator[EdgeResult]:
        """Yield what the report shows, edge by edge."""
        return (edge.result(self._executions) for edge in self._edges.values())


class _Edge:
    """The transfers of one edge, packed: there may be a million."""

    def __init__(self, producer: Stage, consumer: Stage, edge: Input) -> None:
        self._producer, self._consumer, self._kind = producer, consumer, edge.kind
        self._moved = {"put": array("q"), "get": array("q")}
        self.failed = 0

    def add(self, blob: BlobRow) -> None:
        numbers = (blob.blob_bytes, blob.code_ns, blob.wait_ns, blob.whole_ns, blob.requests)
        self._moved[blob.operation].extend(numbers)

    def result(self, n: int) -> EdgeResult:
        put, get = _columns(self._moved["put"]), _columns(self._moved["get"])
        objects = self._consumer.tasks if self._kind == "scatter" else self._producer.tasks
        return EdgeResult(
            producer=self._producer.name,
            consumer=self._consumer.name,
            kind=self._kind,
            objects=objects,
            reads=objects * self._consumer.tasks if self._kind == "broadcast" else objects,
            blob_bytes=spread(put.blob_bytes, n),
            put_ms=spread_ms(put.whole_ns, n),
            get_ms=spread_ms(get.whole_ns, n),
            serialise_ms=spread_ms(put.code_ns, n),
            put_network_ms=spread_ms(put.whole_ns - put.wait_ns, n),
            put_store_ms=spread_ms(put.wait_ns, n),
            get_store_ms=spread_ms(get.wait_ns, n),
            get_network_ms=spread_ms(get.whole_ns - get.wait_ns, n),
            deserialise_ms=spread_ms(get.code_ns, n),
            put_mib_per_s=spread(put.mib_per_s, n),
            get_mib_per_s=spread(get.mib_per_s, n),
            put_requests=float(put.requests.mean()) if put.requests.size else None,
            get_requests=float(get.requests.mean()) if get.requests.size else None,
            failed=self.failed,
        )


class _Transfers(NamedTuple):
    """Columns of transfers in one direction."""

    blob_bytes: Floats
    code_ns: Floats
    wait_ns: Floats
    whole_ns: Floats
    requests: Floats

    @property
    def mib_per_s(self) -> Floats:
        known = self.whole_ns > 0
        rates: Floats = self.blob_bytes[known] / MIB / (self.whole_ns[known] / NS_PER_S)
        return rates


def _columns(moved: array[int]) -> _Transfers:
    return _Transfers(*np.array(moved, dtype=np.float64).reshape(-1, len(_Transfers._fields)).T.copy())

"""A window's stages and levels: values are gathered execution by execution, by due time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from stepbench.contracts.dataflow.result import LevelResult, StageResult
from stepbench.experiments.dataflow.analysis.parts import before_ns, task_parts
from stepbench.experiments.dataflow.analysis.spread import MIB, NS_PER_MS, mean_share, median_or_none, spread, spread_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.dataflow.dag import Dag, Stage
    from stepbench.contracts.dataflow.result import Spread
    from stepbench.experiments.dataflow.analysis.executions import Execution, ExecutionTasks
    from stepbench.experiments.dataflow.analysis.parts import LevelTimes, TaskParts

FEWEST_TASKS = 3
"""With fewer tasks no slowest one differs from the median one."""


class StageTally:
    """Gathers what the tasks of one stage took."""

    def __init__(self, stage: Stage, level: int, *, is_read: bool) -> None:
        self._stage, self._level, self._is_read = stage, level, is_read
        self._durations_ns: list[int] = []
        self._parts: list[TaskParts] = []
        self._shares: list[float] = []
        self._stragglers: list[float] = []
        self._inits_ns: list[int] = []
        self._retries = self._cold = self._cpu_ns = self._memory_bytes = 0

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
        self._cold += sum(row.cold for row in rows)
        self._retries += sum(tasks.attempts[row.stage, row.index][-1].attempt for row in rows)
        self._cpu_ns += sum(row.cpu_ns for row in rows)
        self._memory_bytes = max(self._memory_bytes, *(row.memory_bytes for row in rows))

    def result(self) -> StageResult:
        """Return what the report shows."""
        n, stage = len(self._durations_ns), self._stage
        columns = {
            name: [getattr(each, name) for each in self._parts]
            for name in ("open", "input", "get", "compute", "put", "rest")
        }
        whole_ns = [each.whole for each in self._parts]

        def of(name: str) -> Spread:
            return spread_ms(columns[name], n)

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
            cold_starts=self._cold,
            init_ms=median_or_none([value / NS_PER_MS for value in self._inits_ns]),
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

"""What a task's time consists of, and the critical path of an execution; times in ns."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.clock import covered

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stepbench.contracts.dataflow.dag import Stage
    from stepbench.contracts.dataflow.result import PathPart
    from stepbench.contracts.dataflow.rows import BlobRow, TaskRow
    from stepbench.experiments.dataflow.analysis.executions import Execution, ExecutionTasks


class TaskParts(NamedTuple):
    """Parts of one attempt at a task, one after the other, which add up to its time (see `dataflow_result`)."""

    open: int
    input: int
    get: int
    compute: int
    put: int
    rest: int

    @property
    def passing(self) -> int:
        """Return how long it passed data."""
        return self.get + self.put

    @property
    def whole(self) -> int:
        """Return how long it took."""
        return sum(self)


def task_parts(row: TaskRow) -> TaskParts:
    """Return a task's parts."""
    get, put = (passing_ns(blob for blob in row.blobs if blob.operation == way) for way in ("get", "put"))
    connecting = row.open_ns + connecting_ns(row.blobs)
    known = connecting + row.input_ns + get + row.compute_ns + put
    rest = row.ended_ns - row.began_ns - known
    return TaskParts(connecting, row.input_ns, get, row.compute_ns, put, rest)


def passing_ns(blobs: Iterable[BlobRow]) -> int:
    """Return how long some transfers took: the times at which any was on its way, and all coding, which is apart."""
    found = tuple(blobs)
    return covered((blob.began_ns, blob.ended_ns) for blob in found) + sum(blob.code_ns for blob in found)


def connecting_ns(blobs: Sequence[BlobRow]) -> int:
    """Return how long some transfers waited for connections while none of them was on its way."""
    asked_ns = covered((blob.asked_ns, blob.ended_ns) for blob in blobs)
    return asked_ns - covered((blob.began_ns, blob.ended_ns) for blob in blobs)


class LevelTimes(NamedTuple):
    """
    One level of one execution, ns since the epoch.

    first_ns, last_ns: the first and the last begin of its tasks. critical: the task that ended last. begun_ns: when
    that one was begun first; where that attempt was killed, and has no row, when the level's first task was.
    """

    first_ns: int
    last_ns: int
    critical: TaskRow
    begun_ns: int


def level_times(tasks: ExecutionTasks) -> tuple[LevelTimes, ...]:
    """Return the levels of an execution of which every task has a row."""
    return tuple(_level(tasks, stages) for stages in tasks.dag.levels)


def _level(tasks: ExecutionTasks, stages: tuple[Stage, ...]) -> LevelTimes:
    begins_ns = tasks.first_begins(stages)
    critical = max((row for stage in stages for row in tasks.of(stage)), key=lambda row: row.ended_ns)
    first = tasks.attempts[critical.stage, critical.index][0]
    begun_ns = first.began_ns if first.attempt == 0 else min(*begins_ns, first.began_ns)
    return LevelTimes(min(begins_ns), max(begins_ns), critical, begun_ns)


def before_ns(execution: Execution, levels: tuple[LevelTimes, ...]) -> list[int]:
    """Return for each level how long it took from the last end before it, or from t1, to its first begin."""
    ends_ns = [execution.t1_ns, *(level.critical.ended_ns for level in levels[:-1])]
    return [level.first_ns - end_ns for level, end_ns in zip(levels, ends_ns, strict=True)]


def critical_path(execution: Execution, levels: tuple[LevelTimes, ...]) -> dict[PathPart, int]:
    """Return the parts of the critical path, which add up to t4 - t0."""
    start, *barriers = before_ns(execution, levels)
    parts = [task_parts(level.critical) for level in levels]
    path: dict[PathPart, int] = {
        "late": execution.t1_ns - execution.t0_ns,
        "start": start,
        "dispatch": sum(level.begun_ns - level.first_ns for level in levels),
        "retry": sum(level.critical.began_ns - level.begun_ns for level in levels),
        "open": sum(each.open for each in parts),
        "input": sum(each.input for each in parts),
        "get": sum(each.get for each in parts),
        "compute": sum(each.compute for each in parts),
        "put": sum(each.put for each in parts),
        "rest": sum(each.rest for each in parts),
        "barrier": sum(barriers),
        "end": execution.t4_ns - levels[-1].critical.ended_ns,
    }
    return path

"""
The executions of a trial: what its writers, its ends and the rows of its tasks say of each, put together.

Of each task what its time consists of, and of each execution the critical path; times in ns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from stepbench.clock import covered
from stepbench.contracts.identity import EventId, parse_event_id
from stepbench.model.request import Outcome
from stepbench.records.join.sent import NO_ATTEMPT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stepbench.contracts.dataflow.dag import Dag, Stage
    from stepbench.contracts.dataflow.result import PathPart
    from stepbench.contracts.dataflow.rows import BlobRow, DagEnd, TaskRow
    from stepbench.contracts.plan import TrialSpec
    from stepbench.records.join.joined import Joined

    TaskName = tuple[str, int]


class Execution(NamedTuple):
    """
    One execution of a DAG; times in ns since the epoch, 0 = none.

    number: the event's in the grid; None of an attempt of a writer that counts no more, whose times are not known.
    arrived: in time.
    """

    event: str
    dag: Dag
    phase: int
    number: int | None
    t0_ns: int
    t1_ns: int
    t4_ns: int
    arrived: bool
    end: DagEnd | None

    @property
    def completed(self) -> bool:
        """Return whether all of its tasks are done."""
        return self.t4_ns > 0 or (self.end is not None and self.end.completed)

    @property
    def failed(self) -> bool:
        """Return whether it ended without."""
        return not self.completed and self.end is not None


def find_executions(
    spec: TrialSpec, joined: Joined, ends: Iterable[DagEnd], with_rows: Iterable[str]
) -> tuple[Execution, ...]:
    """
    Return all executions that started, by due time.

    Started is what was acknowledged, and what has left an end or a row, such as one of which no writer heard.
    """
    by_event = {end.event: end for end in ends}
    seen = by_event.keys() | set(with_rows)
    dags = [spec.offered.dag_of(phase) for phase in spec.offered.phases]
    found: dict[str, Execution] = {}
    for event, phase, times, is_acknowledged in _sent(spec.tag, joined):
        if is_acknowledged or event in seen:
            found[event] = Execution(event, dags[phase], phase, *times, by_event.get(event))
    for event in seen - found.keys():  # of which the writers' records have nothing; canaries have no tasks
        identity = parse_event_id(event)
        if identity is not None and identity.phase < len(dags):
            dag, phase = dags[identity.phase], identity.phase
            found[event] = Execution(event, dag, phase, None, 0, 0, 0, arrived=False, end=by_event.get(event))
    return tuple(sorted(found.values(), key=lambda each: (each.number is None, each.t0_ns, each.event)))


def _sent(tag: str, joined: Joined) -> Iterator[tuple[str, int, tuple[int, int, int, int, bool], bool]]:
    """Yield each execution that was sent: event, phase, number with t0, t1, t4 and arrived, and if it was answered."""
    for part in joined.parts():
        slot, acknowledged = part.slot, part.outcome == Outcome.OK
        names = part.grid.phase[slot], part.grid.writer[slot], part.grid.slice[slot], part.attempt, part.sequence
        columns = *names, part.t0_ns, part.t1_ns, part.t4_ns, part.arrived, acknowledged
        for place in np.nonzero(part.attempt != NO_ATTEMPT)[0].tolist():
            *identity, t0_ns, t1_ns, t4_ns, arrived, is_acknowledged = (column[place].item() for column in columns)
            event = EventId(tag, *identity).text()
            yield event, identity[0], (part.first + place, t0_ns, t1_ns, t4_ns, arrived), is_acknowledged


class ExecutionTasks:
    """
    The rows of one execution.

    attempts: by task, in order. counted: of each task the last attempt that succeeded, which the next level waited for.
    """

    def __init__(self, dag: Dag, rows: Iterable[TaskRow]) -> None:
        self.dag = dag
        self.attempts: dict[TaskName, list[TaskRow]] = {}
        for row in sorted(rows, key=lambda row: row.attempt):
            self.attempts.setdefault((row.stage, row.index), []).append(row)
        self.counted: dict[TaskName, TaskRow] = {
            name: good[-1]
            for name, rows in self.attempts.items()
            if (good := [row for row in rows if row.outcome == "ok"])
        }

    @property
    def rows(self) -> Iterator[TaskRow]:
        """Yield all rows."""
        return (row for rows in self.attempts.values() for row in rows)

    @property
    def repeated(self) -> int:
        """Return how many attempts there were beside each task's first, those that were killed without a row, too."""
        return sum(rows[-1].attempt for rows in self.attempts.values())

    @property
    def whole(self) -> bool:
        """Return whether each of the DAG's tasks has a row that counts."""
        return len(self.counted) == self.dag.tasks

    def of(self, stage: Stage) -> list[TaskRow]:
        """Return the rows of a stage's tasks that count."""
        return [self.counted[stage.name, index] for index in range(stage.tasks) if (stage.name, index) in self.counted]

    def first_begins(self, stages: Iterable[Stage]) -> list[int]:
        """
        Return when tasks of some stages were begun first, ns since the epoch.

        Where an attempt was killed, nothing is on record of when it began: such tasks are left out, unless all are.
        """
        names = [(stage.name, index) for stage in stages for index in range(stage.tasks)]
        firsts = [self.attempts[name][0] for name in names if name in self.attempts]
        return [row.began_ns for row in firsts if row.attempt == 0] or [row.began_ns for row in firsts]


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
    get, put = (passing_ns([blob for blob in row.blobs if blob.operation == way]) for way in ("get", "put"))
    connecting = row.open_ns + connecting_ns(row.blobs)
    known = connecting + row.input_ns + get + row.compute_ns + put
    rest = row.ended_ns - row.began_ns - known
    return TaskParts(connecting, row.input_ns, get, row.compute_ns, put, rest)


def passing_ns(blobs: Sequence[BlobRow]) -> int:
    """Return how long some transfers took: the times at which any was on its way, and all coding, which is apart."""
    return covered((blob.began_ns, blob.ended_ns) for blob in blobs) + sum(blob.code_ns for blob in blobs)


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
    levels = []
    for stages in tasks.dag.levels:
        begins_ns = tasks.first_begins(stages)
        critical = max((row for stage in stages for row in tasks.of(stage)), key=lambda row: row.ended_ns)
        first = tasks.attempts[critical.stage, critical.index][0]
        begun_ns = first.began_ns if first.attempt == 0 else min(*begins_ns, first.began_ns)
        levels.append(LevelTimes(min(begins_ns), max(begins_ns), critical, begun_ns))
    return tuple(levels)


def before_ns(execution: Execution, levels: tuple[LevelTimes, ...]) -> list[int]:
    """Return for each level how long it took from the last end before it, or from t1, to its first begin."""
    ends_ns = [execution.t1_ns, *(level.critical.ended_ns for level in levels[:-1])]
    return [level.first_ns - end_ns for level, end_ns in zip(levels, ends_ns, strict=True)]


def critical_path(execution: Execution, levels: tuple[LevelTimes, ...]) -> dict[PathPart, int]:
    """Return the parts of the critical path, which add up to t4 - t0."""
    start, *barriers = before_ns(execution, levels)
    parts = [task_parts(level.critical) for level in levels]
    return {
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

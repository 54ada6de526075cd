"""
Which task of a DAG writes and reads which objects, and its levels of tasks as the DAG machine takes them; pure.

An object is named `<producer>-<task>/<consumer>-<part>`: of a scatter one a consuming task, of a broadcast and of a
gather one a producing task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.dataflow.dag import MAX_INLINE_TASKS, MAX_TASKS
from stepbench.contracts.dataflow.rows import Level, LevelTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepbench.contracts.dataflow.dag import Dag, EdgeKind, Stage

    LevelKey = Callable[[int], str]
    """Returns the key, in the results bucket, of the tasks of a level by its number."""


class DagObject(NamedTuple):
    """One object that a task writes for the tasks of another stage; reads: how often it is to be read."""

    producer: str
    task: int
    consumer: str
    part: int
    kind: EdgeKind
    reads: int

    @property
    def name(self) -> str:
        """Return its name within the execution."""
        return f"{self.producer}-{self.task}/{self.consumer}-{self.part}"


def edge_of(name: str) -> tuple[str, str]:
    """Return the stages between which an object of this name is passed."""
    producer, _, consumer = name.partition("/")
    return producer.rpartition("-")[0], consumer.rpartition("-")[0]


def object_key(tag: str, event: str, name: str) -> str:
    """Return an object's key in the store: below the trial's tag and the event's own part of its identity."""
    return f"{event_prefix(tag, event)}{name}"


def event_prefix(tag: str, event: str) -> str:
    """Return what the keys of an execution's objects begin with."""
    return f"{tag}/{event[len(tag) + 1 :]}/"


def edge_objects(producer: Stage, consumer: Stage, kind: EdgeKind, task: int) -> tuple[DagObject, ...]:
    """Return what one task of the producing stage writes for an edge."""
    parts = consumer.tasks // producer.tasks if kind == "scatter" else 1
    reads = consumer.tasks if kind == "broadcast" else 1
    return tuple(DagObject(producer.name, task, consumer.name, part, kind, reads) for part in range(parts))


def written_by(dag: Dag, stage: Stage, task: int) -> tuple[DagObject, ...]:
    """Return all objects that a task writes, edge by edge."""
    edges = dag.consumers_of(stage.name)
    return tuple(each for consumer, kind in edges for each in edge_objects(stage, consumer, kind, task))


def read_by(dag: Dag, stage: Stage, task: int) -> tuple[DagObject, ...]:
    """Return all objects that a task reads, edge by edge, in the order of the producing tasks."""
    return tuple(_read_of_edges(dag, stage, task))


def _read_of_edges(dag: Dag, stage: Stage, task: int) -> Iterator[DagObject]:
    stages = dag.by_name
    for each in stage.inputs:
        producer = stages[each.stage]
        if each.kind == "scatter":
            share = stage.tasks // producer.tasks
            yield edge_objects(producer, stage, each.kind, task // share)[task % share]
        else:
            share = producer.tasks // stage.tasks if each.kind == "gather" else producer.tasks
            first = task * share if each.kind == "gather" else 0
            for number in range(first, first + share):
                yield edge_objects(producer, stage, each.kind, number)[0]


def all_objects(dag: Dag) -> tuple[DagObject, ...]:
    """Return all objects of an execution, stage by stage."""
    return tuple(each for stage in dag.stages for task in range(stage.tasks) for each in written_by(dag, stage, task))


def levels_of(dag: Dag, bucket: str, key_of: LevelKey, most_at_once: int = MAX_TASKS) -> tuple[Level, ...]:
    """Return a DAG's levels; a wide one names the file of its tasks in place of them."""
    return tuple(
        Level(wide=True, at_once=most_at_once, items_bucket=bucket, items_key=key_of(number))
        if _is_wide(stages)
        else Level(wide=False, at_once=min(MAX_INLINE_TASKS, most_at_once), tasks=_tasks_of(stages))
        for number, stages in enumerate(dag.levels)
    )


def wide_levels(dag: Dag) -> Iterator[tuple[int, tuple[LevelTask, ...]]]:
    """Yield number and tasks of each level that has a file."""
    for number, stages in enumerate(dag.levels):
        if _is_wide(stages):
            yield number, _tasks_of(stages)


def _is_wide(stages: tuple[Stage, ...]) -> bool:
    return sum(stage.tasks for stage in stages) > MAX_INLINE_TASKS


def _tasks_of(stages: tuple[Stage, ...]) -> tuple[LevelTask, ...]:
    return tuple(
        LevelTask(stage=stage.name, index=index, function=stage.function)
        for stage in stages
        for index in range(stage.tasks)
    )

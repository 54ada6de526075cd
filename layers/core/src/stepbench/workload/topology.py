"""
Which task of a DAG writes and reads which objects, and what mix of requests a store has to expect of it; pure.

An object is named `<producer>-<task>/<consumer>-<part>`: of a scatter one a consuming task, of a broadcast and of a
gather one a producing task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.dataflow.dag import Dag, EdgeKind, Stage


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

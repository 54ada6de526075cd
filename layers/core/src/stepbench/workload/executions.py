"""Executions of a DAG as the DAG machine takes them: its levels with their tasks, and which are in a file. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.contracts.dataflow.dag import MAX_INLINE_TASKS, MAX_TASKS
from stepbench.contracts.dataflow.rows import Level, LevelTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stepbench.contracts.dataflow.dag import Dag, Stage

    LevelKey = Callable[[int], str]
    """Returns the key, in the results bucket, of the tasks of a level by its number."""


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

"""What the DAG machine is given: each task once, on its level, for the function with its libraries."""

from __future__ import annotations

from tests.samples.dags import DIAMOND, dag_of, stage

from stepbench.contracts.dataflow.dag import MAX_INLINE_TASKS, Dag
from stepbench.workload.executions import levels_of, wide_levels


def _key(level: int) -> str:
    return f"levels/{level}"


def test_the_levels_have_every_task_once_in_the_order_of_the_dag() -> None:
    """By hand: split; four maps and two models beside them; join."""
    levels = levels_of(Dag.model_validate(DIAMOND), "bucket", _key)
    assert [[(task.stage, task.index) for task in level.tasks] for level in levels] == [
        [("split", 0)],
        [*(("map", index) for index in range(4)), ("model", 0), ("model", 1)],
        [("join", 0)],
    ]
    assert not any(level.wide or level.items_key for level in levels)


def test_a_level_beyond_an_inline_map_s_width_is_read_from_a_file() -> None:
    """An inline Map runs 40 at once, and the input of an execution has to stay small."""
    dag = dag_of(stage("a"), stage("b", ("a", "scatter"), tasks=MAX_INLINE_TASKS + 1), stage("c", ("b", "gather")))
    levels = levels_of(dag, "bucket", _key)
    assert [level.wide for level in levels] == [False, True, False]
    assert (levels[1].items_bucket, levels[1].items_key, levels[1].tasks) == ("bucket", "levels/1", ())
    ((number, tasks),) = wide_levels(dag)
    assert (number, [task.index for task in tasks]) == (1, list(range(MAX_INLINE_TASKS + 1)))


def test_each_task_goes_to_the_function_with_its_application_s_libraries() -> None:
    """A layer for video is large, so only one function has it."""
    stages = [{"name": name, "task": f"{name}.work"} for name in ("video", "learning", "mine")]
    (level,) = levels_of(Dag.model_validate({"name": "mixed", "stages": stages}), "bucket", _key)
    assert [task.function for task in level.tasks] == ["RunVideoTask", "RunLearningTask", "RunTask"]

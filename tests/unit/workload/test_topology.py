"""Which task writes and reads which objects: both sides have to name the same ones, each read as often as it says."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.samples.dags import DIAMOND, dag_of, stage

from stepbench.contracts.dataflow.dag import MAX_INLINE_TASKS, Dag
from stepbench.workload.topology import (
    all_objects,
    event_prefix,
    levels_of,
    object_key,
    read_by,
    wide_levels,
    written_by,
)

DAG = Dag.model_validate(DIAMOND)


def test_a_scattering_task_writes_one_object_a_consumer_and_a_broadcasting_one_in_all() -> None:
    """By hand: four parts for the map, one for both tasks of the model."""
    written = written_by(DAG, DAG.by_name["split"], 0)
    assert [(each.name, each.reads) for each in written] == [
        *((f"split-0/map-{part}", 1) for part in range(4)),
        ("split-0/model-0", 2),
    ]


def test_a_gathering_task_reads_what_all_have_written() -> None:
    """By hand: four parts of the map, and both models."""
    read = [each.name for each in read_by(DAG, DAG.by_name["join"], 0)]
    assert read == [*(f"map-{task}/join-0" for task in range(4)), "model-0/join-0", "model-1/join-0"]


def test_several_gather_and_several_scatter() -> None:
    """By hand: 4 tasks to 2, two each; 2 tasks to 4, two each."""
    dag = dag_of(stage("a", tasks=4), stage("b", ("a", "gather"), tasks=2), stage("c", ("b", "scatter"), tasks=4))
    assert [each.task for each in read_by(dag, dag.by_name["b"], 1)] == [2, 3]
    assert [read_by(dag, dag.by_name["c"], task)[0].name for task in range(4)] == [
        "b-0/c-0",
        "b-0/c-1",
        "b-1/c-0",
        "b-1/c-1",
    ]


@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from(["scatter", "broadcast", "gather"]))
def test_every_object_is_read_as_often_as_it_says(few: int, times: int, kind: str) -> None:
    """The accounting of an execution rests on this: nothing is written for nobody, nothing read that is not there."""
    first, second = (few * times, few) if kind == "gather" else (few, few * times)
    dag = dag_of(stage("a", tasks=first), stage("b", ("a", kind), tasks=second))
    expected = Counter({each.name: each.reads for each in all_objects(dag)})
    reads = Counter(each.name for task in range(second) for each in read_by(dag, dag.by_name["b"], task))
    assert reads == expected


def test_a_key_lies_below_its_trial_and_its_event() -> None:
    """All objects of an execution, and of a trial, are found by a prefix."""
    tag, event = "abcdefghij-0000", "abcdefghij-0000/01-0002-0003-00-00000004"
    assert event_prefix(tag, event) == "abcdefghij-0000/01-0002-0003-00-00000004/"
    assert object_key(tag, event, "a-0/b-0").startswith(event_prefix(tag, event))


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

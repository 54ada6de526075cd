"""The machine that runs DAGs, with fakes for its functions: levels in order, each task once, every failure told."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.dags import DIAMOND, dag_of, stage
from tests.statemachines.lab import BUCKET, Ending, Lab, Scenario, open_lab

from stepbench.contracts.dataflow.dag import MAX_INLINE_TASKS, Dag
from stepbench.contracts.dataflow.rows import EndDataflowInput, RunTaskInput
from stepbench.workload.topology import levels_of, wide_levels

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.emulator

ALWAYS = 1_000
EVENT = "abcdefghij-0000/00-0000-0000-00-00000000"
AT_ONCE = 4


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Yield one emulator for the module."""
    with open_lab(tmp_path_factory.mktemp("lab")) as opened:
        yield opened


def execute(lab: Lab, scenario: Scenario, dag: Dag | None = None) -> Ending:
    """Run an execution of a DAG; without one, a canary."""
    levels: list[dict[str, Any]] = []
    if dag is not None:
        for number, tasks in wide_levels(dag):
            body = json.dumps([task.model_dump(mode="json") for task in tasks])
            lab.aws("s3").put_object(Bucket=BUCKET, Key=f"{scenario.id}-{number}", Body=body)
        made = levels_of(dag, BUCKET, lambda number: f"{scenario.id}-{number}", AT_ONCE)
        levels = [json.loads(level.model_dump_json(exclude_defaults=True)) for level in made]
    given = {"ref": scenario.ref(), "event": EVENT, "dag": "diamond", "levels": levels}
    return lab.run("dataflow", scenario, given)


def tasks_of(ending: Ending) -> list[tuple[str, str, int]]:
    """Return function, stage and index of each call of a task, in order."""
    items = [(call["stage"], call["event"]["item"]) for call in ending.calls if call["stage"] != "EndDataflow"]
    return [(function, item["stage"], item["index"]) for function, item in items]


def test_levels_run_one_after_the_other_and_each_task_once(lab: Lab) -> None:
    """By hand: the split before four maps and two models, these before the join; and what a task gets is its input."""
    ending = execute(lab, Scenario("levels"), Dag.model_validate(DIAMOND))
    assert (ending.status, ending.output["failure"]["Error"]) == ("SUCCEEDED", "")
    called = tasks_of(ending)
    assert (called[0][1], called[-1][1]) == ("split", "join")
    assert Counter(stage for _, stage, _ in called) == {"split": 1, "map": 4, "model": 2, "join": 1}
    assert sorted(index for _, stage, index in called if stage == "map") == [0, 1, 2, 3]
    for call in ending.calls:
        contract = EndDataflowInput if call["stage"] == "EndDataflow" else RunTaskInput
        assert contract.model_validate(call["event"])


def test_a_wide_level_is_run_by_a_distributed_map(lab: Lab) -> None:
    """Its tasks come from the bucket, and the levels around it wait for it as for any other."""
    tasks = MAX_INLINE_TASKS + 1
    dag = dag_of(stage("a"), stage("b", ("a", "scatter"), tasks=tasks), stage("c", ("b", "gather")))
    ending = execute(lab, Scenario("wide"), dag)
    assert ending.status == "SUCCEEDED"
    called = [stage for _, stage, _ in tasks_of(ending)]
    assert (called[0], called[-1], called.count("b")) == ("a", "c", tasks)
    assert {index for _, stage, index in tasks_of(ending) if stage == "b"} == set(range(tasks))


def test_each_application_has_its_function_also_on_a_wide_level(lab: Lab) -> None:
    """Inline first, then wide: the two Maps hold states of their own for the same functions."""
    names = {"video": "RunVideoTask", "learning": "RunLearningTask", "mine": "RunTask"}
    narrow = [{"name": name, "task": f"{name}.work"} for name in names]
    wide = [
        {**each, "name": f"wide-{each['name']}", "tasks": 14, "inputs": [{"stage": each["name"], "kind": "scatter"}]}
        for each in narrow
    ]
    ending = execute(lab, Scenario("functions"), Dag.model_validate({"name": "mixed", "stages": [*narrow, *wide]}))
    assert ending.status == "SUCCEEDED"
    assert {stage.removeprefix("wide-"): function for function, stage, _ in tasks_of(ending)} == names
    assert Counter(function for function, _, _ in tasks_of(ending)) == dict.fromkeys(names.values(), 15)


def test_a_task_that_fails_is_tried_twice_more_and_each_attempt_has_a_number(lab: Lab) -> None:
    """By which its rows are told apart."""
    ending = execute(lab, Scenario("retried", {"RunTask": ("TaskFailedError", 2)}), dag_of(stage("a")))
    assert ending.status == "SUCCEEDED"
    assert [call["attempt"] for call in ending.called("RunTask")] == [0, 1, 2]


@pytest.mark.parametrize("error", ["TaskFailedError", "TrialCancelledError", "Runtime.ExitError"])
def test_a_task_that_fails_for_good_ends_the_execution_which_is_told(lab: Lab, error: str) -> None:
    """Nobody waits for its arrival then, and its objects are removed; one that is to stop is not tried again."""
    ending = execute(
        lab, Scenario(f"fails-{error}", {"RunTask": (error, ALWAYS)}), dag_of(stage("a"), stage("b", ("a", "scatter")))
    )
    attempts = 1 if error == "TrialCancelledError" else 3
    assert [call["item"]["stage"] for call in ending.called("RunTask")] == ["a"] * attempts
    (end,) = ending.called("EndDataflow")
    assert (ending.status, ending.error, end["failure"]["Error"]) == ("FAILED", error, error)


def test_a_failure_on_a_wide_level_is_told_as_well(lab: Lab) -> None:
    """There it is the Map's, which says only that too many have failed."""
    dag = dag_of(stage("b", tasks=MAX_INLINE_TASKS + 1))
    ending = execute(lab, Scenario("wide-fails", {"RunTask": ("TaskFailedError", ALWAYS)}), dag)
    (end,) = ending.called("EndDataflow")
    assert (ending.status, end["failure"]["Error"]) == ("FAILED", "States.ExceedToleratedFailureThreshold")


def test_a_canary_has_nothing_to_do_but_end(lab: Lab) -> None:
    """It proves that a start is followed by an arrival."""
    ending = execute(lab, Scenario("canary"))
    assert (ending.status, ending.stages) == ("SUCCEEDED", {"EndDataflow"})


def test_an_end_that_cannot_be_told_is_no_success(lab: Lab) -> None:
    """Whoever looks at the machine sees it; the trial waits for it up to its drain limit."""
    ending = execute(lab, Scenario("untold", {"EndDataflow": ("KeyError", ALWAYS)}))
    assert (ending.status, ending.error) == ("FAILED", "KeyError")


def test_a_trial_s_inputs_are_made_before_its_load(lab: Lab) -> None:
    """Each by the function that has its maker's libraries; a failure there has offered nothing yet."""
    makers = ("MakeVideoInput", "MakeInput", "MakeLearningInput")
    ending = lab.run_trial(Scenario("makes", inputs=makers))
    called = [call["stage"] for call in ending.calls]
    assert ending.status == "SUCCEEDED"
    assert [stage for stage in called if stage in makers] == list(makers)
    assert called.index("MakeLearningInput") < called.index("AwaitTarget")
    failed = lab.run_trial(Scenario("makes-not", {"MakeInput": ("PlanError", ALWAYS)}, inputs=("MakeInput",)))
    assert (failed.status, failed.error) == ("FAILED", "PlanError")
    assert failed.stages == {"PrepareTarget", "MakeInput", "TearDownTarget"}

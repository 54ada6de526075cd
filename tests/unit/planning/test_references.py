"""A threshold is about something that the plan measures, a DAG names tasks that there are, or the plan is refused."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.dags import dataflow_trial, stage
from tests.samples.refusals import Refused, check_plan, plan_of, problems_of_plan

from stepbench.experiments.dataflow.tasks import applications
from stepbench.planning.reading import parse_plan

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench.contracts.dataflow.dag import Parameter

STEP = {"rate_per_s": 10, "duration_s": 20}
WINDOWS = [{"name": "before", "from_s": 0, "to_s": 10}, {"name": "after", "from_s": 10, "to_s": 20}]
PHASES = [{"name": "warm-up", "measured": False, "load": [STEP]}, {"name": "step", "load": [STEP], "windows": WINDOWS}]
TRIGGER = {"target": {"store": "s3"}, "phases": PHASES}
OPERATIONS = {
    "experiment": "operations",
    "target": {"store": "redis"},
    "workload": {"mix": {"read": 9, "overwrite": 1}},
    "phases": [{"name": "mixed", "closed": {"clients": 2, "duration_s": 10}}],
}


def plan(threshold: str, *trials: dict[str, Any]) -> dict[str, Any]:
    """Return a plan with this threshold."""
    return {"name": "plan", "trials": list(trials), "thresholds": [threshold]}


@pytest.mark.parametrize(
    "threshold",
    [
        "p99 in after < 2 ms",
        "p99 in mixed < 2 ms",
        "p99 of read < 2 ms",
        "response p99 of overwrite in mixed < 2 ms",
        "lost in before == 0",
        "errors < 1 %",
    ],
)
def test_a_threshold_may_be_about_one_window_of_one_trial(threshold: str) -> None:
    """Plans set triggers beside operations; not every threshold is about both."""
    assert parse_plan(plan(threshold, TRIGGER, OPERATIONS)).thresholds == (threshold,)


@pytest.mark.parametrize("threshold", ["lost == 0", "duplicates < 1", "after_ack p50 < 1 s", "errors < 1 %"])
def test_an_execution_arrives_as_an_event_does(threshold: str) -> None:
    """It is lost where it does not complete, and whoever builds on it wants to set a limit to that."""
    assert parse_plan(plan(threshold, dataflow_trial())).thresholds == (threshold,)


def test_limits_of_a_measured_function_take_one() -> None:
    """Of the stack's receiver nobody knows when it was done."""
    measured = {**TRIGGER, "target": {"store": "dynamodb", "function": {"name": "orders"}}, "drain_limit_s": 600}
    for threshold in ("handler p99 < 50 ms", "to_processed p99 < 1 s", "failed_in_handler == 0"):
        assert parse_plan(plan(threshold, measured)).thresholds == (threshold,)


def test_a_window_that_only_a_matrix_makes_is_known() -> None:
    """Names are looked for in the trials as they are run."""
    trial = {**TRIGGER, "matrix": {"phases[1].windows[1].name": ["late", "later"]}}
    assert parse_plan(plan("p99 in later < 2 ms", trial)).thresholds == ("p99 in later < 2 ms",)


@pytest.mark.parametrize(
    ("threshold", "trials", "message", "remedy"),
    [
        ("p99 in befor < 2 ms", [TRIGGER], 'measure: "befor"', 'mean "before"? The plan measures "before", "after".'),
        ("p99 in warm-up < 2 ms", [TRIGGER], 'does not measure: "warm-up"', 'The plan measures "before", "after".'),
        ("p99 in step < 2 ms", [TRIGGER], 'does not measure: "step"', 'The plan measures "before", "after".'),
        ("p99 of scan < 2 ms", [OPERATIONS], 'does not measure: "scan"', 'The plan measures "overwrite", "read".'),
        ("p99 of read < 2 ms", [TRIGGER], 'does not measure: "read"', "The plan has none."),
        ("lost == 0", [OPERATIONS], "limits lost, which triggers and DAGs have", "latency, response, service"),
        (
            "after_ack p50 < 1 s",
            [OPERATIONS],
            "limits after_ack, which triggers and DAGs have",
            "latency, response, service",
        ),
        ("failed_in_handler == 0", [TRIGGER], "which only a measured function has", "target.function"),
        ("to_processed p99 < 1 s", [OPERATIONS], "limits to_processed, which triggers", "latency, response, service"),
        ("p99 of read in after < 2 ms", [TRIGGER, OPERATIONS], "is about no window", "name less in it"),
    ],
)
def test_a_threshold_about_nothing_is_refused_with_what_there_is(
    threshold: str, trials: list[dict[str, Any]], message: str, remedy: str
) -> None:
    """It would be kept to by every run, for a slip in a name."""
    check_plan(Refused(plan(threshold, *trials), "thresholds[0]", threshold, remedy, message))


def dag(task: str, maker: str = "synthetic.bytes") -> dict[str, Any]:
    """Return a DAG of one task."""
    return {"name": "dag", "input": {"maker": maker}, "stages": [stage("a", task=task)]}


def of_work(remedy: str, message: str, timeout_s: float = 120, **parameters: Parameter) -> Refused:
    """Return what is said of the last parameter of a stage without an input."""
    work = stage("a", task="synthetic.work", parameters=parameters, timeout_s=timeout_s)
    name, value = list(parameters.items())[-1]
    path = f"trials[0].dags[0].stages[0].parameters.{name}"
    return Refused({"name": "dag", "stages": [work]}, path, json.dumps(value), remedy, message)


@pytest.mark.parametrize(
    "refused",
    [
        Refused(dag("video.cut"), "trials[0].dags[0].stages[0].task", '"video.cut"', "", "video.split, video.extract"),
        Refused(dag("audio.split"), "trials[0].dags[0].stages[0].task", '"audio.split"', "add a module", "audio"),
        Refused(
            dag("synthetic.work", "video.film"), "trials[0].dags[0].input.maker", '"video.film"', "", "video.render"
        ),
        of_work('Did you mean "sleep"?', 'has to be "cpu" or "sleep"', compute="slep"),
        of_work("without quotes", "has to be a number from 0 to 840,000", compute_ms="50"),
        of_work("Change it", "has to be a number", compute_ms=True),
        of_work("Change it", "has to be a whole number from 0 to", output_bytes=300_000_000),
        of_work("Change it", "has to be a whole number from 0 to", output_bytes=-1),
        of_work("Use output_bytes", "is a share of what the stage reads", output_ratio=0.5),
        of_work("raise the stage's timeout_s", "is more than timeout_s allows, 2 s", timeout_s=2, compute_ms=2_001),
    ],
    ids=[
        *("task", "application", "maker", "choice", "text", "truth", "too large", "below zero", "share of nothing"),
        "longer than its time",
    ],
)
def test_what_no_application_has_or_takes_is_refused(refused: Refused) -> None:
    """An execution would end with it, on every attempt."""
    (problem,) = problems_of_plan(plan_of(dataflow_trial(refused.document)))
    assert (problem.path, problem.value) == (refused.path, refused.value)
    assert refused.remedy in problem.remedy
    assert refused.message in problem.message


@pytest.mark.parametrize(
    ("where", "name"), [("stages[0]", "otput_bytes"), ("input", "bytes")], ids=["of a task", "of a maker"]
)
def test_a_parameter_that_nobody_reads_is_refused(where: str, name: str) -> None:
    """Misspelt, it would leave the default in force without a word."""
    given = dag("synthetic.work")
    (work,) = given["stages"]
    of = work if where == "stages[0]" else given["input"]
    of["parameters"] = {name: 10}
    (problem,) = problems_of_plan(plan_of(dataflow_trial(given)))
    assert (problem.path, problem.value) == (f"trials[0].dags[0].{where}.parameters.{name}", "10")
    assert ("output_bytes" if where == "stages[0]" else "input_bytes") in problem.remedy


def test_a_size_is_given_in_one_way() -> None:
    """One of the two would win without a word."""
    given = dag("synthetic.work")
    given["stages"][0]["parameters"] = {"output_bytes": 10, "output_ratio": 0.5}
    (problem,) = problems_of_plan(plan_of(dataflow_trial(given)))
    assert problem.path.endswith("parameters.output_ratio")
    assert problem.message == "is given together with output_bytes"


def test_each_value_of_a_matrix_is_looked_at() -> None:
    """The trial that has it would fail after all that come before it."""
    trial = dataflow_trial({"name": "dag", "stages": [stage("a", parameters={"output_bytes": 1})]})
    path = "dags[0].stages[0].parameters.output_bytes"
    (problem,) = problems_of_plan(plan_of({**trial, "matrix": {path: [1, 300_000_000]}, "repeats": 2}))
    assert (problem.path, problem.value) == (f"trials[0].{path}", "300000000")


def test_a_makers_values_are_looked_at_too() -> None:
    """The run would end with it before its load."""
    given = dag("learning.pca", "learning.digits")
    given["input"]["parameters"] = {"rows": 10}
    (problem,) = problems_of_plan(plan_of(dataflow_trial(given)))
    assert (problem.path, problem.value) == ("trials[0].dags[0].input.parameters.rows", "10")
    assert problem.message == "has to be a whole number, 700 or more"


@pytest.mark.parametrize(
    "parameters",
    [
        {"compute": "sleep", "compute_ms": 20_000, "output_bytes": 1e6},
        {"output_ratio": 0.5},
        {"output_bytes": 0},
    ],
)
def test_values_that_a_task_takes_pass(parameters: dict[str, Any]) -> None:
    """The bounds themselves are allowed, and 1e6 is a whole number."""
    given = dag("synthetic.work")
    given["stages"][0]["parameters"] = parameters
    parse_plan(plan_of(dataflow_trial(given)))


def test_an_application_that_lists_names_alone_takes_any_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that is one's own need not say more."""
    (tmp_path / "listed.py").write_text('TASKS = {"count": print}\nPARAMETERS = {"count": ("words",)}\n')
    monkeypatch.setattr(applications, "__path__", [*applications.__path__, str(tmp_path)])
    given = dag("listed.count")
    given["stages"][0]["parameters"] = {"words": "many"}
    parse_plan(plan_of(dataflow_trial(given)))
    sys.modules.pop("stepbench.experiments.dataflow.tasks.applications.listed")


def test_an_input_is_made_or_fetched() -> None:
    """Who gives a file needs no maker."""
    parse_plan(plan_of(dataflow_trial({**dag("synthetic.work"), "input": {"source": "s3://files/words.txt"}})))
    (problem,) = problems_of_plan(plan_of(dataflow_trial({**dag("synthetic.work"), "input": {}})))
    assert (problem.path, problem.message) == ("trials[0].dags[0].input.maker", "is missing, and so is source")


def test_what_there_is_is_taken() -> None:
    """Of the applications with libraries, too, which are not imported for it."""
    parse_plan(plan_of(dataflow_trial(dag("learning.pca", "learning.digits"))))


@pytest.mark.parametrize(
    ("judge", "trial", "message"),
    [
        ("lost", OPERATIONS, "is lost, which triggers and DAGs have"),
        ("after_ack p99", OPERATIONS, "is after-ack p99, which triggers and DAGs have"),
        ("time to processed p99", TRIGGER, "is time to processed p99, which a measured function has"),
    ],
)
def test_what_no_trial_has_judges_no_run(judge: str, trial: dict[str, Any], message: str) -> None:
    """Every answer would begin with the words that there is none."""
    (problem,) = problems_of_plan({"name": "plan", "trials": [trial], "judge": judge})
    assert (problem.path, problem.message.startswith(message)) == ("judge", True)


@pytest.mark.parametrize("judge", ["p99", "lost", "cost", "errors", "after_ack p99"])
def test_one_trial_that_has_it_is_enough(judge: str) -> None:
    """Plans set triggers beside operations."""
    assert parse_plan({"name": "plan", "trials": [TRIGGER, OPERATIONS], "judge": judge}).judge == judge

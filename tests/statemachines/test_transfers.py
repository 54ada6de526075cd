"""Transfers in the trial machine: in Lambda, in new sandboxes, and in tasks that fail, find no room, or are stopped."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from botocore.config import Config
from tests.statemachines.lab import CLUSTER, TABLE, Lab, Scenario, open_lab

from stepbench.records.storage.trial_table import TrialTable, dynamodb_table
from stepbench_tools.local.emulator.server import TASKS_AT_ONCE
from stepbench_tools.local.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.emulator

ALWAYS = 1_000
ROOM = 3
"""So many tasks the emulator runs at once."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Yield one emulator for the module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TASKS_AT_ONCE, str(ROOM))
        with open_lab(tmp_path_factory.mktemp("lab")) as opened:
            yield opened


def _missing(lab: Lab, tag: str) -> dict[tuple[int, int, int], tuple[str, str]]:
    return TrialTable(dynamodb_table(lab.session, TABLE, Config(), lab.endpoint)).missing_writers(tag)


def _tasks(lab: Lab, status: str = "RUNNING") -> list[str]:
    return list(lab.aws("ecs").list_tasks(cluster=CLUSTER, desiredStatus=status)["taskArns"])


def test_a_transfer_in_lambda_is_one_call_of_its_function(lab: Lab) -> None:
    """Two phases of two items here; writers and the change of the function are for others."""
    ending = lab.run_trial(Scenario("in-lambda", platforms=("lambda", "lambda")))
    assert ending.status == "SUCCEEDED"
    told = ending.called("RunTransfer")
    assert sorted((event["item"]["writer"], event["attempt"]) for event in told) == [(0, 0), (0, 0), (1, 0), (1, 0)]
    assert ending.stages.isdisjoint({"RunWriter", "RefreshSandboxes", "SeedFiles"})


def test_a_new_sandbox_is_made_before_each_transfer_that_asks_for_one(lab: Lab) -> None:
    """Of the same item, by its number; the item goes on as it was."""
    ending = lab.run_trial(Scenario("refreshed", platforms=("lambda", "lambda"), refresh=True))
    assert ending.status == "SUCCEEDED"
    numbers = [event["number"] for event in ending.called("RefreshSandboxes")]
    assert sorted(numbers) == sorted(event["item"]["writer"] for event in ending.called("RunTransfer")) == [0, 0, 1, 1]
    for number in (0, 1):
        of_item = [call["stage"] for call in ending.calls if number in (_number(call), call["event"].get("number"))]
        assert of_item == ["RefreshSandboxes", "RunTransfer"] * 2


def _number(call: dict[str, Any]) -> int | None:
    number: int | None = call["event"].get("item", {}).get("writer")
    return number


def test_each_retry_of_a_transfer_is_an_attempt_of_its_own(lab: Lab) -> None:
    """Its rows have a key of their own."""
    ending = lab.run_trial(Scenario("dies", {"RunTransfer": ("Runtime.ExitError", 1)}, platforms=("lambda", "")))
    assert ending.status == "SUCCEEDED"
    assert sorted(event["attempt"] for event in ending.called("RunTransfer")) == [0, 0, 1]
    assert len(ending.called("RunWriter")) == 2


def test_a_transfer_that_fails_is_noted(lab: Lab) -> None:
    """As a writer's slice is: it is a caveat, and stops no other."""
    scenario = Scenario("fails", {"RunTransfer": ("KeyError", ALWAYS)}, platforms=("lambda", ""))
    assert lab.run_trial(scenario).status == "SUCCEEDED"
    assert {slot: error for slot, (error, _) in _missing(lab, "fails").items()} == {(0, 0, 0): "KeyError"}


def test_a_transfer_on_fargate_is_a_task_with_the_item_as_its_variable(lab: Lab) -> None:
    """What the function gets as its payload."""
    ending = lab.run_trial(Scenario("in-tasks", platforms=("fargate", "lambda"), refresh=True))
    assert ending.status == "SUCCEEDED"
    told = ending.called("RunTransferTask")
    assert [(event["item"]["platform"], event["item"]["writer"], event["attempt"]) for event in told] == [
        ("fargate", 0, 0)
    ] * 2
    assert [event["number"] for event in ending.called("RefreshSandboxes")] == [1, 1]
    assert (_missing(lab, "in-tasks"), _tasks(lab)) == ({}, [])


def test_a_task_that_fails_is_tried_twice_more_and_noted_with_its_exit_code(lab: Lab) -> None:
    """The cause is what ECS says of the task."""
    scenario = Scenario("exits", {"RunTransferTask": ("Runtime.ExitError", ALWAYS)}, platforms=("fargate", ""))
    ending = lab.run_trial(scenario)
    assert ending.status == "SUCCEEDED"
    assert sorted(event["attempt"] for event in ending.called("RunTransferTask")) == [0, 0, 1, 1, 2, 2]
    ((slot, (error, cause)),) = _missing(lab, "exits").items()
    assert (slot, error) == ((0, 0, 0), "States.TaskFailed")
    assert json.loads(cause)["Containers"][0]["ExitCode"] == 1


def test_a_task_that_finds_no_capacity_is_noted_with_the_reason(lab: Lab) -> None:
    """It says nothing about the program, which was never run; the trial goes on."""
    holder = Scenario("holder", platforms=("fargate", "fargate"), hold="RunTransferTask")
    started = [_start_task(lab, holder, number) for number in range(ROOM)]
    try:
        assert lab.run_trial(Scenario("no-room", platforms=("fargate", ""))).status == "SUCCEEDED"
    finally:
        lab.release(holder)
    ((slot, (error, cause)),) = _missing(lab, "no-room").items()
    assert (slot, error) == ((0, 0, 0), "AmazonECS.Unknown")
    assert "Capacity is unavailable at this time" in cause
    assert lab.calls("no-room") != []
    assert all(call["stage"] != "RunTransferTask" for call in lab.calls("no-room"))
    wait_until("they have ended", lambda: _tasks(lab) == [], timeout_s=30)
    assert set(started) <= set(_tasks(lab, "STOPPED"))


def _start_task(lab: Lab, scenario: Scenario, number: int) -> str:
    task = json.dumps({"item": {"ref": scenario.ref(), "writer": number}, "attempt": 0})
    environment = [{"name": "TRANSFER_TASK", "value": task}]
    overrides = {"containerOverrides": [{"name": "transfer", "environment": environment}]}
    answer = lab.aws("ecs").run_task(cluster=CLUSTER, taskDefinition=lab.task_definition, overrides=overrides)
    return str(answer["tasks"][0]["taskArn"])


def test_a_stopped_execution_stops_its_tasks(lab: Lab) -> None:
    """Nothing reads on that nobody waits for."""
    before = set(_processes())
    scenario = Scenario("stopped-in-tasks", platforms=("fargate", "fargate"), hold="RunTransferTask")
    arn = lab.start("trial", scenario, lab.trial_input(scenario))
    lab.await_call(scenario, "RunTransferTask")
    wait_until("both run", lambda: len(_tasks(lab)) == 2, timeout_s=30)
    running, ended = _tasks(lab), set(_tasks(lab, "STOPPED"))
    lab.aws("stepfunctions").stop_execution(executionArn=arn)
    wait_until("none runs", lambda: _tasks(lab) == [], timeout_s=20)
    stopped = lab.aws("ecs").describe_tasks(cluster=CLUSTER, tasks=running)["tasks"]
    assert [task["stopCode"] for task in stopped] == ["UserInitiated"] * 2
    wait_until("their processes have ended", lambda: set(_processes()) <= before, timeout_s=20)
    wait_until("its children have ended", lambda: _running_children(lab, arn) == [], timeout_s=20)
    assert set(_tasks(lab, "STOPPED")) - ended == set(running)  # what fails by the stop is not tried again


def test_a_stopped_execution_begins_nothing_more(lab: Lab) -> None:
    """On AWS children end with it; MiniStack's went on, each with a change of the function and a new sandbox."""
    scenario = Scenario("stopped-in-lambda", platforms=("lambda", "lambda"), refresh=True, hold="RefreshSandboxes")
    arn = lab.start("trial", scenario, lab.trial_input(scenario))
    lab.await_call(scenario, "RefreshSandboxes")
    lab.aws("stepfunctions").stop_execution(executionArn=arn)
    lab.release(scenario)
    wait_until("its children have ended", lambda: _running_children(lab, arn) == [], timeout_s=20)
    assert lab.aws("stepfunctions").describe_execution(executionArn=arn)["status"] == "ABORTED"
    assert {call["stage"] for call in lab.calls(scenario.id)}.isdisjoint({"RunTransfer", "AnalyseTrial"})


def _running_children(lab: Lab, arn: str) -> list[str]:
    client = lab.aws("stepfunctions")
    runs = [each["mapRunArn"] for each in client.list_map_runs(executionArn=arn)["mapRuns"]]
    listed = [client.list_executions(mapRunArn=each, statusFilter="RUNNING")["executions"] for each in runs]
    return [child["executionArn"] for children in listed for child in children]


def _processes() -> list[int]:
    """Return the ids of tasks' processes that this test's process is an ancestor of."""
    found = []
    for each in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile
            if any("task_process.py" in part for part in each.cmdline()):
                found.append(each.pid)
    return found


def test_without_files_to_make_the_machine_goes_straight_on(lab: Lab) -> None:
    """Every other experiment's way is one Choice longer."""
    ending = lab.run_trial(Scenario("no-files"))
    assert "SeedFiles" not in ending.stages


def test_files_are_made_until_they_are_there(lab: Lab) -> None:
    """Before anything is offered; each call goes on where the last one stopped."""
    ending = lab.run_trial(Scenario("seeded", seeds=True, platforms=("lambda", "lambda")))
    stages = [call["stage"] for call in ending.calls]
    assert stages[:3] == ["PrepareTarget", "SeedFiles", "SeedFiles"]
    assert ending.status == "SUCCEEDED"

"""ECS tasks of the embedded run: the processes that RunTask starts, and what a state machine learns of them."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from stepbench_tools.local.emulator.server import start_emulator
from stepbench_tools.local.processes import await_end, terminate, wait_until
from stepbench_tools.local.stack import local_client

if TYPE_CHECKING:
    from tests.integration.tools.local.conftest import Functions

    from stepbench_tools.local.emulator.server import Emulator
    from stepbench_tools.local.paths import Paths

pytestmark = pytest.mark.emulator

GROUP = "/aws/ecs/tasks"
TELLS = """
import os, sys
print("said", os.environ["FROM_DEFINITION"], os.environ["TRANSFER_TASK"], os.environ["AWS_ENDPOINT_URL"])
sys.exit(int(os.environ.get("EXIT", "0")))
"""
BECOMES_A_MODULE = """
import os, sys
os.execv(sys.executable, [sys.executable, "-P", "-m", "of_layer"])
"""
ASKS_WHO_IT_IS = """
import json, os, urllib.request
task = json.load(urllib.request.urlopen(os.environ["ECS_CONTAINER_METADATA_URI_V4"] + "/task"))
print(task["TaskARN"], task["AvailabilityZone"])
"""
STAYS = """
import os, pathlib, time
pathlib.Path(os.environ["TRANSFER_TASK"]).write_text(str(os.getpid()))
time.sleep(120)
"""


class Ecs:
    """A cluster with one task definition, whose only container runs a program."""

    def __init__(self, endpoint: str, family: str, program: str, **container: Any) -> None:  # noqa: ANN401 -- JSON
        self.client, self.endpoint = local_client("ecs", endpoint), endpoint
        self.client.create_cluster(clusterName="tasks")
        logging = {"logDriver": "awslogs", "options": {"awslogs-group": GROUP, "awslogs-create-group": "true",
                                                       "awslogs-stream-prefix": family}}  # fmt: skip
        definition = {
            "name": "transfer",
            "image": "any",
            "entryPoint": ["/var/lang/bin/python3", "-c"],
            "command": [program],
            "logConfiguration": logging,
            **container,
        }
        made = self.client.register_task_definition(family=family, containerDefinitions=[definition])
        self.definition = made["taskDefinition"]["taskDefinitionArn"]

    def run(self, task: str = "", **variables: str) -> str:
        """Start a task; return its ARN."""
        environment = [{"name": name, "value": value} for name, value in {"TRANSFER_TASK": task, **variables}.items()]
        overrides = {"containerOverrides": [{"name": "transfer", "environment": environment}]}
        answer = self.client.run_task(cluster="tasks", taskDefinition=self.definition, overrides=overrides)
        assert answer["tasks"][0]["lastStatus"] == "PENDING"
        return str(answer["tasks"][0]["taskArn"])

    def task(self, arn: str) -> Any:  # noqa: ANN401 -- JSON
        """Return the task as ECS describes it."""
        return self.client.describe_tasks(cluster="tasks", tasks=[arn])["tasks"][0]

    def ended(self, arn: str) -> Any:  # noqa: ANN401 -- JSON
        """Return the task once it has stopped."""
        wait_until("the task has stopped", lambda: self.task(arn)["lastStatus"] == "STOPPED", timeout_s=60)
        return self.task(arn)


def _pid(path: Path) -> int:
    wait_until("the program runs", lambda: path.exists() and path.read_text() != "", timeout_s=60)
    return int(path.read_text())


def _lines(endpoint: str, prefix: str) -> list[str]:
    events = local_client("logs", endpoint).filter_log_events(logGroupName=GROUP)["events"]
    return [each["message"] for each in events if each["logStreamName"].startswith(f"{prefix}/")]


def test_a_task_knows_which_task_it_is(shimmed: Emulator) -> None:
    """By the endpoint that Fargate names in its environment; a transfer's row says so."""
    ecs = Ecs(shimmed.endpoint, "knowing", ASKS_WHO_IT_IS)
    arn = ecs.run()
    assert ecs.ended(arn)["containers"][0]["exitCode"] == 0
    assert _lines(shimmed.endpoint, "knowing") == [f"{arn} us-east-1a"]


@pytest.mark.parametrize("code", [0, 3])
def test_a_task_is_a_process_that_ends_with_its_code(shimmed: Emulator, code: int) -> None:
    """Stock MiniStack without Docker leaves it RUNNING for ever. Variables are the definition's, or the override's."""
    environment = [{"name": "FROM_DEFINITION", "value": "defined"}]
    ecs = Ecs(shimmed.endpoint, f"tells-{code}", TELLS, environment=environment)
    task = ecs.ended(ecs.run('{"item": {}}', EXIT=str(code)))
    assert task["containers"][0]["exitCode"] == code
    assert (task["stopCode"], task["stoppedReason"]) == ("EssentialContainerExited", "Essential container exited")
    assert _lines(shimmed.endpoint, f"tells-{code}") == [f'said defined {{"item": {{}}}} {shimmed.endpoint}']


def test_a_task_finds_the_layers_that_it_names(shimmed: Emulator, functions: Functions) -> None:
    """The program is in them, on AWS as here; and what a process becomes by exec is the task still."""
    layer = functions.layer("of-task", {"python/of_layer.py": "print('of the layer')"})
    named = [{"name": "LAYERS", "value": layer}]
    ecs = Ecs(shimmed.endpoint, "layered", BECOMES_A_MODULE, environment=named)
    assert ecs.ended(ecs.run())["containers"][0]["exitCode"] == 0
    assert _lines(shimmed.endpoint, "layered") == ["of the layer"]


def test_a_program_that_is_not_there_stops_its_task(shimmed: Emulator) -> None:
    """With a reason, and no exit code that is 0."""
    ecs = Ecs(shimmed.endpoint, "absent", "", entryPoint=["/no/such/program"])
    assert ecs.ended(ecs.run())["containers"][0]["exitCode"] != 0


def test_a_stopped_task_is_no_process_any_more(shimmed: Emulator, tmp_path: Path) -> None:
    """StopTask is how a stopped execution ends its transfers."""
    ecs = Ecs(shimmed.endpoint, "stopped", STAYS)
    arn = ecs.run(str(tmp_path / "pid"))
    process = psutil.Process(_pid(tmp_path / "pid"))
    wait_until("it runs", lambda: ecs.task(arn)["lastStatus"] == "RUNNING", timeout_s=60)
    ecs.client.stop_task(cluster="tasks", task=arn, reason="no longer wanted")
    assert await_end([process], 60) == []
    task = ecs.ended(arn)
    assert (task["containers"][0]["exitCode"], task["stoppedReason"]) == (143, "no longer wanted")


@pytest.mark.parametrize("abrupt", [False, True])
def test_tasks_end_with_their_emulator(paths: Paths, tmp_path: Path, *, abrupt: bool) -> None:
    """However it ends: a transfer must not outlive it."""
    emulator = start_emulator(paths)
    try:
        Ecs(emulator.endpoint, "orphan", STAYS).run(str(tmp_path / "pid"))
        process = psutil.Process(_pid(tmp_path / "pid"))
        os.kill(emulator.pid, signal.SIGKILL if abrupt else signal.SIGTERM)
        assert await_end([process], 60) == []
    finally:
        terminate(emulator.pids)


MACHINE = {
    "StartAt": "Run",
    "States": {
        "Run": {
            "Type": "Task",
            "Resource": "arn:aws:states:::ecs:runTask.sync",
            "Parameters": {
                "Cluster": "tasks",
                "TaskDefinition.$": "$.definition",
                "Overrides": {
                    "ContainerOverrides": [
                        {"Name": "transfer", "Environment": [{"Name": "TRANSFER_TASK", "Value.$": "$.task"},
                                                             {"Name": "EXIT", "Value.$": "$.exit"}]}
                    ]
                },
            },
            "End": True,
        }
    },
}  # fmt: skip


@pytest.mark.parametrize(("code", "status", "error"), [("0", "SUCCEEDED", None), ("3", "FAILED", "States.TaskFailed")])
def test_a_machine_learns_how_its_task_has_ended(shimmed: Emulator, code: str, status: str, error: str | None) -> None:
    """On AWS an exit code that is not 0 fails the state, with the task as its cause; MiniStack's own never fails."""
    ecs = Ecs(shimmed.endpoint, "of-machine", TELLS, environment=[{"name": "FROM_DEFINITION", "value": "x"}])
    seen = _execute(shimmed.endpoint, {"definition": ecs.definition, "task": "{}", "exit": code})
    assert (seen["status"], seen.get("error")) == (status, error)
    told = json.loads(seen["output"] if code == "0" else seen["cause"])
    assert told["Containers"][0]["ExitCode"] == int(code)


def test_a_machine_is_told_what_ecs_refuses(shimmed: Emulator) -> None:
    """By ECS's own name for it."""
    seen = _execute(shimmed.endpoint, {"definition": "no-such:1", "task": "{}", "exit": "0"})
    assert (seen["status"], seen["error"]) == ("FAILED", "ECS.ClientException")


def _execute(endpoint: str, given: dict[str, str]) -> Any:  # noqa: ANN401 -- JSON
    states = local_client("stepfunctions", endpoint)
    role = "arn:aws:iam::000000000000:role/any"
    name = f"of-tasks-{time.monotonic_ns()}"
    machine = states.create_state_machine(name=name, definition=json.dumps(MACHINE), roleArn=role)
    arn = states.start_execution(stateMachineArn=machine["stateMachineArn"], input=json.dumps(given))["executionArn"]
    wait_until("it ends", lambda: states.describe_execution(executionArn=arn)["status"] != "RUNNING", timeout_s=60)
    return states.describe_execution(executionArn=arn)

"""What a task's process is started with; tests/integration/tools/local/emulator/test_tasks.py runs tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepbench_tools.local.emulator.lambda_parts import module_path
from stepbench_tools.local.emulator.ministack.tasks import Parts, _pascal

DEFINITION = {
    "taskDefinitionArn": "arn:aws:ecs:eu-west-1:000000000000:task-definition/bench-RunTransferTask:3",
    "family": "bench-RunTransferTask",
    "taskRoleArn": "arn:aws:iam::000000000000:role/task",
}


@pytest.fixture
def parts() -> Parts:
    """Return parts with a made-up role's credentials, and layers in folders of their names."""

    def credentials(role: dict[str, Any]) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": f"{role['Role']} as {role['FunctionName']}", "AWS_SESSION_TOKEN": ""}

    def folders(arns: list[str]) -> list[Path]:
        return [Path("/layers", arn) for arn in arns]

    return Parts(None, credentials, folders, module_path, {"TZ": ":UTC"}, "/lambda/python")


@pytest.mark.parametrize(
    ("container", "override", "expected"),
    [
        ({"entryPoint": ["/var/lang/bin/python3", "-c"], "command": ["x"]}, {}, ["/lambda/python", "-c", "x"]),
        ({"command": ["python", "-m", "a"]}, {"command": ["python", "-m", "b"]}, ["/lambda/python", "-m", "b"]),
        ({"entryPoint": ["/bin/echo"], "command": ["python"]}, {}, ["/bin/echo", "python"]),
    ],
)
def test_the_image_s_python_is_the_one_that_stands_for_lambda_s(
    parts: Parts, container: dict[str, Any], override: dict[str, Any], expected: list[str]
) -> None:
    """There is no image here; any other program is this machine's own."""
    assert parts.command(container, override) == expected


def test_a_task_has_its_own_variables_its_roles_credentials_and_its_layers(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An override goes before the definition; nothing of the emulator's own environment is passed on."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("SECRET_OF_THIS_MACHINE", "x")
    given = {"LAYERS": "core,libraries", "RESULTS_TABLE": "results", "TRANSFER_TASK": ""}
    container = {"environment": [{"name": name, "value": value} for name, value in given.items()]}
    override = {"environment": [{"name": "TRANSFER_TASK", "value": "{}"}]}
    assert parts.environment(DEFINITION, container, override) == {
        "TZ": ":UTC",
        "AWS_ACCESS_KEY_ID": "arn:aws:iam::000000000000:role/task as bench-RunTransferTask",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_REGION": "eu-west-1",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "LAYERS": "core,libraries",
        "RESULTS_TABLE": "results",
        "TRANSFER_TASK": "{}",
        "PYTHONPATH": "/layers/libraries/python:/layers/core/python",
    }


def test_step_functions_has_other_names_for_ecs_answers() -> None:
    """`Containers[0].ExitCode`, where ECS itself says `containers[0].exitCode`."""
    assert _pascal({"containers": [{"exitCode": 3}], "taskArn": "a"}) == {
        "Containers": [{"ExitCode": 3}],
        "TaskArn": "a",
    }

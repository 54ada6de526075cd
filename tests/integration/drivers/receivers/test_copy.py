"""A copy of a function on the emulator: made, invoked, removed; and the function itself stays as it is."""

from __future__ import annotations

import hashlib
import json
import traceback
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ClientError
from tests.support.contracts.trigger_subject import contract_spec
from tests.support.measuring_layer import build_layer, measured_lines, pack_layer, zipped

from stepbench.clock import SystemClock
from stepbench.drivers.receivers.copy import FunctionCopy
from stepbench.errors import PlanError, TargetUnavailableError
from stepbench_tools.local.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from stepbench.services import Services
    from stepbench.settings import Settings

pytestmark = pytest.mark.emulator

SOURCE = """
import os
def handler(event, context):
    return {"of": os.environ["TABLE"], "handler": os.environ["_HANDLER"]}
"""
FIELDS = ("CodeSha256", "Environment", "Handler", "Layers", "MemorySize", "RevisionId", "Role", "Runtime", "Timeout")


class Scene:
    """A function of somebody's, and copies of it for trials."""

    def __init__(self, services: Services, layer: bytes) -> None:
        self.services = services
        self.client = services.aws("lambda")
        prefix = services.settings.function_prefix
        self.name = f"{prefix}-orders"
        self.iam = services.aws("iam")
        trusted = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [trusted]})
        role = self.iam.create_role(RoleName=self.name, AssumeRolePolicyDocument=document)
        self.role_arn: str = role["Role"]["Arn"]
        self.allow("logs:CreateLogStream", "logs:PutLogEvents")
        published = self.client.publish_layer_version(LayerName=f"{prefix}-measuring", Content={"ZipFile": layer})
        of_stack = f"arn:aws:lambda:us-east-1:000000000000:function:{prefix}-ReceiveEvents"
        self.settings: Settings = services.settings.model_copy(
            update={"measuring_layer_arn": published["LayerVersionArn"], "receive_events_function_arn": of_stack}
        )

    def make(self, source: str = SOURCE, **settings: Any) -> None:  # noqa: ANN401 -- as boto3 takes them
        """Make the function."""
        usual = {"Runtime": "python3.11", "Environment": {"Variables": {"TABLE": "orders"}}, "MemorySize": 256}
        self.client.create_function(
            FunctionName=self.name,
            Role=self.role_arn,
            Handler="app.handler",
            Code={"ZipFile": zipped({"app.py": source})},
            **{**usual, "Timeout": 7, **settings},
        )

    def allow(self, *actions: str) -> None:
        """Allow the function's role these actions, and no others."""
        statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        self.iam.put_role_policy(RoleName=self.name, PolicyName="own", PolicyDocument=document)

    def shown(self) -> dict[str, Any]:
        """Return what AWS shows of the function."""
        found = self.client.get_function_configuration(FunctionName=self.name)
        return {name: found.get(name) for name in FIELDS}

    def copy(self, **function: Any) -> tuple[FunctionCopy, str]:  # noqa: ANN401 -- fields of a plan
        """Return the copy of a trial, and the trial's tag."""
        wanted = {"name": self.name, "attempts": 1, **function}
        spec = contract_spec({"store": "s3", "function": {each: value for each, value in wanted.items() if value}})
        return FunctionCopy(spec, self.settings, SystemClock()), spec.tag

    def printed(self, group: str, tag: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the lines of a trial in a log group."""
        events = self.services.aws("logs").filter_log_events(logGroupName=group, filterPattern=f'"{tag}"')["events"]
        return measured_lines([event["message"].strip() for event in events])

    def left(self, tag: str) -> list[str]:
        """Return what there is of a trial's copy."""
        functions = [
            function["FunctionName"]
            for page in self.client.get_paginator("list_functions").paginate()
            for function in page["Functions"]
        ]
        groups = self.services.aws("logs").describe_log_groups()["logGroups"]
        keys = self.services.runs.keys("functions/copies/")
        return [name for name in (*functions, *(group["logGroupName"] for group in groups), *keys) if tag in name]


@pytest.fixture
def scene(services: Services, tmp_path: Path) -> Iterator[Scene]:
    """Publish the layer; remove the function afterwards."""
    scene = Scene(services, pack_layer(build_layer(tmp_path / "layer")))
    yield scene
    scene.client.delete_function(FunctionName=scene.name)
    scene.iam.delete_role_policy(RoleName=scene.name, PolicyName="own")
    scene.iam.delete_role(RoleName=scene.name)


async def test_a_copy_does_what_the_function_does_and_prints_when(scene: Scene) -> None:
    """Its variables, its role and its size are the function's; the handler is too, behind the layer."""
    scene.make()
    before = scene.shown()
    copy, tag = scene.copy(variables={"MORE": "1"}, memory_mib=512)
    await copy.ensure()
    await copy.ensure()
    assert await copy.ready()
    answer = scene.client.invoke(FunctionName=copy.arn, Payload=b"{}")

    assert json.load(answer["Payload"]) == {"of": "orders", "handler": "app.handler"}
    made = scene.client.get_function_configuration(FunctionName=copy.arn)
    assert (made["MemorySize"], made["Timeout"], made["Role"]) == (512, 7, scene.role_arn)
    assert made["Environment"]["Variables"]["MORE"] == "1"
    group = f"/aws/lambda/{copy.arn.rpartition(':')[2]}"
    wait_until("both lines are there", lambda: len(scene.printed(group, tag)) == 2, timeout_s=20)
    assert {fields["trial"] for _, fields in scene.printed(group, tag)} == {tag}

    while not await copy.remove():
        pass
    assert await copy.remove()
    await copy.close()
    assert scene.left(tag) == []
    assert scene.shown() == before


PRINTING = """
import json, os, time
def handler(event, context):
    line = {"trial": os.environ["STEPBENCH_TRIAL"], "request": context.aws_request_id, "t4": time.time_ns()}
    print(json.dumps({"stepbench.t4": {**line, "sandbox": "s", "batch": 0}}))
    print(json.dumps({"stepbench.t5": {**line, "t5": time.time_ns()}}))
    return sorted(name for name in os.environ if name.startswith("STEPBENCH_") or name.endswith("_WRAPPER"))
"""


async def test_one_that_prints_its_times_itself_gets_the_trials_variables_and_no_layer(scene: Scene) -> None:
    """A runtime without a shim has what it needs to print the lines, and nothing stands between Lambda and it."""
    scene.make(PRINTING)
    copy, tag = scene.copy(times="own")
    await copy.ensure()
    answer = scene.client.invoke(FunctionName=copy.arn, Payload=b"{}")

    assert json.load(answer["Payload"]) == ["STEPBENCH_IDENTITY", "STEPBENCH_TRIAL"]
    assert not scene.client.get_function_configuration(FunctionName=copy.arn).get("Layers")
    group = f"/aws/lambda/{copy.arn.rpartition(':')[2]}"
    wait_until("both lines are there", lambda: len(scene.printed(group, tag)) == 2, timeout_s=20)
    while not await copy.remove():
        pass
    assert scene.left(tag) == []
    await copy.close()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"Environment": {"Variables": {"AWS_LAMBDA_EXEC_WRAPPER": "/opt/other"}}}, "has a wrapper already"),
        ({"Runtime": "provided.al2023"}, "provided.al2023"),
        ({"Environment": {"Variables": {"STEPBENCH_TRIAL": "x"}}}, "variables whose names"),
        ({"Environment": {"Variables": {"PAGE": "x" * 4_000}}}, "bytes, as JSON: Lambda takes 4,096"),
    ],
)
async def test_one_that_cannot_be_measured_is_refused_and_nothing_is_made(
    scene: Scene, settings: dict[str, Any], reason: str
) -> None:
    """The reason comes with the way out, and names the function."""
    scene.make(**settings)
    copy, tag = scene.copy()
    with pytest.raises(PlanError, match=reason) as refused:
        await copy.ensure()
    await copy.close()

    assert refused.value.problems[0].path.endswith("target.function.name")
    assert refused.value.problems[0].remedy
    assert scene.left(tag) == []


async def test_a_role_that_may_not_log_is_refused(scene: Scene) -> None:
    """Its copy would run, and nobody would ever learn when."""
    scene.make()
    scene.allow("logs:CreateLogStream")
    copy, tag = scene.copy()
    with pytest.raises(PlanError, match="may not logs:PutLogEvents for a copy") as refused:
        await copy.ensure()
    await copy.close()

    assert "MeasuringPolicy" in refused.value.problems[0].remedy
    assert scene.left(tag) == []


async def test_only_a_layer_that_puts_its_lines_needs_the_results_table(scene: Scene) -> None:
    """The role has to be allowed keys of lines, and needs no others; the copy knows where the table is."""
    scene.make()
    copy, tag = scene.copy(records="table")
    with pytest.raises(PlanError, match="may not dynamodb:PutItem for a copy"):
        await copy.ensure()
    assert scene.left(tag) == []

    put = {"Effect": "Allow", "Action": "dynamodb:PutItem", "Resource": "*"}
    keys = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": "lines#*"}}
    logs = {"Effect": "Allow", "Action": ["logs:CreateLogStream", "logs:PutLogEvents"], "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [{**put, "Condition": keys}, logs]})
    scene.iam.put_role_policy(RoleName=scene.name, PolicyName="own", PolicyDocument=document)
    await copy.ensure()
    found = scene.client.get_function_configuration(FunctionName=copy.arn)["Environment"]["Variables"]
    assert found["STEPBENCH_RESULTS_TABLE"].endswith(f"/{scene.settings.results_table}")
    while not await copy.remove():
        pass
    await copy.close()


async def test_a_function_that_is_not_there_is_refused(scene: Scene) -> None:
    """A misspelt name is a mistake in the plan: to try again would find nothing either."""
    scene.make()
    copy, _ = scene.copy(name="elsewhere")
    with pytest.raises(PlanError, match="is no function of this account"):
        await copy.ensure()
    await copy.close()


async def test_a_package_has_to_be_what_its_name_says(scene: Scene) -> None:
    """Its name is the hash of its content; who changes it in the bucket would run other code."""
    scene.make()
    code = zipped({"app.py": SOURCE})
    key = f"functions/{hashlib.sha256(code).hexdigest()}.zip"
    scene.services.runs.put_bytes(key, code + b" ")
    copy, tag = scene.copy(name=None, package=key, handler="app.handler", runtime="python3.11")
    with pytest.raises(PlanError, match="is not what was uploaded"):
        await copy.ensure()

    scene.services.runs.put_bytes(key, code)
    await copy.ensure()
    assert await copy.ready()
    assert not await copy.remove()
    assert not await copy.remove()
    group = f"/aws/lambda/{copy.arn.rpartition(':')[2]}"
    scene.services.aws("logs").create_log_group(logGroupName=group)  # an invocation has ended after its function
    assert not await copy.remove()
    assert await copy.remove()
    await copy.close()
    assert scene.left(tag) == []
    assert scene.services.runs.find_bytes(key) == code


async def test_private_values_have_to_leave_room_for_the_trials(scene: Scene) -> None:
    """The command line has looked at them alone."""
    scene.make()
    code = zipped({"app.py": SOURCE})
    package, private = f"functions/{hashlib.sha256(code).hexdigest()}.zip", "functions/own.variables.json"
    scene.services.runs.put_bytes(package, code)
    scene.services.runs.put_bytes(private, json.dumps({"PAGE": "x" * 4_000}).encode())
    copy, tag = scene.copy(name=None, package=package, handler="app.handler", variables_key=private)
    with pytest.raises(PlanError, match="bytes, as JSON: Lambda takes 4,096") as refused:
        await copy.ensure()
    await copy.close()

    assert refused.value.problems[0].path.endswith("target.function.variables")
    assert scene.left(tag) == []


async def test_no_value_of_a_variable_is_in_what_is_said_of_a_refusal(scene: Scene) -> None:
    """Lambda repeats them; a failure is shown, logged with its causes, and kept."""
    scene.make(Environment={"Variables": {"GREETING": "hunter2"}})
    copy, _ = scene.copy()
    said = 'Lambda was unable to configure your environment variables. String measured: {"GREETING":"hunter2"}'
    body = SimpleNamespace(stream=lambda *_, **__: iter([json.dumps({"Type": "User", "message": said}).encode()]))
    headers = HTTPHeaders()
    headers["x-amzn-errortype"] = "InvalidParameterValueException"
    refusal = AWSResponse("", 400, headers, body)
    client = await copy._aws.client()
    client.meta.events.register("before-send.lambda.CreateFunction", lambda **_: refusal)
    with pytest.raises(TargetUnavailableError, match="unable to configure your environment variables") as refused:
        await copy.ensure()
    while not await copy.remove():
        pass
    await copy.close()

    assert "hunter2" not in "".join(traceback.format_exception(refused.value))


async def test_code_of_the_command_line_is_not_run_on_aws(scene: Scene) -> None:
    """There, whoever may start a plan could run code with rights that somebody else has granted."""
    scene.make()
    scene.settings = scene.settings.model_copy(update={"emulator": ""})
    copy, _ = scene.copy(name=None, package=f"functions/{'0' * 64}.zip", handler="app.handler")
    with pytest.raises(PlanError, match="which only an environment on its own machine runs"):
        await copy.ensure()
    await copy.close()


async def test_a_stream_may_be_removed_twice(scene: Scene) -> None:
    """A tear-down that was cut off begins again, and finds less."""
    scene.make()
    copy, _ = scene.copy()
    assert await copy.remove()
    await copy.close()
    with pytest.raises(ClientError, match="ResourceNotFound"):
        scene.client.get_function_configuration(FunctionName=copy.arn)

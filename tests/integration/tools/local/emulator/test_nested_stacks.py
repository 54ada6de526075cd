"""A stack within a stack, deployed twice: who changes code while the environment is up deploys again."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from stepbench_tools.local.stack import local_client

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.emulator

NESTED = {
    "Parameters": {"Layers": {"Type": "String"}},
    "Resources": {
        "Logs": {
            "Type": "AWS::Logs::LogGroup",
            "Properties": {"LogGroupName": {"Fn::Sub": "/nested/${AWS::StackName}"}},
        },
    },
    "Outputs": {"LogsArn": {"Value": {"Fn::GetAtt": "Logs.Arn"}}, "Layers": {"Value": {"Ref": "Layers"}}},
}
"""As `stacks/fargate.yaml`: a resource that stays, asked for its ARN, beside a parameter that changes with the code."""


def _whole(url: str, layers: str) -> str:
    nested = {
        "Type": "AWS::CloudFormation::Stack",
        "Properties": {"TemplateURL": url, "Parameters": {"Layers": layers}},
    }
    outputs = {name: {"Value": {"Fn::GetAtt": f"Nested.Outputs.{name}"}} for name in ("LogsArn", "Layers")}
    return json.dumps({"Resources": {"Nested": nested}, "Outputs": outputs})


@pytest.fixture
def deployed(emulator: str) -> Iterator[tuple[Any, str, str]]:
    """Deploy once; yield a client, the stack's name, and where the nested template is."""
    cloudformation, s3 = (local_client(name, emulator) for name in ("cloudformation", "s3"))
    name = f"nested-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(Bucket=name)
    s3.put_object(Bucket=name, Key="nested.json", Body=json.dumps(NESTED).encode())
    url = f"{emulator}/{name}/nested.json"
    cloudformation.create_stack(StackName=name, TemplateBody=_whole(url, "one"))
    cloudformation.get_waiter("stack_create_complete").wait(StackName=name, WaiterConfig={"Delay": 1})
    yield cloudformation, name, url
    cloudformation.delete_stack(StackName=name)
    s3.delete_object(Bucket=name, Key="nested.json")
    s3.delete_bucket(Bucket=name)


def _outputs(cloudformation: Any, name: str) -> dict[str, str]:  # noqa: ANN401 -- boto3 clients have no common type
    (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
    return {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}


def test_what_a_second_deployment_leaves_alone_is_asked_for_as_before(deployed: tuple[Any, str, str]) -> None:
    """MiniStack forgot the attributes of nested resources that had not changed: the stack could not be updated."""
    cloudformation, name, url = deployed
    before = _outputs(cloudformation, name)
    cloudformation.update_stack(StackName=name, TemplateBody=_whole(url, "two"))
    cloudformation.get_waiter("stack_update_complete").wait(StackName=name, WaiterConfig={"Delay": 1})
    assert _outputs(cloudformation, name) == {**before, "Layers": "two"}

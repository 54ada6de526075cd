"""A function of somebody's, deployed by hand beside the stack, and everything that the account shows of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.support.measuring_layer import zipped

from stepbench_tools.local.stack import Stack

NAME = "orders"
SOURCE = """
import os, time
if "BROKEN" in os.environ: raise RuntimeError("broken")
def handler(event, context):
    time.sleep(float(os.environ.get("WORK_S", "0.02")))
    return {"batchItemFailures": []}
"""
_TRUST = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}


@dataclass
class OwnFunction:
    """
    A function with all that one can have beside its code: tags, a policy, a version, an alias, limits of its own.

    Attributes:
        stack: beside which it is.
        deployed: what was shown of it when it had just been deployed.
    """

    stack: Stack
    deployed: dict[str, Any] = field(default_factory=dict)

    def deploy(self) -> None:
        """Make the function and its role, which may print and poll whatever is the trial's."""
        iam, client = self.stack.aws("iam"), self.stack.aws("lambda")
        trust = json.dumps({"Version": "2012-10-17", "Statement": [_TRUST]})
        with suppress(iam.exceptions.EntityAlreadyExistsException):
            iam.create_role(RoleName=NAME, AssumeRolePolicyDocument=trust)
        iam.attach_role_policy(RoleName=NAME, PolicyArn=self.stack.outputs["MeasuringPolicyArn"])
        client.create_function(
            FunctionName=NAME,
            Role=self.role_arn,
            Runtime="python3.11",
            Handler="app.handler",
            Code={"ZipFile": zipped({"app.py": SOURCE})},
            Environment={"Variables": {"TABLE": "orders"}},
            Timeout=9,
            MemorySize=256,
            Tags={"team": "payments"},
        )
        client.add_permission(
            FunctionName=NAME, StatementId="bucket", Action="lambda:InvokeFunction", Principal="s3.amazonaws.com"
        )
        client.put_function_event_invoke_config(FunctionName=NAME, MaximumRetryAttempts=1, MaximumEventAgeInSeconds=600)
        client.put_function_concurrency(FunctionName=NAME, ReservedConcurrentExecutions=7)
        client.get_waiter("function_active_v2").wait(FunctionName=NAME, WaiterConfig={"Delay": 1})
        client.publish_version(FunctionName=NAME)
        client.create_alias(FunctionName=NAME, Name="live", FunctionVersion="1")
        self.deployed = self.shown()

    def allow(self) -> None:
        """Deploy the stack once more, so that it may measure this function."""
        cloudformation, stack = self.stack.aws("cloudformation"), self.stack.name
        values = {"MeasuredFunctions": self.deployed["configuration"]["FunctionArn"], "MeasuredRoles": self.role_arn}
        known = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["Parameters"]
        kept = [name for each in known if (name := each["ParameterKey"]) not in values]
        parameters = [{"ParameterKey": name, "UsePreviousValue": True} for name in kept]
        parameters += [{"ParameterKey": name, "ParameterValue": value} for name, value in values.items()]
        cloudformation.update_stack(
            StackName=stack,
            UsePreviousTemplate=True,
            Parameters=parameters,
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        )
        cloudformation.get_waiter("stack_update_complete").wait(StackName=stack, WaiterConfig={"Delay": 1})

    @property
    def role_arn(self) -> str:
        """Return the ARN of its role."""
        return str(self.stack.aws("iam").get_role(RoleName=NAME)["Role"]["Arn"])

    def shown(self) -> dict[str, Any]:
        """Return everything that the account shows of the function, and of its role."""
        client, iam = self.stack.aws("lambda"), self.stack.aws("iam")
        named: dict[str, Callable[..., Any]] = {
            "configuration": client.get_function_configuration,
            "policy": client.get_policy,
            "event invoke config": client.get_function_event_invoke_config,
            "concurrency": client.get_function_concurrency,
            "versions": client.list_versions_by_function,
            "aliases": client.list_aliases,
            "mappings": client.list_event_source_mappings,
        }
        answers = {what: ask(FunctionName=NAME) for what, ask in named.items()}
        answers["tags"] = client.list_tags(Resource=answers["configuration"]["FunctionArn"])
        answers["role"] = iam.list_attached_role_policies(RoleName=NAME)
        for answer in answers.values():
            del answer["ResponseMetadata"]
        return answers

    def changes(self) -> dict[str, Any]:
        """Return what is shown otherwise than when it had been deployed: was, and is."""
        now = self.shown()
        return {what: (was, now[what]) for what, was in self.deployed.items() if was != now[what]}

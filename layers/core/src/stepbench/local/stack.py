"""A deployed stack, here or in an account: its machines, its records, its functions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore.exceptions import ClientError

from stepbench.errors import StepbenchError
from stepbench.local.sessions import client, local_session, table
from stepbench.records.run_store import RunStore
from stepbench.records.trial_table import TrialTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BENCHMARK, TRIAL = "BenchmarkStateMachineArn", "TrialStateMachineArn"
RESULTS_TABLE, RESULTS_BUCKET = "ResultsTableName", "ResultsBucketName"
RECEIVER = "ReceiveEventsFunctionArn"
REQUIRED = (BENCHMARK, TRIAL, RESULTS_TABLE, RESULTS_BUCKET)


class StackError(StepbenchError):
    """There is no such stack, or it is none of ours, or one of its functions failed."""


@dataclass(frozen=True)
class Stack:
    """
    One deployed stack.

    Attributes:
        name: CloudFormation's.
        endpoint: of an emulator; None on AWS.
        outputs: the stack's.
        aws: makes (and keeps) a boto3 client by service name.
        runs: its results bucket.
        table: its results table.
    """

    name: str
    endpoint: str | None
    outputs: Mapping[str, str]
    aws: Callable[[str], Any]
    runs: RunStore
    table: TrialTable

    def call(self, logical_id: str, task: Mapping[str, Any]) -> Any:  # noqa: ANN401 -- JSON
        """
        Invoke one of the stack's functions by its name in the template, and wait.

        Raises:
            StackError: the function raised; with its error's name and message.
        """
        found = self.aws("cloudformation").describe_stack_resource(StackName=self.name, LogicalResourceId=logical_id)
        function = found["StackResourceDetail"]["PhysicalResourceId"]
        answer = self.aws("lambda").invoke(FunctionName=function, Payload=json.dumps(task).encode())
        body = json.loads(answer["Payload"].read() or b"null")
        if answer.get("FunctionError"):
            error = body if isinstance(body, dict) else {}
            message = f"{logical_id}: {error.get('errorType', 'error')}: {error.get('errorMessage', body)}"
            raise StackError(message)
        return body


def local_stack(name: str, endpoint: str) -> Stack:
    """The stack on the emulator; see `open_stack`."""
    return open_stack(name, local_session(), endpoint)


def remote_stack(name: str) -> Stack:
    """A stack reached with the user's own credentials and AWS_ENDPOINT_URL, if set; see `open_stack`."""
    return open_stack(name, boto3.session.Session(), None)


def open_stack(name: str, session: boto3.session.Session, endpoint: str | None) -> Stack:
    """
    Look a stack up.

    Raises:
        StackError: it does not exist, or lacks our outputs.
        botocore.exceptions.BotoCoreError: no credentials, no region, or nobody answers.
    """

    @lru_cache(maxsize=16)
    def aws(service: str) -> Any:  # noqa: ANN401 -- boto3 clients have no common type
        return client(session, service, endpoint)

    try:
        described = aws("cloudformation").describe_stacks(StackName=name)["Stacks"][0]
    except ClientError as error:
        message = (
            f"stack {name!r}: {error.response['Error'].get('Message', error)}; deploy it first, or check the region"
        )
        raise StackError(message) from error
    outputs = {output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", [])}
    missing = [output for output in REQUIRED if output not in outputs]
    if missing:
        message = (
            f"stack {name!r} has no output {', '.join(missing)}: it is not a Stepbench stack, or not deployed whole"
        )
        raise StackError(message)
    return Stack(
        name=name,
        endpoint=endpoint,
        outputs=outputs,
        aws=aws,
        runs=RunStore(aws("s3"), outputs[RESULTS_BUCKET]),
        table=TrialTable(table(session, outputs[RESULTS_TABLE], endpoint)),
    )

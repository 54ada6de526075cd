"""
A deployed stack, here or in an account: its machines, its records, its functions, and its HTTP API.

boto3 clients: for the emulator with credentials that open nothing, for a deployed stack with the user's own, by which
requests to the API are signed, too.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit
from urllib.request import getproxies

import boto3
import botocore.session
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.httpsession import URLLib3Session

from stepbench.errors import PlanError, Problem, StepbenchError
from stepbench.records.storage.run_register import RunRegister
from stepbench.records.storage.run_store import RunStore
from stepbench.records.storage.trial_table import TrialTable, dynamodb_table
from stepbench.wire.http1.boto import WholeSession, bounded_client

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BENCHMARK, TRIAL, DATAFLOW = "BenchmarkStateMachineArn", "TrialStateMachineArn", "DataflowStateMachineArn"
RESULTS_TABLE, RESULTS_BUCKET = "ResultsTableName", "ResultsBucketName"
RECEIVER = "ReceiveEventsFunctionArn"
RUNS_TABLE, API_URL = "RunsTableName", "ApiUrl"
REQUIRED = (BENCHMARK, TRIAL, RESULTS_TABLE, RESULTS_BUCKET, RUNS_TABLE)


CREDENTIALS_REMEDY = "set AWS_PROFILE to a profile that has some, or log in (`aws configure`, `aws sso login`)"


class StackError(StepbenchError):
    """There is no such stack, or it is none of ours, or one of its functions failed."""


@dataclass(frozen=True)
class Stack:
    """
    A stack is deployed, and reached by boto3 clients.

    Attributes:
        name: CloudFormation's.
        endpoint: of an emulator; None on AWS.
        outputs: the stack's.
        aws: makes (and keeps) a boto3 client by service name.
        runs: its results bucket.
        table: its results table.
        register: its runs, and their queue.
    """

    name: str
    endpoint: str | None
    outputs: Mapping[str, str]
    aws: Callable[[str], Any]
    runs: RunStore
    table: TrialTable
    register: RunRegister

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
    """Return the stack on the emulator; see `open_stack`."""
    return open_stack(name, emulator_session(), endpoint)


def remote_stack(name: str) -> Stack:
    """Return a stack reached with the user's own credentials and AWS_ENDPOINT_URL, if set; see `open_stack`."""
    return open_stack(name, boto3.session.Session(), None)


def open_stack(name: str, session: boto3.session.Session, endpoint: str | None) -> Stack:
    """
    Return a stack, found by its name.

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
            f"stack {name!r} has no output {', '.join(missing)}: "
            "it is not a Stepbench stack, or of another version: deploy it again"
        )
        raise StackError(message)
    return Stack(
        name=name,
        endpoint=endpoint,
        outputs=outputs,
        aws=aws,
        runs=RunStore(aws("s3"), outputs[RESULTS_BUCKET]),
        table=TrialTable(table(session, outputs[RESULTS_TABLE], endpoint)),
        register=RunRegister(table(session, outputs[RUNS_TABLE], endpoint)),
    )


REGION = "us-east-1"
_CONFIG = Config(
    retries={"mode": "standard", "total_max_attempts": 3}, connect_timeout=5, read_timeout=20, max_pool_connections=8
)

_PATIENT = Config(retries={"total_max_attempts": 1}, connect_timeout=5, read_timeout=920, tcp_keepalive=True)
"""The client for functions that may take their 15 minutes: a retry would start them again."""


def emulator_session() -> boto3.session.Session:
    """Return a session that reads neither the user's profile nor credentials, nor the files that hold them."""
    nowhere = (None, None, os.devnull, None)  # neither a file's nor a variable's name, a default, no conversion
    own = botocore.session.get_session(
        {"profile": (None, None, None, None), "config_file": nowhere, "credentials_file": nowhere}
    )
    return boto3.session.Session(
        botocore_session=own,
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 -- the emulator takes anything
        region_name=REGION,
    )


def local_client(service: str, endpoint: str) -> Any:  # noqa: ANN401 -- boto3 clients have no common type
    """Return a client of the emulator."""
    return client(emulator_session(), service, endpoint)


def client(session: boto3.session.Session, service: str, endpoint: str | None) -> Any:  # noqa: ANN401 -- as above
    """
    Return a client with limits; without an endpoint, boto3 resolves it as always (AWS_ENDPOINT_URL included).

    Raises:
        PlanError: a variable or the profile that boto3 reads has a value that it cannot use.
    """
    config = _direct(_PATIENT if service == "lambda" else _CONFIG, endpoint)
    try:
        return bounded_client(session.client(service, endpoint_url=endpoint, config=config))  # type: ignore[call-overload]
    except ValueError as error:
        raise PlanError([_wrong_setting(str(error))]) from error


def _wrong_setting(said: str) -> Problem:
    """Find the variable whose value botocore's error repeats."""
    named = {name: value for name, value in os.environ.items() if name.startswith("AWS_") and value and value in said}
    name = next((each for each in named if "SECRET" not in each and "TOKEN" not in each), "")
    remedy = f"Correct {name or 'it'}, or unset it."
    return Problem(name or "AWS's configuration", named.get(name, "?"), f"cannot be used: {said}", remedy)


def table(session: boto3.session.Session, name: str, endpoint: str | None) -> Any:  # noqa: ANN401 -- as above
    """Return a DynamoDB table with the same time limits."""
    return dynamodb_table(session, name, _direct(_CONFIG, endpoint), endpoint)


def _direct(config: Config, endpoint: str | None) -> Config:
    """Bypass the user's proxy for an emulator, which is on loopback."""
    return config if endpoint is None else config.merge(Config(proxies={}))


TIMEOUT_S = 35
"""The API itself ends after 30 s."""
CONNECTIONS = 16


class Answer(NamedTuple):
    """What the API has answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Upstream:
    """The API of one stack. On an emulator it is at the emulator's address, under the name of its own."""

    def __init__(self, stack: Stack) -> None:
        self.url = stack.outputs.get(API_URL, "")
        if not self.url:
            message = f"stack {stack.name!r} has no output {API_URL}: deploy a version that has an HTTP API"
            raise StackError(message)
        self._session = emulator_session() if stack.endpoint else boto3.session.Session()
        endpoint = stack.endpoint or os.environ.get("AWS_ENDPOINT_URL", "")
        self._base = (endpoint or self.url).rstrip("/")
        self._host = _emulated_host(self.url, endpoint) if endpoint else urlsplit(self.url).netloc
        # An emulator is on loopback, which no proxy of the user's reaches.
        proxies: dict[str, str] = {} if endpoint else getproxies()
        session = URLLib3Session(timeout=TIMEOUT_S, max_pool_connections=CONNECTIONS, proxies=proxies)
        self._http = WholeSession(session, TIMEOUT_S)

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """
        Send a request.

        Raises:
            botocore.exceptions.BotoCoreError: nobody answers.
            StackError: there are no credentials to sign with.
        """
        credentials = self._session.get_credentials()
        if credentials is None:
            message = (
                "there are no AWS credentials to sign requests with; `aws configure` or `aws sso login` gives some"
            )
            raise StackError(message)
        parts = urlsplit(target)
        # A form's "+" for a space is one in no signature: both sides count what is spelt out.
        query = urlencode(parse_qsl(parts.query, keep_blank_values=True), quote_via=quote)
        url = f"{self._base}{parts.path}{f'?{query}' if query else ''}"
        request = AWSRequest(method=method, url=url, data=body, headers={**headers, "Host": self._host})
        region = self._session.region_name or "us-east-1"
        SigV4Auth(credentials.get_frozen_credentials(), "execute-api", region).add_auth(request)
        answer = self._http.send(request.prepare())
        return Answer(answer.status_code, answer.headers, answer.content)

    def check(self) -> None:
        """
        Ask for the first page.

        Raises:
            StackError: the API takes tokens, or does not know the caller's credentials.
        """
        status = self.send("GET", "/dashboard", {}, b"").status
        if status == 401:  # noqa: PLR2004 -- HTTP's
            message = f"this stack's API takes tokens (ApiAuthorization=jwt): open {self.url} in a browser"
            raise StackError(message)
        if status == 403:  # noqa: PLR2004 -- HTTP's
            message = f"{self.url} refuses your credentials, which need the right execute-api:Invoke on it"
            raise StackError(message)


def _emulated_host(url: str, endpoint: str) -> str:
    """Return the name under which emulators tell their APIs apart."""
    port = urlsplit(endpoint).port
    return f"{urlsplit(url).netloc.partition('.')[0]}.execute-api.localhost{f':{port}' if port else ''}"

"""The API in process: requests as API Gateway sends them, and what stands behind it in memory."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from botocore.exceptions import ClientError
from tests.samples.services import MemoryServices
from tests.support.fake_clock import FakeClock

from stepbench.api import app, datasets

if TYPE_CHECKING:
    from collections.abc import MutableMapping

MACHINE = "arn:aws:states:us-east-1:000000000000:stateMachine:stack-Benchmark"
ANNA, BERT = (f"arn:aws:sts::000000000000:assumed-role/{name}/session" for name in ("anna", "bert"))


@dataclass
class StepFunctions:
    """It notes executions that were started and stopped, as Step Functions knows them: by name and input."""

    started: dict[str, str] = field(default_factory=dict)
    stopped: list[str] = field(default_factory=list)
    refusal: str = ""
    """The code of the error with which it starts nothing."""

    def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> None:  # noqa: A002, N803 -- boto3's
        """Start an execution, or find it."""
        assert stateMachineArn == MACHINE
        if self.refusal:
            raise ClientError({"Error": {"Code": self.refusal, "Message": ""}}, "StartExecution")
        if self.started.setdefault(name, input) != input:
            raise ClientError({"Error": {"Code": "ExecutionAlreadyExists", "Message": ""}}, "StartExecution")

    def stop_execution(self, *, executionArn: str, **_: str) -> None:  # noqa: N803 -- boto3's
        """Stop an execution."""
        if executionArn.rpartition(":")[2] not in self.started:
            raise ClientError({"Error": {"Code": "ExecutionDoesNotExist", "Message": ""}}, "StopExecution")
        self.stopped.append(executionArn)


class S3:
    """It knows which documents a bucket has, and makes links."""

    objects: MutableMapping[str, bytes]

    def head_object(self, *, Bucket: str, Key: str) -> None:  # noqa: N803 -- boto3's
        """Find a document, or not."""
        assert Bucket
        if Key not in self.objects:
            raise ClientError({"Error": {"Code": "404", "Message": ""}}, "HeadObject")

    def generate_presigned_url(self, _operation: str, *, Params: dict[str, str], ExpiresIn: int) -> str:  # noqa: N803 -- boto3's
        """Return a link that shows what it is of."""
        signed = "".join(f"&{name}={value}" for name, value in Params.items() if name not in {"Bucket", "Key"})
        return f"https://bucket/{Params['Key']}?{ExpiresIn}{signed}"


@dataclass(frozen=True)
class Answer:
    """What the API answered; the body is decoded where it is JSON, and bytes where it is base64."""

    status: int
    body: Any
    headers: dict[str, str]


def _decoded(found: dict[str, Any]) -> Any:  # noqa: ANN401 -- JSON, a page, or bytes
    if found["isBase64Encoded"]:
        return base64.b64decode(found["body"])
    is_page = found["headers"].get("Content-Type", "").startswith("text/html")
    return found["body"] if is_page else json.loads(found["body"] or "null")


@dataclass
class Api:
    """The API, called by one role after another."""

    memory: MemoryServices
    machine: StepFunctions

    def call(self, method: str, path: str, body: Any = None, *, caller: str = ANNA, **more: Any) -> Answer:  # noqa: ANN401
        """Send a request; `query`, `headers` and `encoded` may be given."""
        found = self.answer(method, path, body, caller=caller, **more)
        return Answer(found["statusCode"], _decoded(found), found.get("headers", {}))

    def answer(self, method: str, path: str, body: Any = None, *, caller: str = ANNA, **more: Any) -> dict[str, Any]:  # noqa: ANN401
        """Return the function's answer as API Gateway gets it."""
        query, headers = more.get("query", {}), more.get("headers", {})
        text = body if isinstance(body, str) or body is None else json.dumps(body)
        http = {"method": method, "path": path, "sourceIp": "127.0.0.1", "userAgent": "test", "protocol": "HTTP/1.1"}
        context = {"http": http, "requestId": "request-1", "stage": "$default", "accountId": "000000000000"}
        if caller:
            context = {**context, "authorizer": {"iam": {"userArn": caller}}}
        event = {
            "version": "2.0",
            "routeKey": f"{method} {path}",
            "rawPath": path,
            "rawQueryString": urlencode(query, doseq=True),
            "queryStringParameters": {name: str(value) for name, value in query.items()},
            "headers": {"content-type": "application/json", **headers},
            "requestContext": context,
            "body": text,
            "isBase64Encoded": more.get("encoded", False),
        }
        lambda_context: Any = SimpleNamespace(aws_request_id="lambda-1", function_name="HttpApi")
        function = datasets if path.startswith("/datasets/") else app  # as the template's routes have it
        answer: dict[str, Any] = function.handle(event, lambda_context, self.memory.services)
        return answer


@pytest.fixture
def api() -> Api:
    """Return an API whose stack has S3 and etcd."""
    machine, documents = StepFunctions(), S3()
    memory = MemoryServices(FakeClock(), aws={"stepfunctions": machine, "s3": documents}, benchmark_arn=MACHINE)
    documents.objects = memory.bucket.objects
    return Api(memory, machine)

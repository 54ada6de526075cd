"""`CheckClock` in both roles, DynamoDB played by a server on loopback that answers what a test wants."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from pydantic import ValidationError
from tests.samples.lambda_api import LambdaApi, lambda_api
from tests.samples.records import REF, dynamodb_record
from tests.samples.services import MemoryServices

from stepbench.contracts.identity import EventId
from stepbench.model.request import Outcome
from stepbench.records.formats.t4_items import parse_item
from stepbench.records.storage.t4_store import T4Log, T4Store
from stepbench.stages.check_clock import Checker, check_clock
from stepbench.stages.receive_events import Receiver, Sandbox

if TYPE_CHECKING:
    from collections.abc import Iterator

T4_NS = 1_800_000_000_000_000_000
EVENT = EventId(REF.tag, 0, 0, 0, 0, 1)
WRITE = {"table": "target-1", "key": "k/", "value": 'v"é'}


def response(status: int, body: bytes) -> bytes:
    """Return an HTTP answer."""
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class Scene:
    """A checker, the server behind its writes, and the table behind its deliveries."""

    def __init__(self, server: LambdaApi) -> None:
        self.server = server
        client = boto3.client(
            "dynamodb",
            "us-east-1",
            endpoint_url=f"http://{server.endpoint}",
            aws_access_key_id="a",
            aws_secret_access_key="b",  # noqa: S106 -- none
        )
        self.memory = MemoryServices(aws={"dynamodb": client})
        services = self.memory.services
        store, log = T4Store(services.table, services.runs), T4Log(lambda _: None, print)
        self.checker = Checker(Receiver(store, log, Sandbox("sandbox-1", T4_NS, T4_NS)), services)

    def invoke(self, event: Any, request_id: str = "request-1") -> dict[str, Any]:  # noqa: ANN401 -- JSON
        """Invoke the function once."""
        return check_clock(event, T4_NS, request_id, self.checker)


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Yield a scene, closed at the end, so that no socket is left."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with lambda_api() as server:
        server.answer = lambda _: response(200, b"{}")
        made = Scene(server)
        try:
            yield made
        finally:
            made.checker.close()


def test_a_write_is_one_signed_put_with_the_sandboxs_own_times(scene: Scene) -> None:
    """The request is a writer's own driver's; t1 is before the server has it, t2 after."""
    told = scene.invoke(WRITE)
    (asked,) = scene.server.invocations
    assert asked.headers["x-amz-target"] == "DynamoDB_20120810.PutItem"
    assert "/us-east-1/dynamodb/aws4_request" in asked.headers["authorization"]
    assert json.loads(asked.body) == {"TableName": "target-1", "Item": {"pk": {"S": "k/"}, "value": {"S": 'v"é'}}}
    assert (told["sandbox"], told["outcome"], told["error"]) == ("sandbox-1", Outcome.OK, "")
    assert told["t1_ns"] <= asked.at_ns <= told["t2_ns"]


def test_a_deletion_is_one_too(scene: Scene) -> None:
    """Deletes are among the operations that a plan may ask for."""
    assert scene.invoke({**WRITE, "value": "", "delete": True})["outcome"] == Outcome.OK
    assert scene.server.invocations[0].headers["x-amz-target"] == "DynamoDB_20120810.DeleteItem"


def test_connections_are_kept_from_one_invocation_to_the_next(scene: Scene) -> None:
    """A handshake in every latency would be this function's own."""
    for _ in range(3):
        scene.invoke(WRITE)
    assert len({asked.connection for asked in scene.server.invocations}) == 1


def test_a_connection_that_ended_while_the_sandbox_stood_still_costs_no_write(scene: Scene) -> None:
    """The loop has not run since, and first has to hear of it."""
    scene.invoke(WRITE)
    scene.server.hang_up()
    assert scene.invoke(WRITE)["outcome"] == Outcome.OK


def test_a_refusal_is_told_with_its_code(scene: Scene) -> None:
    """Throttling at 100 write units is a result."""
    code = b'{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}'
    scene.server.answer = lambda _: response(400, code)
    told = scene.invoke(WRITE)
    assert (told["outcome"], told["error"]) == (Outcome.FAILED, "ProvisionedThroughputExceededException")


def test_a_write_without_an_answer_is_unknown(scene: Scene) -> None:
    """It may have happened."""
    scene.server.answer = lambda _: None
    assert scene.invoke(WRITE)["outcome"] == Outcome.UNKNOWN


def test_a_store_that_cannot_be_reached_has_certainly_not_been_written_to(scene: Scene) -> None:
    """The invocation says so, instead of failing as a whole."""
    scene.server.close()
    told = scene.invoke(WRITE)
    assert told["outcome"] == Outcome.FAILED
    assert "cannot be reached" in told["error"]


def test_a_delivery_is_recorded_under_the_same_sandbox(scene: Scene) -> None:
    """The id on both sides is the proof; the delivery after a write is no cold start."""
    wrote = scene.invoke(WRITE)["sandbox"]
    assert scene.invoke({"Records": [dynamodb_record(EVENT)]}, "request-2") == {"batchItemFailures": []}
    (item,) = map(parse_item, scene.memory.services.table.t4_items(REF.tag))
    assert (item.sandbox, item.cold, item.request_id) == (wrote, False, "request-2")
    assert item.entries["t4_ns"].tolist() == [T4_NS]


def test_what_is_neither_is_an_error(scene: Scene) -> None:
    """Nobody but a writer and a stream has a reason to invoke it."""
    with pytest.raises(ValidationError):
        scene.invoke({"table": "target-1"})
    assert scene.server.invocations == []

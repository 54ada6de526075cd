"""SameSandboxDriver: its writes against a Lambda API on loopback, its trigger against the emulator."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest
from tests.samples.lambda_api import LambdaApi, lambda_api
from tests.support.contracts.life import running
from tests.support.contracts.trigger_subject import contract_spec, contract_write

from stepbench.clock import AnchoredClock
from stepbench.drivers.dynamodb.trigger import SameSandboxDriver
from stepbench.errors import PlanError
from stepbench.experiments.registry import build_driver
from stepbench.model.pending import perform
from stepbench.model.request import Outcome
from stepbench.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from stepbench.model.request import Result
    from stepbench.services import Services

CHECKER = "arn:aws:lambda:us-east-1:000000000000:function:stepbench-CheckClock"
SPEC = contract_spec({"store": "dynamodb", "same_sandbox": True})
TOLD = {"sandbox": "sandbox-1", "t1_ns": 10, "t2_ns": 20, "outcome": 0, "error": ""}


def response(status: int, body: object, **headers: str) -> bytes:
    """Return an HTTP answer with a JSON body."""
    text = json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(text)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + text


class Scene:
    """An open driver and the API that it invokes."""

    def __init__(self, api: LambdaApi, driver: SameSandboxDriver) -> None:
        self.api = api
        self.driver = driver

    async def write(self, answer: bytes | None = None, sequence: int = 0) -> Result:
        """Write once, answered so; None hangs up."""
        self.api.answer = lambda _: answer
        return await perform(self.driver, contract_write(SPEC, sequence))


def settings(endpoint: str) -> Settings:
    """Return settings with everything of AWS at one address."""
    return Settings(
        results_table="r",
        results_bucket="r",
        target_table_prefix="t-",
        check_clock_function_arn=CHECKER,
        aws_endpoint_url=endpoint,
    )


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """Yield a driver that is open, with its API, and close it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with lambda_api() as api:
        driver = SameSandboxDriver(SPEC, settings(f"http://{api.endpoint}"), AnchoredClock(), answer_limit_s=3)
        await driver.open()
        try:
            yield Scene(api, driver)
        finally:
            await driver.close()


async def test_a_write_is_an_invocation_that_answers_with_its_own_times(scene: Scene) -> None:
    """Those of the invocation would measure Lambda."""
    written = await scene.write(response(200, TOLD))
    assert (written.t1_ns, written.t2_ns, written.outcome, written.token) == (10, 20, Outcome.OK, "sandbox-1")
    (asked,) = scene.api.invocations
    assert asked.path == "/2015-03-31/functions/stepbench-CheckClock/invocations"
    assert "/us-east-1/lambda/aws4_request" in asked.headers["authorization"]
    offered = contract_write(SPEC, 0)
    assert json.loads(asked.body) == {
        "table": f"t-{SPEC.tag}",
        "key": offered.key,
        "value": offered.value.decode(),
        "delete": False,
    }


async def test_what_the_store_said_to_the_sandbox_is_passed_on(scene: Scene) -> None:
    """A throttled write is DynamoDB's answer, not Lambda's."""
    written = await scene.write(response(200, {**TOLD, "outcome": 1, "error": "ThrottlingException"}))
    assert (written.outcome, written.error, written.t2_ns) == (Outcome.FAILED, "ThrottlingException", 20)


@pytest.mark.parametrize(
    ("answer", "outcome", "error"),
    [
        (
            response(429, {"Reason": "x"}, x_amzn_errortype="TooManyRequestsException:http://internal"),
            Outcome.FAILED,
            "TooManyRequestsException",
        ),
        (response(404, {"__type": "ResourceNotFoundException"}), Outcome.FAILED, "ResourceNotFoundException"),
        (response(500, {}), Outcome.UNKNOWN, "HTTP 500"),
        (response(202, {}), Outcome.UNKNOWN, "HTTP 202"),
        (
            response(200, {"errorType": "Sandbox.Timedout", "errorMessage": "m"}, x_amz_function_error="Unhandled"),
            Outcome.UNKNOWN,
            "Sandbox.Timedout",
        ),
        (response(200, "no object", x_amz_function_error="Unhandled"), Outcome.UNKNOWN, "function error"),
        (response(200, {"batchItemFailures": []}), Outcome.UNKNOWN, "garbage-answer"),
    ],
)
async def test_an_invocation_that_tells_nothing_of_a_write(
    scene: Scene, answer: bytes, outcome: Outcome, error: str
) -> None:
    """Refused before it began, nothing was written; after that nobody knows."""
    written = await scene.write(answer)
    assert (written.outcome, written.error, written.token) == (outcome, error, "")
    assert written.t2_ns >= written.t1_ns > 10**18


async def test_a_hang_up_and_a_time_out_are_unknown(scene: Scene) -> None:
    """The function may have written all the same; and the driver must come back."""
    assert (await scene.write(None)).outcome is Outcome.UNKNOWN
    # A head without its body: the answer never ends.
    stuck = await scene.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")
    assert (stuck.outcome, stuck.error) == (Outcome.UNKNOWN, "timeout")


async def test_writes_take_turns(scene: Scene) -> None:
    """The one sandbox would be refused to a second; each gets its own answer."""
    ended, most = 0, 0

    def answer(_: object) -> bytes:
        nonlocal ended, most
        most = max(most, len(scene.api.invocations) - ended)
        ended += 1
        return response(200, {**TOLD, "t2_ns": 20 + len(scene.api.invocations)})

    scene.api.answer = answer
    written = await asyncio.gather(*(perform(scene.driver, contract_write(SPEC, number)) for number in range(5)))
    assert [each.t2_ns for each in written] == [21, 22, 23, 24, 25]
    assert most == 1


def test_the_registry_gives_it_where_the_plan_asks_for_one_sandbox() -> None:
    """Everywhere else it gives DynamoDB's own."""
    driver = build_driver(SPEC, settings("http://127.0.0.1:9"), AnchoredClock())
    assert isinstance(driver, SameSandboxDriver)


def test_a_stack_without_the_function_refuses_the_plan() -> None:
    """It does so before anything is made."""
    without = settings("http://127.0.0.1:9").model_copy(update={"check_clock_function_arn": ""})
    with pytest.raises(PlanError, match="CHECK_CLOCK_FUNCTION_ARN"):
        SameSandboxDriver(SPEC, without, AnchoredClock())


@pytest.mark.emulator
async def test_the_stream_is_mapped_to_the_checker_and_torn_down(services: Services, receiver_arn: str) -> None:
    """`receiver_arn` stands for CheckClock; ReceiveEvents, were it mapped, would have other sandboxes."""
    own = services.settings.model_copy(update={"check_clock_function_arn": receiver_arn})
    client = services.aws("lambda")

    def mappings() -> list[str]:
        found = client.list_event_source_mappings(FunctionName=receiver_arn)["EventSourceMappings"]
        return [each["State"] for each in found if SPEC.tag in each["EventSourceArn"]]

    async with running(SameSandboxDriver(SPEC, own, AnchoredClock())) as driver:
        assert await asyncio.to_thread(mappings) == ["Enabled"]
        assert await driver.provider() == "MiniStack 1.5.33"
    assert await asyncio.to_thread(mappings) == []

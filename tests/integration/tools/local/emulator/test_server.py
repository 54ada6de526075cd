"""The emulator, as the embedded run starts it: what state machines and handlers may rely on."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.integration.tools.local.conftest import ROLE, Functions
from tests.support.listening import listening_addresses

from stepbench.errors import LocalEnvironmentError
from stepbench.records.formats.second_sources import ReportLine, parse_report
from stepbench_tools.local.emulator.server import answers, emulator_name, start_emulator
from stepbench_tools.local.paths import Paths
from stepbench_tools.local.processes import await_end, family, terminate, wait_until
from stepbench_tools.local.stack import local_client

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench_tools.local.emulator.server import Emulator

pytestmark = pytest.mark.emulator

RAISES = """
class TargetUnavailableError(Exception): pass
def handler(event, context): raise TargetUnavailableError("no store")
"""
WRITES_AND_RECEIVES = """
import boto3, time
table = boto3.client("dynamodb")
def handler(event, context):
    if "Records" not in event:
        table.put_item(TableName="checked", Item={"pk": {"S": "written"}})
        time.sleep(0.5)  # still busy when the stream has the record
    elif event["Records"][0]["dynamodb"]["Keys"]["pk"]["S"] == "written":
        table.put_item(TableName="checked", Item={"pk": {"S": "received"}})
"""
ANSWERS_PID = """
import os, time
def handler(event, context):
    time.sleep(0.02)
    return {"statusCode": 200, "body": str(os.getpid())}
"""
PID = "import os\ndef handler(event, context): return os.getpid()"
SLEEPS = "import time\ndef handler(event, context): time.sleep(event)"


@pytest.mark.skipif("LocalStack" in emulator_name(), reason="it has no API Gateway v2 (docs/emulators.md)")
def test_a_hundred_requests_that_find_an_api_cold_are_all_answered(functions: Functions, shimmed: Emulator) -> None:
    """By a few sandboxes, as a machine has processors: a hundred at once would all come too late."""
    function = functions.make("answers", ANSWERS_PID)
    gateway = local_client("apigatewayv2", shimmed.endpoint)
    api = gateway.create_api(Name="cold", ProtocolType="HTTP")["ApiId"]
    way = {"IntegrationType": "AWS_PROXY", "IntegrationUri": function, "PayloadFormatVersion": "2.0"}
    integration = gateway.create_integration(ApiId=api, **way)["IntegrationId"]
    gateway.create_route(ApiId=api, RouteKey="GET /", Target=f"integrations/{integration}")
    gateway.create_stage(ApiId=api, StageName="$default", AutoDeploy=True)

    def ask(_: int) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(shimmed.endpoint.removeprefix("http://"), timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", "/", headers={"Host": f"{api}.execute-api.localhost"})
            answer = connection.getresponse()
            return answer.status, answer.read()

    with ThreadPoolExecutor(100) as clients:
        answers = list(clients.map(ask, range(100)))
    assert {status for status, _ in answers} == {200}
    assert 1 <= len({pid for _, pid in answers}) <= max(2, os.cpu_count() or 2)


def test_an_exceptions_class_name_is_the_error_type(functions: Functions) -> None:
    """State machines match our errors by class name; stock MiniStack calls them all Runtime.HandlerError."""
    functions.make("raises", RAISES)
    error = functions.call("raises").error
    assert error is not None
    assert (error["errorType"], error["errorMessage"]) == ("TargetUnavailableError", "no store")


def test_an_exception_does_not_cost_the_sandbox(functions: Functions) -> None:
    """On AWS a sandbox outlives a handler's exception; a new one each time would be a cold start each time."""
    functions.make(
        "mixed", "import os\ndef handler(event, context):\n  if event: raise ValueError\n  return os.getpid()"
    )
    before = functions.call("mixed").body
    functions.call("mixed", 1)
    assert functions.call("mixed").body == before


def test_logs_have_what_lambda_reports(functions: Functions, shimmed: Emulator) -> None:
    """Its sandbox's first invocation is a cold start, the next is none; memory is the sandbox's own."""
    functions.make("reports", "def handler(event, context): print('hello')")
    functions.call("reports")
    functions.call("reports")
    logs = local_client("logs", shimmed.endpoint)

    def reports() -> list[ReportLine]:
        events = logs.filter_log_events(logGroupName="/aws/lambda/reports")["events"]
        return [found for found in (parse_report(event["message"]) for event in events) if found is not None]

    wait_until("both have reported", lambda: len(reports()) == 2, timeout_s=60)
    first, second = sorted(reports(), key=lambda report: report.init_ms is None)
    assert first.init_ms is not None
    assert second.init_ms is None
    assert first.max_memory_mb is not None
    assert 5 < first.max_memory_mb < 100


@pytest.mark.parametrize(
    ("source", "timeout_s", "error", "said"),
    [
        ("import os\ndef handler(event, context): os._exit(3)", 20, "Runtime.ExitError", ""),
        ("import time\ndef handler(event, context): time.sleep(60)", 1, "Sandbox.Timedout", ""),
        ("import stepbench\ndef handler(event, context): pass", 20, "Runtime.ImportModuleError", "stepbench"),
    ],
    ids=["exits", "sleeps", "imports"],
)
def test_what_goes_wrong_is_named_as_on_aws(
    functions: Functions, source: str, timeout_s: int, error: str, said: str
) -> None:
    """The state machines' retries name these; and what is not in a layer has to fail here as it would there."""
    functions.make(error.replace(".", "-"), source, Timeout=timeout_s)
    found = functions.call(error.replace(".", "-")).error
    assert found is not None
    assert found["errorType"] == error
    assert said in found["errorMessage"]


def test_the_last_layer_wins(functions: Functions) -> None:
    """Lambda unpacks layers over each other in their order."""
    layers = [functions.layer(f"layer-{n}", {"python/value.py": f"VALUE = {n}"}) for n in (1, 2)]
    functions.make("layered", "import value\ndef handler(event, context): return value.VALUE", Layers=layers)
    assert functions.call("layered").body == 2


def test_a_sandbox_sees_nothing_of_the_emulators_environment(functions: Functions, shimmed: Emulator) -> None:
    """Code that is not packaged or configured must fail here too: no path, profile or emulator settings."""
    functions.make(
        "environ",
        "import os\ndef handler(event, context): return dict(os.environ)",
        Environment={"Variables": {"GIVEN": "yes"}},
    )
    environ = functions.call("environ").body
    assert environ["GIVEN"] == "yes"
    assert environ["AWS_ENDPOINT_URL"] == shimmed.endpoint
    assert not {"LAMBDA_PYTHON", "GATEWAY_PORT", "SFN_WAIT_SCALE", "HOME", "VIRTUAL_ENV"} & environ.keys()
    assert set(environ["PYTHONPATH"].split(os.pathsep)) == {environ["LAMBDA_TASK_ROOT"]}


def test_every_socket_is_on_loopback(functions: Functions, shimmed: Emulator) -> None:
    """Nobody else on the network may reach a laptop's emulator, nor the Runtime API of its sandboxes."""
    functions.make("listens", PID)
    functions.call("listens")
    addresses = listening_addresses([shimmed.pid])
    assert len(addresses) >= 2  # the gateway, and one Runtime API server at least
    assert {address.rpartition(":")[0] for address in addresses} == {"127.0.0.1"}


def test_a_warm_sandbox_answers_without_a_stall(functions: Functions) -> None:
    """Nagle's algorithm against delayed ACK would add 40 ms to most triggers: no quarter of many would be quick."""
    functions.make("warm", PID)
    functions.call("warm")
    took_ms = list[float]()
    while len(took_ms) < 20 or (len(took_ms) < 200 and sorted(took_ms)[len(took_ms) // 4] >= 40):
        began_ns = time.perf_counter_ns()
        functions.call("warm")
        took_ms.append((time.perf_counter_ns() - began_ns) / 1e6)
    assert sorted(took_ms)[len(took_ms) // 4] < 40


def test_a_distributed_map_takes_its_concurrency_from_a_path(shimmed: Emulator) -> None:
    """The plan's max_concurrency reaches OfferLoad by MaxConcurrencyPath."""
    sfn = local_client("stepfunctions", shimmed.endpoint)
    processor = {
        "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
        "StartAt": "Done",
        "States": {"Done": {"Type": "Pass", "End": True}},
    }
    offer = {"Type": "Map", "MaxConcurrencyPath": "$.most", "ItemsPath": "$.items", "ItemProcessor": processor}
    machine = sfn.create_state_machine(
        name="path", roleArn=ROLE, definition=json.dumps({"StartAt": "M", "States": {"M": {**offer, "End": True}}})
    )["stateMachineArn"]
    execution = sfn.start_execution(stateMachineArn=machine, input=json.dumps({"most": 3, "items": [1, 2, 3, 4]}))
    arn = execution["executionArn"]
    wait_until("the map ends", lambda: _status(sfn, arn) == "SUCCEEDED", timeout_s=60)
    found = sfn.list_map_runs(executionArn=arn)["mapRuns"][0]["mapRunArn"]
    assert sfn.describe_map_run(mapRunArn=found)["maxConcurrency"] == 3


def _status(sfn: Any, arn: str) -> str:  # noqa: ANN401 -- a boto3 client
    return str(sfn.describe_execution(executionArn=arn)["status"])


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_no_sandbox_outlives_the_emulator(tmp_path: Path, paths: Paths, how: signal.Signals) -> None:
    """A writer in the middle of its load must not go on writing after `down`, or after a crash."""
    emulator = start_emulator(Paths(paths.root, tmp_path))
    try:
        busy = _busy_sandbox(emulator, Functions(emulator.endpoint))
        os.kill(emulator.pid, how)
        left = await_end([psutil.Process(emulator.pid), busy], 60)
    finally:
        terminate([emulator.pid])
    assert left == []


def _busy_sandbox(emulator: Emulator, functions: Functions) -> psutil.Process:
    functions.make("busy", SLEEPS, Timeout=60)
    functions.client.invoke(FunctionName="busy", InvocationType="Event", Payload=b"50")
    wait_until("a sandbox runs", lambda: len(family([emulator.pid])) > 1, timeout_s=60)
    return family([emulator.pid])[-1]


def test_two_homes_are_two_emulators(tmp_path: Path, paths: Paths) -> None:
    """A second run beside the first uses other ports, and neither sees the other."""
    first, second = (start_emulator(Paths(paths.root, tmp_path / name)) for name in ("a", "b"))
    try:
        assert first.endpoint != second.endpoint
        assert answers(first.endpoint)
        assert answers(second.endpoint)
    finally:
        terminate([first.pid, second.pid])


def test_an_emulator_that_cannot_start_says_why(tmp_path: Path) -> None:
    """A fresh clone without `make setup` must tell what to do, not time out."""
    with pytest.raises(LocalEnvironmentError, match="make setup"):
        start_emulator(Paths(tmp_path, tmp_path / "home"))


def test_a_proxy_of_the_user_s_is_passed_by(shimmed: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Companies set one for everything; asked for 127.0.0.1 it refuses, and `up` would wait for a minute and fail."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert answers(shimmed.endpoint)
    assert local_client("sts", shimmed.endpoint).get_caller_identity()["Account"]


def test_a_stream_waits_for_the_sandbox_that_still_writes(functions: Functions, shimmed: Emulator) -> None:
    """Throttled, the delivery would come a second later, in each event of a clock check; nothing is throttled."""
    arn = functions.make("checker", WRITES_AND_RECEIVES)
    functions.client.put_function_concurrency(FunctionName="checker", ReservedConcurrentExecutions=1)
    dynamodb = local_client("dynamodb", shimmed.endpoint)
    table = dynamodb.create_table(
        TableName="checked",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    )["TableDescription"]
    functions.client.create_event_source_mapping(
        EventSourceArn=table["LatestStreamArn"], FunctionName=arn, StartingPosition="TRIM_HORIZON"
    )
    assert functions.call("checker", {}).error is None

    def delivered() -> bool:
        return "Item" in dynamodb.get_item(TableName="checked", Key={"pk": {"S": "received"}})

    wait_until("the record is delivered", delivered, timeout_s=60)
    assert _throttled(shimmed, "checker") == 0


def test_a_template_reserves_a_functions_concurrency(functions: Functions, shimmed: Emulator) -> None:
    """AWS does so, too; what the template does not say is not reserved."""
    code = {"ZipFile": "def handler(event, context): pass"}
    common = {"Runtime": "python3.11", "Handler": "index.handler", "Role": ROLE, "Code": code}
    made = {
        name: {"Type": "AWS::Lambda::Function", "Properties": {**common, "FunctionName": name, **more}}
        for name, more in {"Alone": {"ReservedConcurrentExecutions": 1}, "Many": {}}.items()
    }
    cloudformation = local_client("cloudformation", shimmed.endpoint)
    cloudformation.create_stack(StackName="reserved", TemplateBody=json.dumps({"Resources": made}))
    cloudformation.get_waiter("stack_create_complete").wait(
        StackName="reserved", WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )
    assert functions.client.get_function_concurrency(FunctionName="Alone")["ReservedConcurrentExecutions"] == 1
    assert "ReservedConcurrentExecutions" not in functions.client.get_function_concurrency(FunctionName="Many")


def _throttled(emulator: Emulator, function: str) -> float:
    """Return how many invocations were refused in the last hour, by CloudWatch's count."""
    now = datetime.now(UTC)
    counted = local_client("cloudwatch", emulator.endpoint).get_metric_statistics(
        Namespace="AWS/Lambda",
        MetricName="Throttles",
        Dimensions=[{"Name": "FunctionName", "Value": function}],
        StartTime=now - timedelta(hours=1),
        EndTime=now + timedelta(minutes=1),
        Period=3_600,
        Statistics=["Sum"],
    )
    return sum(float(point["Sum"]) for point in counted["Datapoints"])

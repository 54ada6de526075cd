"""A function with the measuring layer does what it did, and its log group has the lines."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.tools.local.conftest import Functions
from tests.support.measuring_layer import build_layer, measured_lines, pack_layer, zipped

from stepbench_tools.local.emulator.server import ASYNC_RETRY, CHOICE, start_emulator
from stepbench_tools.local.processes import terminate, wait_until
from stepbench_tools.local.stack import local_client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench_tools.local.emulator.server import Emulator
    from stepbench_tools.local.paths import Paths

pytestmark = pytest.mark.emulator

TAG = "aaaaaaaaaa-0000"
MEASURED = {"Variables": {"AWS_LAMBDA_EXEC_WRAPPER": "/opt/stepbench-measure", "STEPBENCH_TRIAL": TAG}}
PYTHON = """
def handler(event, context):
    print("printed")
    if event == "fails": raise KeyError(event)
    return {"got": event}
"""

NODE = """
const main = async (event) => {
  console.log('printed');
  if (event === 'fails') throw new RangeError(event);
  return { got: event };
};
exports.handler = main;
exports.calling = (event, context, callback) => {
  setTimeout(() => main(event).then((result) => callback(null, result), callback), 5);
};
"""


class Measured:
    """Functions with the layer and without, on one emulator."""

    def __init__(self, endpoint: str, layer: bytes) -> None:
        self.functions = Functions(endpoint)
        self._logs = local_client("logs", endpoint)
        published = self.functions.client.publish_layer_version(LayerName="measuring", Content={"ZipFile": layer})
        self.layer_arn = str(published["LayerVersionArn"])

    def make(self, name: str, source: str, **settings: object) -> None:
        """Make a measured function."""
        self.functions.make(name, source, **{"Layers": [self.layer_arn], "Environment": MEASURED, **settings})

    def messages(self, name: str, until: str) -> list[str]:
        """Return what is in a function's log group, once a line with this text is."""

        def read() -> list[str]:
            try:
                events = self._logs.filter_log_events(logGroupName=f"/aws/lambda/{name}")["events"]
            except self._logs.exceptions.ResourceNotFoundException:
                return []  # the first invocation makes it
            return [event["message"].rstrip("\n") for event in events]

        wait_until("the log has its last line", lambda: any(until in line for line in read()), timeout_s=20)
        return read()


@pytest.fixture(scope="module")
def shimmed(paths: Paths) -> Iterator[Emulator]:
    """Start an emulator that tries asynchronous invocations again after a second, not a minute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ASYNC_RETRY, "1")
        emulator = start_emulator(paths)
    yield emulator
    terminate(emulator.pids)


@pytest.fixture(scope="module")
def measured(shimmed: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """Publish the layer as `sam build` makes it."""
    return Measured(shimmed.endpoint, pack_layer(build_layer(tmp_path_factory.mktemp("layer") / "built")))


def _without_place(body: Any) -> Any:  # noqa: ANN401 -- JSON
    """Leave out what differs between any two functions: request ids, and the folders of their code."""
    text = re.sub(r"/[^\s\"]*/(?=(module|a)\.)", "", json.dumps(body))
    return json.loads(text, object_hook=lambda held: {**held, "requestId": ""})


MODULE = NODE.replace("exports.handler = main", "export { main as handler }").replace("exports.", "export const ")
CASES: dict[str, dict[str, Any]] = {
    "python": {"Runtime": "python3.11", "Code": {"ZipFile": zipped({"module.py": PYTHON})}},
    "commonjs": {"Runtime": "nodejs20.x", "Code": {"ZipFile": zipped({"module.js": NODE})}},
    "callback": {"Runtime": "nodejs20.x", "Code": {"ZipFile": zipped({"a.js": NODE})}, "Handler": "a.calling"},
    "module": {"Runtime": "nodejs22.x", "Code": {"ZipFile": zipped({"module.mjs": MODULE})}},
}


@pytest.mark.parametrize("case", CASES)
def test_it_answers_as_without_the_layer_and_logs_both_stamps(measured: Measured, case: str) -> None:
    """The layer is in somebody's function: nothing but its lines may differ."""
    bare, name, error = f"bare-{case}", f"measured-{case}", "KeyError" if case == "python" else "RangeError"
    measured.functions.make(bare, "", **CASES[case])
    measured.make(name, "", **CASES[case])
    for event in ("works", "fails"):
        answers = [measured.functions.call(each, event) for each in (bare, name)]
        assert _without_place(answers[0]) == _without_place(answers[1])
    lines = measured_lines(measured.messages(name, f'"error":"{error}"'))
    assert [name for name, _ in lines] == ["stepbench.t4", "stepbench.t5"] * 2
    begun, ended = lines[0][1], lines[1][1]
    assert begun["trial"] == TAG
    assert begun["cold"]
    assert 0 < ended["t5"] - begun["t4"] < 1e9
    assert [fields["error"] for name, fields in lines if name == "stepbench.t5"] == ["", error]


@pytest.mark.parametrize(
    ("runtime", "handler"),
    [("python3.11", "missing.handler"), ("python3.11", "module.missing"), ("nodejs20.x", "missing.handler"),
        ("nodejs20.x", "module.missing")],
)  # fmt: skip
def test_a_handler_that_is_not_there_is_reported_as_without_the_layer(
    measured: Measured, runtime: str, handler: str
) -> None:
    """Who misspells a name has to read it in the message, and not the layer's."""
    code = {"ZipFile": zipped({"module.py": PYTHON, "module.js": NODE})}
    settings: dict[str, Any] = {"Runtime": runtime, "Handler": handler, "Code": code}
    name = f"{runtime.split('.', maxsplit=1)[0]}-{handler.replace('.', '-')}"
    measured.functions.make(f"bare-{name}", "", **settings)
    measured.make(f"measured-{name}", "", **settings)
    found = [measured.functions.call(f"{kind}-{name}").error or {} for kind in ("bare", "measured")]
    first, second = ((error["errorType"], error["errorMessage"]) for error in found)
    assert first == second
    assert first[0].startswith("Runtime.")


def test_what_a_module_raises_at_import_is_in_the_log(measured: Measured) -> None:
    """Its canaries never arrive, and the log is all that says why."""
    measured.make("broken", "raise OSError('no such table')")
    assert (measured.functions.call("broken").error or {})["errorType"] == "OSError"
    assert any("OSError" in line for line in measured.messages("broken", "REPORT"))


STREAM = """
import json
def handler(event, context):
    names = [record["dynamodb"]["Keys"]["name"]["S"] for record in event["Records"]]
    print("seen " + ",".join(names))
    if names and "poison" in names and MODE == "raise": raise ValueError("poison")
    failed = [r["dynamodb"]["SequenceNumber"] for r, name in zip(event["Records"], names) if name == "poison"]
    return {"batchItemFailures": [{"itemIdentifier": each} for each in failed]}
"""
NAMES = ["a", "b", "poison", "c"]


RETRIED: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "whole": ("raise", {}, ["a,b,poison,c"] * 2),
    "report": ("report", {"FunctionResponseTypes": ["ReportBatchItemFailures"]}, ["a,b,poison,c", "poison,c"]),
    "split": (
        *("raise", {"BisectBatchOnFunctionError": True}),
        ["a,b,poison,c", "a,b", "poison,c", "poison", "poison", "c"],
    ),
}
if os.environ.get(CHOICE) == "localstack":
    del RETRIED["split"]  # it splits no batch: docs/emulators.md


@pytest.mark.parametrize("case", RETRIED)
def test_a_streams_batch_is_tried_again_as_on_aws_and_given_up(
    measured: Measured, shimmed: Emulator, case: str
) -> None:
    """One poison record may not hold up a measured function for ever, and each kind of retry has its own order."""
    (mode, settings, seen), name = RETRIED[case], f"stream-{case}"
    clients = {each: local_client(each, shimmed.endpoint) for each in ("dynamodb", "sqs")}
    table = clients["dynamodb"].create_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": "name", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "name", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    )["TableDescription"]
    for each in NAMES:
        clients["dynamodb"].put_item(TableName=name, Item={"name": {"S": each}})
    queue = clients["sqs"].create_queue(QueueName=name)["QueueUrl"]
    attributes = clients["sqs"].get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
    measured.functions.make(name, f"MODE = {mode!r}\n{STREAM}")
    measured.functions.client.create_event_source_mapping(
        FunctionName=name,
        EventSourceArn=table["LatestStreamArn"],
        StartingPosition="TRIM_HORIZON",
        MaximumRetryAttempts=1,
        DestinationConfig={"OnFailure": {"Destination": attributes["QueueArn"]}},
        **settings,
    )
    found: list[Any] = []

    def is_given_up() -> bool:
        found.extend(clients["sqs"].receive_message(QueueUrl=queue, WaitTimeSeconds=0).get("Messages", []))
        return bool(found)

    wait_until("the batch is given up", is_given_up, timeout_s=20)
    messages = measured.messages(name, seen[-1])
    assert [line.removeprefix("seen ") for line in messages if line.startswith("seen ")] == seen
    assert json.loads(found[0]["Body"])["requestContext"]["condition"] == "RetryAttemptsExhausted"


def test_an_asynchronous_invocation_is_tried_again_as_often_as_it_may(measured: Measured) -> None:
    """S3 and PostgreSQL invoke so: what fails comes again after a while, and then no more."""
    measured.make("async", PYTHON)
    client = measured.functions.client
    client.put_function_event_invoke_config(FunctionName="async", MaximumRetryAttempts=1)
    client.invoke(FunctionName="async", InvocationType="Event", Payload=json.dumps("fails"))

    def begun() -> list[int]:
        lines = measured_lines(measured.messages("async", "stepbench.t4"))
        return [fields["t4"] for name, fields in lines if name == "stepbench.t5"]

    wait_until("it is tried again", lambda: len(begun()) == 2, timeout_s=20)
    first, second = begun()
    assert 1e9 <= second - first < 10e9

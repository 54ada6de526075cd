"""What the measuring layer writes, of Python and of Node.js, each in its own interpreter under the Runtime API."""

from __future__ import annotations

import ast
import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.records import REF, dynamodb_record, postgresql_delivery, s3_record
from tests.support.measuring_layer import BEGIN, SOURCE, build_layer, measured_lines, pack_layer
from tests.support.sandboxes import call, layer, new_sandbox, start

from stepbench.contracts.identity import EventId
from stepbench.records.formats.function_lines import Begin, End, Invocation, parse_line
from stepbench_tools.local.emulator.localstack.sandboxes import EXITED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stepbench_tools.local.emulator.localstack.sandboxes import Sandbox

PYTHON = """
import os, sys, time
from decimal import Decimal
RETURNED = {"set": {1}, "nested": {"at": object()}, "price": {"of": Decimal("1.5")}, "bytes": b"1"}
def handler(event, context):
    began = time.time_ns()
    if event == "raise": raise KeyError(event)
    if event == "exit": os._exit(3)
    if event == "hides": sys.stdout = sys.stderr = None
    if event == "context": return sorted(vars(context))
    if isinstance(event, dict) and event.get("changes"):
        for record in event["Records"]: record["dynamodb"].clear()
    if event == "name": return os.environ["_HANDLER"]
    if event == "part": print("part of a line", end="")
    if event == "tuple": return {"batchItemFailures": ({"itemIdentifier": "1"},)}
    if isinstance(event, str) and event in RETURNED: return RETURNED[event]
    if isinstance(event, dict) and event.get("fails"): return {"batchItemFailures": event["fails"]}
    return {"began": began, "ended": time.time_ns()}
"""
NODE = """
exports.handler = async (event, context) => {
  const began = Date.now();
  if (event === 'raise') throw new RangeError(event);
  if (event === 'exit') process.exit(3);
  if (event === 'hides') console.log = process.stdout.write = () => true;
  if (event === 'context') return Object.keys(context).sort();
  if (event?.changes) event.Records.forEach((record) => { delete record.dynamodb; });
  if (event === 'name') return process.env._HANDLER;
  if (event === 'part') process.stdout.write('part of a line');
  if (event === 'unnamed') throw Object.assign(new Error(event), { name: '' });
  if (event === 'frozen') throw Object.freeze(new RangeError(event));
  if (event === 'set') return { of: 1n };
  if (event === 'nested') return Object.assign(event = {}, { event });
  if (event === 'price') return { of: new Map() };
  if (event?.fails) return { batchItemFailures: event.fails };
  return { began: began * 1e6, ended: Date.now() * 1e6 };
};
exports.calling = (event, context, callback) => { setTimeout(() => callback(null, 'called'), 20); };
exports.silent = () => { setTimeout(() => {}, 20); };
exports.streaming = awslambda.streamifyResponse(async () => {});
"""
SOURCES = {"python3.11": {"module.py": PYTHON}, "nodejs20.x": {"module.js": NODE}}
RAISES = {"python3.11": "KeyError", "nodejs20.x": "RangeError"}
EVENT = EventId(REF.tag, 1, 2, 0, 0, 7)


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Build the layer once."""
    return pack_layer(build_layer(tmp_path_factory.mktemp("layer") / "built"))


@pytest.fixture
def measured(archive: bytes, tmp_path: Path) -> Iterator[Callable[..., Sandbox]]:
    """Return what starts a sandbox of a measured function."""
    opened: list[Sandbox] = []

    def make(runtime: str, handler: str = "module.handler", **variables: str) -> Sandbox:
        sandbox = new_sandbox(
            tmp_path / f"code-{len(opened)}",
            SOURCES["nodejs20.x" if runtime.startswith("nodejs") else runtime],
            tmp_path / "layers",
            runtime=runtime,
            layers=[layer(archive)],
        )
        opened.append(sandbox)
        wrapper = {"AWS_LAMBDA_EXEC_WRAPPER": "/opt/stepbench-measure", "STEPBENCH_TRIAL": REF.tag}
        return start(sandbox, **{"_HANDLER": handler, **wrapper, **variables})

    yield make
    for sandbox in opened:
        sandbox.stop()


def lines_of(result: Any) -> list[tuple[str, dict[str, Any]]]:  # noqa: ANN401 -- LocalStack's result
    """Return the layer's lines of an invocation, each of which the ingest reads, too."""
    messages = result.logs.split("\n")
    found = measured_lines(messages)
    assert all(parse_line(message) for message in messages if BEGIN in message)
    return found


@pytest.mark.parametrize("runtime", SOURCES)
def test_both_stamps_lie_around_the_handlers_own(measured: Callable[..., Sandbox], runtime: str) -> None:
    """That is what they are for; the first invocation of a new sandbox is cold, and no other."""
    sandbox = measured(runtime)
    for cold in (True, False):
        before_ns = time.time_ns()
        result, own = call(sandbox, {})
        (_, begun), (_, ended) = lines_of(result)
        slack_ns = 1_000_000 if runtime.startswith("nodejs") else 0  # its own stamps are milliseconds, cut
        assert before_ns < begun["t4"] <= own["began"] + slack_ns
        assert own["ended"] <= ended["t5"] < time.time_ns()
        assert begun["cold"] is cold
        assert begun["init_ns"] > 0
        assert re.fullmatch("[0-9a-f]{12}", begun["sandbox"])
        assert (begun["trial"], begun["request"], ended["t4"]) == (REF.tag, "r-1", begun["t4"])
        assert begun["t4"] < ended["called"] <= ended["t5"]


@pytest.mark.parametrize("runtime", SOURCES)
def test_an_error_is_the_functions_own_and_its_traceback_has_no_frame_of_the_layer(
    measured: Callable[..., Sandbox], runtime: str
) -> None:
    """Who reads the trace of the copy has to find their own line first."""
    result, body = call(measured(runtime), "raise")
    assert result.is_error
    assert body["errorType"] == RAISES[runtime]
    assert "measuring" not in json.dumps(body)
    assert [fields["error"] for name, fields in lines_of(result) if name == "stepbench.t5"] == [RAISES[runtime]]


@pytest.mark.parametrize(("event", "error"), [("unnamed", "Error"), ("frozen", "RangeError")])
def test_an_error_without_a_name_is_one_and_so_is_one_that_cannot_be_changed(
    measured: Callable[..., Sandbox], event: str, error: str
) -> None:
    """An empty name would be that of no error; a stack that cannot be written keeps its frames."""
    result, _ = call(measured("nodejs20.x"), event)
    assert result.is_error
    assert lines_of(result)[1][1]["error"] == error


@pytest.mark.parametrize("runtime", SOURCES)
def test_a_part_of_a_line_hides_none_of_the_layers(measured: Callable[..., Sandbox], runtime: str) -> None:
    """Progress bars print so; the event would count as failed, and the next one's first line would be missing."""
    names = [name for name, _ in lines_of(call(measured(runtime), "part")[0])]
    assert names == ["stepbench.t4", "stepbench.t5"]


@pytest.mark.parametrize(
    ("runtime", "event", "error"),
    [
        *[("python3.11", event, "Runtime.MarshalError") for event in ("set", "nested")],
        *[("nodejs20.x", event, "Runtime.JSONStringifyError") for event in ("set", "nested")],
        *[(runtime, "price", "") for runtime in SOURCES],
        ("python3.11", "bytes", ""),
    ],
)
def test_a_result_that_the_runtime_cannot_encode_is_the_error_that_it_reports(
    measured: Callable[..., Sandbox], runtime: str, event: str, error: str
) -> None:
    """Lambda tries such an event again. The runtime takes more than a JSON library does: decimals, for one."""
    result, body = call(measured(runtime), event)
    assert result.is_error is bool(error)
    assert not error or body["errorType"] == error
    assert [fields["error"] for name, fields in lines_of(result) if name == "stepbench.t5"] == [error]


@pytest.mark.parametrize("runtime", SOURCES)
def test_one_that_never_ends_has_its_first_line(measured: Callable[..., Sandbox], runtime: str) -> None:
    """So it counts as arrived, and as not processed."""
    result, body = call(measured(runtime), "exit")
    assert body["errorType"] == EXITED
    assert [name for name, _ in lines_of(result)] == ["stepbench.t4"]


@pytest.mark.parametrize("runtime", SOURCES)
def test_the_function_sees_its_own_handler_and_context_and_may_take_the_output(
    measured: Callable[..., Sandbox], runtime: str
) -> None:
    """Libraries read the handler's name; a logger may have replaced the output."""
    sandbox = measured(runtime)
    assert call(sandbox, "name")[1] == "module.handler"
    assert not any("measur" in name or "stepbench" in name for name in call(sandbox, "context")[1])
    assert len(lines_of(call(sandbox, "hides")[0])) == 2


@pytest.mark.parametrize("runtime", SOURCES)
def test_records_have_identities_and_nothing_of_the_content(measured: Callable[..., Sandbox], runtime: str) -> None:
    """Rows are the user's; of an object, a key is known."""
    sandbox = measured(runtime, STEPBENCH_IDENTITY="value")
    change = dynamodb_record(EVENT, sequence="123", at_s=1_700_000_000)
    change["dynamodb"]["NewImage"]["value"]["S"] += "secret"
    change["dynamodb"]["NewImage"]["card"] = {"S": "4711"}
    stored = s3_record(f"{EVENT.text()}-key")
    stored["s3"]["object"]["versionId"] = None
    row = {**postgresql_delivery(EVENT), "card": "4711"}
    found = [lines_of(call(sandbox, event)[0])[0][1] for event in ({"Records": [change]}, {"Records": [stored]}, row)]
    keys = [next(iter(value.values())) for value in change["dynamodb"]["Keys"].values()]
    assert found[0]["records"] == [["INSERT", keys, EVENT.text(), 1_700_000_000, "123"]]
    assert found[1]["records"] == [[stored["s3"]["object"]["key"], stored["eventName"], stored["eventTime"], ""]]
    assert found[2]["records"] == [[row["event"], row["t3_us"]]]
    assert [each["source"] for each in found] == ["aws:dynamodb", "aws:s3", "stepbench:postgresql"]


@pytest.mark.parametrize("runtime", SOURCES)
def test_a_handler_may_change_what_it_was_given(measured: Callable[..., Sandbox], runtime: str) -> None:
    """A large batch is written after the handler; many handlers turn its records into their own on the spot."""
    records = [dynamodb_record(EVENT, sequence=str(number)) for number in range(20)]
    result, _ = call(measured(runtime, STEPBENCH_IDENTITY="value"), {"Records": records, "changes": True})
    written = [record for _, fields in lines_of(result) for record in fields.get("records", ())]
    assert [record[2:5:2] for record in written] == [[EVENT.text(), str(number)] for number in range(20)]


@pytest.mark.parametrize("runtime", SOURCES)
@pytest.mark.parametrize("number", [16, 17, 1_201])
def test_a_batch_is_written_whole_in_bounded_lines(measured: Callable[..., Sandbox], runtime: str, number: int) -> None:
    """A few before the handler; many after it, since to write them takes longer; CloudWatch takes 256 kB a line."""
    records = [dynamodb_record(EVENT._replace(sequence=each), sequence=str(each), at_s=1) for each in range(number)]
    result, _ = call(measured(runtime, STEPBENCH_IDENTITY="value"), {"Records": records})
    invocation = Invocation()
    for message in result.logs.splitlines():
        if line := parse_line(message):
            assert len(message) < 256_000
            invocation = invocation.with_line(line)
    assert invocation.whole
    assert [record[4] for record in invocation.records] == [str(each) for each in range(number)]
    assert isinstance(invocation.begin, Begin)
    assert bool(invocation.begin.records) is (number == 16)


@pytest.mark.parametrize("runtime", SOURCES)
@pytest.mark.parametrize(
    ("fails", "failed"),
    [([{"itemIdentifier": "1"}], ("1",)), ([{"itemIdentifier": None}], ("",)), ([{}], ("",)), (["1"], ("",))],
)
def test_a_partial_response_is_written_as_it_counts(
    measured: Callable[..., Sandbox], runtime: str, fails: list[object], failed: tuple[str, ...]
) -> None:
    """AWS delivers a whole batch again whose response names no record."""
    result, body = call(measured(runtime), {"fails": fails})
    assert body == {"batchItemFailures": fails}
    end = parse_line(next(text for text in result.logs.splitlines() if "stepbench.t5" in text))
    assert isinstance(end, End)
    assert end.failed == failed


def test_a_partial_response_may_be_a_tuple(measured: Callable[..., Sandbox]) -> None:
    """As JSON it is the same."""
    result, body = call(measured("python3.11"), "tuple")
    assert body == {"batchItemFailures": [{"itemIdentifier": "1"}]}
    assert lines_of(result)[1][1]["failed"] == ["1"]


@pytest.mark.parametrize(("handler", "answer"), [("module.calling", "called"), ("module.silent", None)])
def test_a_callback_ends_a_handler_and_so_does_an_empty_event_loop(
    measured: Callable[..., Sandbox], handler: str, answer: str | None
) -> None:
    """As Lambda has it until Node.js 22; both take the 20 ms of a timer."""
    sandbox = measured("nodejs20.x", handler)
    for _ in range(2):
        result, body = call(sandbox, {})
        assert body == answer
        (_, begun), (_, ended) = lines_of(result)
        assert ended["t5"] - begun["t4"] >= 19_000_000


@pytest.mark.parametrize(
    ("runtime", "handler", "kind"),
    [
        ("nodejs24.x", "module.calling", "Runtime.CallbackHandlerDeprecated"),
        ("nodejs20.x", "module.streaming", "Runtime.MalformedStreamingHandler"),
    ],
)
def test_the_runtime_sees_what_kind_of_handler_it_is(
    measured: Callable[..., Sandbox], runtime: str, handler: str, kind: str
) -> None:
    """From 24 on Node.js has no callbacks; one that streams is left as it is, and nothing here streams."""
    _, said = call(measured(runtime, handler), {})
    assert said["errorType"] == kind


def test_python_is_written_for_the_oldest_runtime() -> None:
    """A measured function may have Python 3.9, which no test here runs."""
    for path in (SOURCE / "python").rglob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 9))

"""LocalStack's sandboxes as processes, under AWS's own runtime client; LocalStack's classes are stand-ins."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.support.measuring_layer import zipped
from tests.support.sandboxes import call, layer, new_sandbox, start

from stepbench_tools.local.emulator.localstack import sandboxes
from stepbench_tools.local.emulator.localstack.sandboxes import EXITED, TIMED_OUT, Sandbox
from stepbench_tools.local.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HANDLER = """
import json, os, time
print("imported")
def handler(event, context):
    print("called with", event)
    if event == "exit": os._exit(3)
    if event == "raise": raise KeyError("u")
    if event == "sleep": time.sleep(30)
    return {"pid": os.getpid(), "id": context.aws_request_id, "environ": dict(os.environ)}
"""


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., Sandbox]]:
    """Return what makes a sandbox of a module; all are stopped at the end."""
    opened: list[Sandbox] = []

    def make(source: str = HANDLER, **config: Any) -> Sandbox:  # noqa: ANN401 -- LocalStack's configuration
        folder = tmp_path / f"code-{len(opened)}"
        opened.append(new_sandbox(folder, {"module.py": source}, tmp_path / "layers", **config))
        return opened[-1]

    yield make
    for sandbox in opened:
        sandbox.stop()


def test_invocations_share_a_sandbox_whose_environment_is_lambdas(
    made: Callable[..., Sandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of LocalStack's or ours leaks, traces are not sampled, and numbers come as text."""
    monkeypatch.setenv("VIRTUAL_ENV", "/ours")
    sandbox = start(made(), LOCALSTACK_RUNTIME_ID="x", EDGE_PORT="1", AWS_LAMBDA_FUNCTION_MEMORY_SIZE=512)
    _, first = call(sandbox, 1)
    result, second = call(sandbox, 2, "r-2")
    assert (second["pid"], second["id"], result.is_error) == (first["pid"], "r-2", False)
    environ = second["environ"]
    assert not {"VIRTUAL_ENV", "LOCALSTACK_RUNTIME_ID", "EDGE_PORT", "HOME"} & environ.keys()
    assert environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] == "512"
    assert environ["_X_AMZN_TRACE_ID"].endswith("Sampled=0")


def test_an_invocations_log_is_what_lambda_writes(made: Callable[..., Sandbox]) -> None:
    """What was printed at import belongs to the first, with its Init Duration; nothing comes twice."""
    sandbox = start(made())
    first, second = (call(sandbox, number, f"r-{number}")[0].logs.splitlines() for number in (1, 2))
    assert first[:4] == ["START RequestId: r-1 Version: $LATEST", "imported", "called with 1", "END RequestId: r-1"]
    assert first[4].startswith("REPORT RequestId: r-1\tDuration: ")
    assert "Memory Size: 512 MB" in first[4]
    assert "Init Duration: " in first[4]
    assert second[:3] == ["START RequestId: r-2 Version: $LATEST", "called with 2", "END RequestId: r-2"]
    assert "Init Duration" not in second[3]


def test_a_function_that_logs_as_json_has_lambdas_lines_as_json(made: Callable[..., Sandbox]) -> None:
    """They have their own times, which begin after the sandbox is there, and how the invocation ended."""
    sandbox = start(made(logging_config={"LogFormat": "JSON"}))
    begun_ms = time.time_ns() // 1_000_000
    first, failed = (call(sandbox, event, f"r-{event}")[0].logs.splitlines() for event in (1, "raise"))
    began, report = (json.loads(first[place]) for place in (0, -1))
    assert (began["type"], began["record"]["requestId"]) == ("platform.start", "r-1")
    assert first[1:3] == ["imported", "called with 1"]
    assert report["record"]["status"] == "success"
    assert report["record"]["metrics"]["initDurationMs"] > 0
    assert datetime.fromisoformat(began["time"]).timestamp() * 1e3 >= begun_ms
    assert json.loads(failed[-1])["record"]["errorType"] == "KeyError"


@pytest.mark.parametrize(
    ("event", "kind", "survives"), [("raise", "KeyError", True), ("exit", EXITED, False), ("sleep", TIMED_OUT, False)]
)
def test_what_goes_wrong_is_named_and_the_next_invocation_is_served(
    made: Callable[..., Sandbox], event: str, kind: str, *, survives: bool
) -> None:
    """An exception costs no sandbox; an exit and a time-out do, and the next invocation is a cold start."""
    sandbox = start(made(timeout=2 if kind == TIMED_OUT else 60))
    _, before = call(sandbox, 1)
    result, said = call(sandbox, event)
    assert (said["errorType"], result.is_error) == (kind, True)
    again, after = call(sandbox, 2)
    assert (after["pid"] == before["pid"]) == survives
    assert ("Init Duration" in again.logs) == (not survives)
    assert psutil.pid_exists(before["pid"]) == survives


def test_an_error_at_import_is_lambdas_own(made: Callable[..., Sandbox]) -> None:
    """What is not in a layer has to fail here as it does there, and what it printed is in the log; each time."""
    sandbox = start(made("print('here')\nimport not_packaged\ndef handler(event, context): pass"))
    for event in (1, 2):
        result, said = call(sandbox, event)
        assert (result.is_error, said["errorType"]) == (True, "Runtime.ImportModuleError")
        assert "not_packaged" in said["errorMessage"]
        assert "here" in result.logs.splitlines()
        assert "REPORT RequestId" in result.logs


def test_one_that_exits_while_it_is_imported_cannot_start(made: Callable[..., Sandbox]) -> None:
    """Nobody waits for it."""
    _, said = call(start(made("import os\nos._exit(3)")), 1)
    assert said["errorType"] == EXITED


def test_one_that_does_not_get_through_its_imports_is_ended(
    made: Callable[..., Sandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise whoever invokes it waits for ever."""
    monkeypatch.setattr(sandboxes, "START_LIMIT_S", 1.0)
    _, said = call(start(made("import time\ntime.sleep(60)")), 1)
    assert said["errorType"] == TIMED_OUT


def test_a_layer_is_fetched_once_and_can_be_imported(made: Callable[..., Sandbox]) -> None:
    """By all sandboxes of all functions."""
    published = layer(zipped({"python/from_layer.py": "VALUE = 1"}))
    sandbox = start(made("import from_layer\ndef handler(e, c): return from_layer.VALUE", layers=[published]))
    assert call(sandbox, None)[1] == 1
    assert published.code.downloads == ["layer"]


def test_an_invocation_ends_with_the_sandbox_that_is_stopped_under_it(made: Callable[..., Sandbox]) -> None:
    """LocalStack waits for its result, as of one that died."""
    sandbox = start(made())
    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(call, sandbox, "sleep")
        output = sandbox._output.fileno()
        wait_until("it is under way", lambda: b"called with sleep" in os.pread(output, 1_000, 0), timeout_s=20)
        sandbox.stop()
        result, said = called.result(timeout=20)
    assert (said["errorType"], result.is_error) == (EXITED, True)
    assert said["errorMessage"].endswith("signal: SIGKILL")


def test_a_stopped_sandbox_leaves_no_process(made: Callable[..., Sandbox]) -> None:
    """Also when LocalStack stops it twice."""
    sandbox = start(made())
    pid = call(sandbox, 1)[1]["pid"]
    sandbox.stop()
    sandbox.stop()
    assert not psutil.pid_exists(pid)

"""Sandboxes under the runtime client, on stand-ins for MiniStack's modules, which has an environment of its own."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from stepbench.records.formats.second_sources import parse_report
from stepbench_tools.local.emulator import lambda_parts
from stepbench_tools.local.emulator.ministack import sandboxes

if TYPE_CHECKING:
    from collections.abc import Iterator


class ProvidedWorker:
    """The worker has as much of MiniStack's as we override."""

    _init_error: object = None
    _proc: object = None

    def __init__(self) -> None:
        self.config = {"MemorySize": 256}
        self._stderr_queue: queue.Queue[str] = queue.Queue(maxsize=3)

    def _spawn(self) -> None:
        """Start nothing."""

    def _drain_stderr(self) -> str:
        return "\n".join(self._stderr_queue.get_nowait() for _ in range(self._stderr_queue.qsize()))

    def _build_handler_class(self, generation: int, pending: object) -> type:
        return type("Handler", (), {"generation": generation, "pending": pending})

    def _await_init(self, _timeout: float | None) -> None:
        message = "init error"
        raise RuntimeError(message)

    def invoke(self, event: object, request_id: str, **options: object) -> dict[str, object]:
        """Answer with what came; the first event starts a process."""
        if event == "first":
            self._spawn()
        return {"status": "ok", "result": (event, request_id, options), "log": "printed\n"}


class InitFailedError(RuntimeError):
    """The error stands in for MiniStack's ProvidedRuntimeError."""

    def __init__(self, message: str, error_type: str) -> None:
        super().__init__(message)
        self.error_type = error_type


def lambda_service(tmp_path: Path) -> SimpleNamespace:
    """Return what stands in for MiniStack's `lambda_svc`; layers are their own unpacked folder's name."""
    return SimpleNamespace(
        _provided_code_lock=threading.Lock(),
        _provided_runtime_code_dir=lambda _zip: str(tmp_path),
        _provided_worker_env=lambda config, _directory, _port: {
            **os.environ,
            "_HANDLER": config["Handler"],
            "AWS_SESSION_TOKEN": "",
        },
        _runtime_env_vars=lambda config: config["Environment"]["Variables"],
        _resolve_layer_zip=lambda layer: layer.get("zip"),
        _docker_extracted_dir=lambda blob, kind: str(tmp_path / f"{kind}-{blob}"),
        _execute_function_warm=lambda _function, _event, _request: "stock",
        _execute_function_provided_warm=lambda _function, _event, _request: {"body": "runtime client"},
    )


def test_functions_of_python_and_nodejs_go_to_the_runtime_client_and_others_do_not(tmp_path: Path) -> None:
    """A custom runtime beside ours has to work as before."""
    service = lambda_service(tmp_path)
    runtime = SimpleNamespace(
        ProvidedWorker=ProvidedWorker, ProvidedRuntimeError=InitFailedError, _worker_class_for=lambda _config: "stock"
    )
    sandboxes.run_under_runtime_client(runtime, service, "/usr/bin/python", lambda_parts, None)
    ours, other = {"Runtime": "python3.11"}, {"Runtime": "provided.al2023"}
    assert issubclass(runtime._worker_class_for(ours), ProvidedWorker)
    assert issubclass(runtime._worker_class_for({"Runtime": "nodejs22.x"}), ProvidedWorker)
    assert runtime._worker_class_for(other) == "stock"
    answer = service._execute_function_warm({"config": ours}, {}, "r")
    assert answer == {"body": "runtime client", "log_source": sandboxes.WHOLE}
    assert service._execute_function_warm(other, {}, "r") == "stock"


def test_the_bootstrap_runs_the_sandbox_with_lambdas_interpreter(tmp_path: Path) -> None:
    """A path with a blank in it must survive the shell; a bootstrap that came with the code stays."""
    make = sandboxes.with_bootstrap(lambda_service(tmp_path), "/opt/my python/bin/python")
    make(b"zip")
    bootstrap = tmp_path / "bootstrap"
    assert "exec '/opt/my python/bin/python' -P " in bootstrap.read_text()
    assert os.access(bootstrap, os.X_OK)
    bootstrap.write_text("own")
    make(b"zip")
    assert bootstrap.read_text() == "own"


def test_a_sandboxs_environment_is_lambdas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function's own variables may not override Lambda's, and ours do not leak."""
    monkeypatch.setenv("VIRTUAL_ENV", "/ours")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    environment = sandboxes.sandbox_environment(lambda_service(tmp_path), lambda_parts, None)
    config = {
        "Runtime": "python3.12",
        "FunctionName": "f",
        "Handler": "h.handler",
        "Environment": {"Variables": {"MINE": "1", "NUMBER": 0, "_HANDLER": "stolen"}},
        "Layers": [],
    }
    made = environment(config, "/code", 1)
    assert (made["MINE"], made["NUMBER"]) == ("1", "0")  # CloudFormation makes text of a template's numbers
    assert made["_HANDLER"] == "h.handler"
    assert made["TZ"] == ":UTC"
    assert made["PATH"].startswith("/var/lang/bin:")
    assert Path(made["TMPDIR"]).is_dir()
    assert made["AWS_LAMBDA_LOG_GROUP_NAME"] == "/aws/lambda/f"
    assert made["PYTHONPATH"] == "/code"
    assert not {"VIRTUAL_ENV", "AWS_SESSION_TOKEN"} & made.keys()


def test_another_runtimes_environment_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A custom runtime brings its own client."""
    monkeypatch.setenv("VIRTUAL_ENV", "/ours")
    environment = sandboxes.sandbox_environment(lambda_service(tmp_path), lambda_parts, None)
    assert environment({"Runtime": "provided.al2023", "Handler": "h"}, "/code", 1)["VIRTUAL_ENV"] == "/ours"


def test_a_layer_that_is_gone_is_left_out(tmp_path: Path) -> None:
    """The others are where they were unpacked."""
    config = {"Layers": [{"zip": "a"}, {"zip": None}, {"zip": "b"}]}
    found = sandboxes.layer_folders(lambda_service(tmp_path), config)
    assert found == [tmp_path / "layer-a", tmp_path / "layer-b"]
    assert sandboxes.layer_folders(lambda_service(tmp_path), {"Layers": None}) == []


def test_a_sandbox_does_not_wait_for_logs_or_nagle() -> None:
    """Both would be in every latency."""
    sandbox = sandboxes.sandbox_class(ProvidedWorker, InitFailedError, lambda_parts)()
    assert sandbox._drain_stderr_bounded(first_line_wait=0.1) == ""
    handler = sandbox._build_handler_class(3, "queue")
    assert (handler.generation, handler.disable_nagle_algorithm, handler.wbufsize) == (3, True, 65_536)
    answer = sandbox.invoke("e", "r", trace_id="t", depth=1, durable={})
    assert answer["result"] == ("e", "r", {"trace_id": "t"})


def test_who_waits_for_work_looks_less_often_whether_it_goes_on() -> None:
    """Work comes at once, and none is none."""
    waited: list[float] = []

    class Pending(queue.Queue[str]):
        def get(self, block: bool = True, timeout: float | None = None) -> str:  # noqa: FBT001, FBT002 -- the queue's
            waited.append(timeout or 0)
            return super().get(block, 0)

    pending = Pending()
    patient = sandboxes.sandbox_class(ProvidedWorker, InitFailedError, lambda_parts)()._build_handler_class(3, pending)
    pending.put("work")
    assert patient.pending.get(timeout=0.1) == "work"
    with pytest.raises(queue.Empty):
        patient.pending.get(timeout=0.1)
    assert waited == [1, 1]


@contextmanager
def printing(program: str) -> Iterator[Any]:
    """Yield a sandbox whose process has printed, and waits; nobody has read that."""
    sandbox = sandboxes.sandbox_class(ProvidedWorker, InitFailedError, lambda_parts)()
    wait = "; print('!', file=sys.stderr, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", f"import sys; {program}{wait}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"!\n"
        sandbox._spawn()
        sandbox._proc = process
        yield sandbox


@pytest.mark.parametrize("reader_is_late", [False, True])
def test_what_an_invocation_has_printed_is_in_its_own_log(*, reader_is_late: bool) -> None:
    """A busy machine's reading thread comes after the response, and the lines of a last invocation were lost."""
    with printing("sys.stdout.write('first\\nsecond\\nbegun'); sys.stdout.flush()") as sandbox:
        pipe = sandbox._proc.stdout
        reader = threading.Thread(target=sandbox._pump_output, args=(pipe, sandbox._stderr_queue))
        if not reader_is_late:
            reader.start()
        assert sandbox._drain_stderr_bounded() == "first\nsecond"
        if reader_is_late:
            reader.start()
        sandbox._proc.stdin.close()
        reader.join(timeout=30)
        assert pipe.closed
        assert sandbox._drain_stderr_bounded() == "begun"  # what never became a line is told at the end


def test_a_log_that_is_too_long_has_its_last_lines() -> None:
    """As MiniStack has it: who prints never waits."""
    with printing("print(*range(9), sep='\\n', flush=True)") as sandbox:
        assert sandbox._drain_stderr_bounded() == "6\n7\n8"


def test_a_log_has_the_lines_of_lambda() -> None:
    """A report's cold starts and memory come from there; MiniStack's own lines had none, and one number for all."""
    sandbox = sandboxes.sandbox_class(ProvidedWorker, InitFailedError, lambda_parts)()
    sandbox._proc = SimpleNamespace(pid=os.getpid())
    start, printed, end, report = sandbox.invoke("first", "r-1")["log"].splitlines()
    assert (start, printed, end) == ("START RequestId: r-1 Version: $LATEST", "printed", "END RequestId: r-1")
    parsed = parse_report(report)
    assert parsed is not None
    assert parsed.init_ms is not None
    assert parsed.max_memory_mb == lambda_parts.peak_memory_mb(os.getpid())
    warm = parse_report(sandbox.invoke("next", "r-2")["log"].splitlines()[-1])
    assert warm is not None
    assert warm.init_ms is None


JSON_LOG = {"FunctionName": "f", "LoggingConfig": {"LogFormat": "JSON", "LogGroup": "/aws/lambda/f"}}


DIVIDED = "one\rline\u2028of three\nanother"


def test_a_function_that_logs_as_json_has_lambdas_lines_as_json() -> None:
    """They have times of their own; MiniStack's text lines would be further invocations to whoever reads them."""
    sandbox = sandboxes.sandbox_class(ProvidedWorker, InitFailedError, lambda_parts)()
    sandbox.config = {**sandbox.config, **JSON_LOG}
    groups: dict[str, Any] = {"/aws/lambda/f": {"streams": {}}}
    logs = SimpleNamespace(_log_groups=groups, _append_log_events=lambda stream, lines: stream["events"].extend(lines))
    stock: list[str] = []
    service = SimpleNamespace(
        _emit_lambda_logs=lambda _function, request, text, *_rest, **_named: stock.extend([request, *text.splitlines()])
    )
    sandboxes.log_as_json(service, logs, lambda_parts)
    begun_ms = time.time_ns() // 1_000_000
    service._emit_lambda_logs(
        {"config": sandbox.config}, "r-1", sandbox.invoke("first", "r-1")["log"], error=False, duration_ms=5
    )
    service._emit_lambda_logs({"config": sandbox.config}, "r-2", "", error=True, duration_ms=5)
    service._emit_lambda_logs({"config": sandbox.config}, "r-3", DIVIDED, error=False, duration_ms=5)
    service._emit_lambda_logs({"config": {"FunctionName": "g"}}, "r-4", DIVIDED, error=True, duration_ms=5)
    service._emit_lambda_logs(
        {"config": {**JSON_LOG, "LoggingConfig": {"LogFormat": "JSON"}}}, "r-5", "", error=True, duration_ms=5
    )

    first, second, third = (
        [event["message"] for event in each["events"]] for each in groups["/aws/lambda/f"]["streams"].values()
    )
    began, ended = json.loads(first[0]), json.loads(first[-1])
    assert (began["type"], first[1], ended["type"]) == ("platform.start", "printed", "platform.report")
    assert datetime.fromisoformat(began["time"]).timestamp() * 1e3 >= begun_ms
    assert (ended["record"]["status"], ended["record"]["requestId"]) == ("success", "r-1")
    assert ended["record"]["metrics"]["initDurationMs"] >= 0
    assert json.loads(second[-1])["record"]["status"] == "error"
    assert third == DIVIDED.split("\n")
    assert stock == ["r-4", *DIVIDED.split("\n"), "r-5"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"status": "ok"}, ""),
        ({"status": "error", "error_payload": {"errorType": "KeyError"}}, "KeyError"),
        ({"status": "error", "error": "Task timed out after 3.00 seconds"}, lambda_parts.TIMED_OUT),
        ({"status": "error", "error": "gone"}, "Runtime.Unknown"),
    ],
)
def test_a_report_names_the_error_in_which_an_invocation_ended(answer: dict[str, Any], expected: str) -> None:
    """The handler's own, or how Lambda ended it."""
    assert sandboxes.error_type(answer, lambda_parts.TIMED_OUT) == expected


def test_an_error_at_import_keeps_its_type() -> None:
    """The runtime client's type stands if it reported one; otherwise MiniStack's own words do."""
    sandbox = sandboxes.sandbox_class(ProvidedWorker, InitFailedError, lambda_parts)()
    with pytest.raises(RuntimeError, match="init error"):
        sandbox._await_init()
    sandbox._init_error = {"errorType": "Runtime.ImportModuleError", "errorMessage": "no module"}
    with pytest.raises(InitFailedError, match="no module") as failed:
        sandbox._await_init()
    assert failed.value.error_type == "Runtime.ImportModuleError"


def test_a_layer_is_in_place_once_it_is_deployed(tmp_path: Path) -> None:
    """Function code is MiniStack's business, as before."""
    made: tuple[str, dict[str, str]] = ("arn:layer:1", {})
    service = lambda_service(tmp_path)
    service._resolve_layer_zip = {"arn:layer:1": b"layer"}.get
    unpacked: list[bytes] = []

    def folder(blob: bytes) -> Path:
        unpacked.append(blob)
        return tmp_path / "unpacked"

    folders = SimpleNamespace(folder=folder, remove_unused=lambda _now_s: None)
    kind = sandboxes.LAYER
    provisioners: Any = SimpleNamespace(_RESOURCE_HANDLERS={kind: {"create": lambda *_: made, "delete": None}})
    sandboxes.patch_layers(service, provisioners, folders)
    assert provisioners._RESOURCE_HANDLERS[kind]["create"]("Id", {}, "stack") == made
    assert unpacked == [b"layer"]
    assert service._docker_extracted_dir(b"layer", "layer") == str(tmp_path / "unpacked")
    assert service._docker_extracted_dir("zip", "code") == str(tmp_path / "code-zip")

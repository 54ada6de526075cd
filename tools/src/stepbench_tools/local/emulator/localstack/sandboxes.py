"""
LocalStack's executor of Lambda functions, with processes in place of Docker's containers.

Each sandbox is a process with AWS's own runtime client (`lambda_sandbox.py`) and a Runtime API server of its own:
events go out one at a time, answers and errors come back. The protocol is AWS's own ("Using the Lambda runtime API"
in Lambda's guide). `shim.py` loads this by path, so it imports nothing of ours; LocalStack's classes are given.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_NEXT = "/2018-06-01/runtime/invocation/next"
_ANSWER = re.compile(r"/2018-06-01/runtime/(?:invocation/[^/]+/(?P<kind>response|error)|init/error)")


class RuntimeApi(ThreadingHTTPServer):
    """
    The server of one sandbox, on loopback, which is `ready` once it asks.

    It takes `events` with their headers, None for no more, and gives `replies`, each with whether it is an error.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.events: queue.SimpleQueue[tuple[bytes, dict[str, str]] | None] = queue.SimpleQueue()
        self.replies: queue.SimpleQueue[tuple[bytes, bool]] = queue.SimpleQueue()
        self.ready = threading.Event()
        self.address = f"127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True, name=f"runtime-api-{self.address}").start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over a connection that its sandbox has closed: how that ended is seen in its process."""

    def close(self) -> None:
        """End the server, soon; a sandbox that still asks for an event gets none."""
        self.events.put(None)
        threading.Thread(target=self._end, daemon=True).start()

    def _end(self) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: RuntimeApi
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 65_536  # headers and body in one segment

    def do_GET(self) -> None:
        """Wait for the next event; nothing else can be asked for."""
        if self.path != _NEXT:
            self._answer(HTTPStatus.NOT_FOUND)
            return
        self.server.ready.set()
        event = self.server.events.get()
        if event is None:
            self.close_connection = True
            return
        self._answer(HTTPStatus.OK, *event)

    def do_POST(self) -> None:
        """Take an answer, or an error, also of the start."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        found = _ANSWER.fullmatch(self.path)
        if found is None:
            self._answer(HTTPStatus.NOT_FOUND)
            return
        self.server.replies.put((body, found["kind"] != "response"))
        self._answer(HTTPStatus.ACCEPTED)

    def _answer(self, status: HTTPStatus, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 -- as the original
        """Write nothing: the sandbox's own lines are the log."""


_NOT_GIVEN = ("LOCALSTACK_", "EDGE_PORT", "_AWS_XRAY_")
"""LocalStack's own variables, which no function has on AWS, begin so."""
_POLL_S = 0.05
START_LIMIT_S = 60.0
"""A sandbox that has not asked for an event by then is ended; on Lambda it has 10 s, but cores of its own."""
TIMED_OUT, EXITED, UNKNOWN = "Sandbox.Timedout", "Runtime.ExitError", "Runtime.Unknown"


@dataclass(frozen=True)
class Sandboxes:
    """
    Stands for an executor class of LocalStack: called for a new sandbox.

    Attributes:
        python: interpreter that has `awslambdaric` and boto3, as Lambda's own has.
        program: `lambda_sandbox.py`.
        parts: our module `lambda_parts`.
        layers: the folders of unpacked layers.
        invocation_result: LocalStack's class of that name.
    """

    python: str
    program: Path
    parts: Any
    layers: Any
    invocation_result: Any
    _layer_folders: dict[str, Path] = field(default_factory=dict)

    def __call__(self, id: str, function_version: Any) -> Sandbox:  # noqa: A002 -- as LocalStack calls it
        """Return a sandbox, not started yet."""
        return Sandbox(self, id, function_version)

    def prepare_version(self, function_version: Any) -> None:
        """Unpack code and layers as soon as the function is deployed."""
        function_version.config.code.prepare_for_execution()
        for layer in function_version.config.layers:
            self._layer_folder(layer.code)

    def cleanup_version(self, function_version: Any) -> None:
        """Leave the layers: other functions and emulators use them."""

    def validate_environment(self) -> bool:
        """Note that there is nothing to miss: no Docker is needed."""
        return True

    def search_paths(self, function_version: Any, own: dict[str, str]) -> dict[str, str]:
        """Return where a function's modules and libraries are found; `own`: its variables."""
        config = function_version.config
        layers = [self._layer_folder(layer.code) for layer in config.layers]
        code = str(config.code.get_unzipped_code_location())
        paths: dict[str, str] = self.parts.search_paths(config.runtime, code, layers, own, self.layers)
        return paths

    def _layer_folder(self, code: Any) -> Path:
        if code.id not in self._layer_folders:
            archive = io.BytesIO()
            code._download_archive_to_file(archive)
            self._layer_folders[code.id] = self.layers.folder(archive.getvalue())
        return self._layer_folders[code.id]


class Sandbox:
    """One execution environment; it serves one invocation at a time, and starts anew after it has died."""

    def __init__(self, sandboxes: Sandboxes, id: str, function_version: Any) -> None:  # noqa: A002 -- LocalStack's
        self.id, self.function_version = id, function_version
        self._sandboxes, self._config = sandboxes, function_version.config
        self._environment: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._api: RuntimeApi
        self._output = tempfile.TemporaryFile("a+b")  # noqa: SIM115 -- closed in `stop`
        self._read_bytes = 0
        self._init_ms: float | None = None
        self._failed: bytes | None = None
        """Why it has not started: LocalStack would not ask one for its log that raises that."""

    def get_address(self) -> str:
        """Return where LocalStack would reach it."""
        return "127.0.0.1"

    get_endpoint_from_executor = get_address

    def get_runtime_endpoint(self) -> str:
        """Return nothing: the Runtime API is ours."""
        return ""

    def start(self, env_vars: dict[str, Any]) -> None:
        """Start the process, and wait until it asks for an event; an error at import is the first invocation's."""
        code = str(self._config.code.get_unzipped_code_location())
        given = {name: str(value) for name, value in env_vars.items() if not name.startswith(_NOT_GIVEN)}
        self._environment = {
            **self._sandboxes.parts.base_environment(),
            **given,
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{self._config.runtime}",
            "LAMBDA_TASK_ROOT": code,
            **self._sandboxes.search_paths(self.function_version, given),
            "PYTHONUNBUFFERED": "1",
        }
        self._failed = self._start_process()

    def _start_process(self) -> bytes | None:
        """Return None when the sandbox is ready, or why it is not, as a function error."""
        began_ns = time.perf_counter_ns()
        self._api = RuntimeApi()
        self._process = process = subprocess.Popen(  # noqa: S603 -- Lambda's interpreter, our program
            [self._sandboxes.python, "-P", self._sandboxes.program],
            env={**self._environment, "AWS_LAMBDA_RUNTIME_API": self._api.address},
            cwd=self._environment["LAMBDA_TASK_ROOT"],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        while not self._api.ready.wait(_POLL_S):
            with contextlib.suppress(queue.Empty):
                error, _ = self._api.replies.get_nowait()
                self._end_process()
                return error
            if process.poll() is not None:
                return self._died("", process.returncode)
            if time.perf_counter_ns() - began_ns > START_LIMIT_S * 1e9:
                self._end_process()
                return _error(TIMED_OUT, f"the sandbox did not start within {START_LIMIT_S:g} s")
        self._init_ms = (time.perf_counter_ns() - began_ns) / 1e6
        return None

    def stop(self) -> None:
        """End the process and its server."""
        self._end_process()
        self._output.close()

    def _end_process(self) -> None:
        process, self._process = self._process, None  # `stop` may come while an invocation is under way
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._api.close()

    def invoke(self, payload: dict[str, str]) -> Any:
        """Hand over an event and wait for its answer, its time-out, or the end of the process."""
        request_id = payload["invoke-id"]
        error, self._failed = self._failed, None
        if error is None and self._process is None:
            error = self._start_process()
        began_ns, init_ms, self._init_ms = time.perf_counter_ns(), self._init_ms, None
        begun_ns = time.time_ns()
        body, failed = (error, True) if error else self._exchange(request_id, payload)
        took_ms = (time.perf_counter_ns() - began_ns) / 1e6
        logs = self._log(request_id, begun_ns, took_ms, init_ms, _error_type(body) if failed else "")
        return self._sandboxes.invocation_result(request_id, body, is_error=failed, logs=logs)

    def _exchange(self, request_id: str, payload: dict[str, str]) -> tuple[bytes, bool]:
        deadline_s = time.time() + self._config.timeout
        headers = {
            "Lambda-Runtime-Aws-Request-Id": request_id,
            "Lambda-Runtime-Deadline-Ms": str(int(deadline_s * 1_000)),
            "Lambda-Runtime-Invoked-Function-Arn": payload["invoked-function-arn"],
            # There is no X-Ray here, and its SDK takes long to import.
            "Lambda-Runtime-Trace-Id": payload["trace-id"].replace("Sampled=1", "Sampled=0"),
            "Content-Type": "application/json",
        }
        process = self._process
        if process is None:
            return self._died(request_id, -signal.SIGKILL), True  # `stop` came first
        self._api.events.put((payload["payload"].encode(), headers))
        while (left_s := deadline_s - time.time()) > 0:
            with contextlib.suppress(queue.Empty):
                return self._api.replies.get(timeout=min(left_s, _POLL_S))
            if process.poll() is not None:
                return self._died(request_id, process.returncode), True
        self._end_process()
        said = f"RequestId: {request_id} Error: Task timed out after {self._config.timeout:.2f} seconds"
        return _error(TIMED_OUT, said), True

    def _died(self, request_id: str, code: int) -> bytes:
        self._end_process()
        said = f"exit status {code}" if code >= 0 else f"signal: {signal.Signals(-code).name}"
        return _error(EXITED, f"RequestId: {request_id} Error: Runtime exited with error: {said}")

    def get_logs(self) -> str:
        """Return what was printed since the last time; a file keeps it, so that nothing waits for a reader."""
        if self._output.closed:  # by `stop`
            return ""
        output = self._output.fileno()
        printed = os.pread(output, os.fstat(output).st_size - self._read_bytes, self._read_bytes)
        self._read_bytes += len(printed)
        return printed.decode(errors="replace")

    def _log(self, request_id: str, begun_ns: int, took_ms: float, init_ms: float | None, error: str) -> str:
        parts, version = self._sandboxes.parts, self.function_version.id.qualifier
        peak_mb = parts.peak_memory_mb(self._process.pid if self._process else None)
        report = parts.Report(took_ms, init_ms, self._config.memory_size, peak_mb, begun_ns, error)
        log_format = (self._config.logging_config or {}).get("LogFormat", "Text")
        log: str = parts.invocation_log(request_id, version, self.get_logs(), report, log_format)
        return log


def _error_type(body: bytes) -> str:
    with contextlib.suppress(ValueError, AttributeError):
        return str(json.loads(body).get("errorType") or UNKNOWN)
    return UNKNOWN


def _error(kind: str, message: str) -> bytes:
    return json.dumps({"errorType": kind, "errorMessage": message}).encode()

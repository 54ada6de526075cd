"""
Python and Node.js functions under runtime clients, each sandbox a process of its own, in place of MiniStack's scripts.

`shim.py` loads this by path, so it imports nothing of ours.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import time
import uuid
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import queue
    import subprocess
    from collections.abc import Callable

LAYER = "AWS::Lambda::LayerVersion"
_GIVEN = """
AWS_ACCESS_KEY_ID AWS_DEFAULT_REGION AWS_DISABLE_HOST_PREFIX_INJECTION AWS_ENDPOINT_URL
AWS_LAMBDA_FUNCTION_MEMORY_SIZE AWS_LAMBDA_FUNCTION_NAME AWS_LAMBDA_FUNCTION_VERSION AWS_LAMBDA_LOG_STREAM_NAME
AWS_LAMBDA_RUNTIME_API AWS_REGION AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN LAMBDA_TASK_ROOT _HANDLER
"""
GIVEN = frozenset(_GIVEN.split())
"""MiniStack sets these for a sandbox."""
RESPONSE_BYTES = 6 * 1024**2 + 100
RESPONSE_TOO_LARGE = {
    "errorType": "Function.ResponseSizeTooLarge",
    "errorMessage": f"Response payload size exceeded maximum allowed payload size ({RESPONSE_BYTES} bytes).",
}
KILLED = {"errorType": "Runtime.ExitError", "errorMessage": "Runtime exited with error: signal: killed"}
WHOLE = "rie"
"""MiniStack's name for logs that have a REPORT line; it adds one where there is none."""
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

Json = dict[str, Any]


def is_ours(config: Json) -> bool:
    """Return whether a function's configuration names a runtime whose sandboxes are ours: Python or Node.js."""
    return str(config.get("Runtime", "")).startswith(("python", "nodejs"))


def run_under_runtime_client(runtime: Any, service: Any, python: str, parts: Any, folders: Any) -> None:
    """
    Send Python and Node.js functions through the Runtime API server.

    Args:
        runtime: the module `ministack.core.lambda_runtime`.
        service: the module `ministack.services.lambda_svc`.
        python: interpreter that has `awslambdaric` and boto3, as Lambda's own has.
        parts: our module `lambda_parts`.
        folders: its `LayerFolders`.
    """
    service._provided_runtime_code_dir = with_bootstrap(service, python)
    service._provided_worker_env = sandbox_environment(service, parts, folders)
    worker = sandbox_class(runtime.ProvidedWorker, runtime.ProvidedRuntimeError, parts)
    stock_class, stock_execute = runtime._worker_class_for, service._execute_function_warm

    def worker_class_for(config: Json) -> Any:
        return worker if is_ours(config) else stock_class(config)

    def execute_warm(function: Json, event: Any, request_id: str) -> Any:
        if is_ours(function.get("config") or function):
            answer = service._execute_function_provided_warm(function, event, request_id)
            return {**answer, "log_source": WHOLE}
        return stock_execute(function, event, request_id)

    runtime._worker_class_for = worker_class_for
    service._execute_function_warm = execute_warm


def with_bootstrap(service: Any, python: str) -> Callable[[bytes], str]:
    """Unpack a function's code as before, and put beside it the program that runs it."""
    stock = service._provided_runtime_code_dir
    sandbox = Path(__file__).parents[1] / "lambda_sandbox.py"
    script = f"#!/bin/sh\nexec {shlex.quote(python)} -P {shlex.quote(str(sandbox))}\n"

    def code_dir(code_zip: bytes) -> str:
        directory: str = stock(code_zip)
        bootstrap = Path(directory) / "bootstrap"
        with service._provided_code_lock:
            if not bootstrap.exists():
                bootstrap.write_text(script)
                bootstrap.chmod(0o755)
        return directory

    return code_dir


def sandbox_environment(service: Any, parts: Any, folders: Any) -> Callable[[Json, str, int], dict[str, str]]:
    """Return a sandbox's environment as on Lambda: the function's variables, Lambda's, and layers on PYTHONPATH."""
    stock = service._provided_worker_env
    base = parts.base_environment()

    def environment(config: Json, code_dir: str, port: int) -> dict[str, str]:
        environment: dict[str, str] = stock(config, code_dir, port)
        if not is_ours(config):
            return environment
        function = config.get("FunctionName", "")
        own = service._runtime_env_vars(config)
        layers = layer_folders(service, config)
        return {
            **base,
            **{name: value for name, value in environment.items() if name in GIVEN and value},
            **{name: str(value) for name, value in own.items() if name not in GIVEN},  # as CloudFormation has them
            "TMPDIR": base["TMPDIR"],
            "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function}",
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{config['Runtime']}",
            "AWS_XRAY_CONTEXT_MISSING": "LOG_ERROR",
            "AWS_XRAY_DAEMON_ADDRESS": "127.0.0.1:2000",
            **parts.search_paths(config["Runtime"], code_dir, layers, own, folders),
            "PYTHONUNBUFFERED": "1",
        }

    return environment


def layer_folders(service: Any, config: Json) -> list[Path]:
    """Return where the function's layers were unpacked; those that are gone are left out."""
    blobs = [service._resolve_layer_zip(layer) for layer in config.get("Layers") or []]
    return [Path(service._docker_extracted_dir(blob, "layer")) for blob in blobs if blob]


def patch_layers(service: Any, provisioners: Any, folders: Any) -> None:
    """
    Let sandboxes find their layers in `folders`, and CloudFormation put them there.

    Args:
        service: the module `ministack.services.lambda_svc`.
        provisioners: the module `ministack.services.cloudformation.provisioners`.
        folders: `LayerFolders`, which outlive the emulator.
    """
    folders.remove_unused(time.time())
    stock_dir, handlers = service._docker_extracted_dir, provisioners._RESOURCE_HANDLERS[LAYER]
    stock_create = handlers["create"]

    def extracted_dir(blob: bytes, kind: str) -> str:
        return str(folders.folder(blob)) if kind == "layer" else stock_dir(blob, kind)

    def create(logical_id: str, properties: Json, *rest: Any) -> Any:
        created = stock_create(logical_id, properties, *rest)
        blob = service._resolve_layer_zip(created[0])
        if blob:
            folders.folder(blob)
        return created

    service._docker_extracted_dir = extracted_dir
    handlers.update(create=create)


def sandbox_class(provided_worker: Any, init_failed: Any, parts: Any) -> Any:
    """Return MiniStack's worker for custom runtimes, without its waits, and with Lambda's own lines in its parts."""

    class Sandbox(bounded_class(provided_worker)):  # type: ignore[misc] # known at run time only
        """A sandbox is one execution environment."""

        out_of_memory: bool
        init_ms: float | None
        """The init time of the invocation under way, if that is its sandbox's first."""
        _proc: subprocess.Popen[bytes] | None
        _stderr_queue: queue.Queue[str]
        _drain_stderr: Callable[[], str]

        def _spawn(self, *arguments: Any, **options: Any) -> None:
            began_s = time.monotonic()
            self._output = parts.Output()
            super()._spawn(*arguments, **options)
            self.init_ms = 1e3 * (time.monotonic() - began_s)

        def _pump_output(self, pipe: IO[bytes], lines: queue.Queue[str]) -> None:
            self._output.follow(pipe, lines)

        def _drain_stderr_bounded(self, **_: float) -> str:
            """Return what has been printed, and wait for nothing: it is in the pipe before the response is sent."""
            process = self._proc  # another thread may end it
            if process is not None and process.stdout is not None:
                self._output.read(process.stdout, self._stderr_queue)
            return self._drain_stderr()

        def _build_handler_class(self, generation: int, pending: Any) -> Any:
            """Send headers and body in one segment at once; otherwise Nagle and delayed ACK cost 40 ms a call."""
            return handler_class(super()._build_handler_class(generation, Patient(pending)))

        def _await_init(self, init_timeout: float | None = None) -> None:
            """Name an error at import as AWS does (`Runtime.ImportModuleError`), not `Runtime.Unknown`."""
            try:
                super()._await_init(init_timeout)
            except RuntimeError:
                said = KILLED if self.out_of_memory else self._init_error
                if isinstance(said, dict):
                    raise init_failed(said.get("errorMessage", ""), said.get("errorType", "")) from None
                raise

        def invoke(self, event: Any, request_id: str, **options: Any) -> Any:
            """Invoke without two options of stock Python workers, which the Runtime API has no header for."""
            known = {name: options[name] for name in ("trace_id", "invoked_function_arn") if name in options}
            self.init_ms, began_s, began_ns = None, time.monotonic(), time.time_ns()
            answer = answer_of(partial(super().invoke, event, request_id, **known), init_failed, self._drain_stderr)
            duration_ms = 1e3 * (time.monotonic() - began_s) - (self.init_ms or 0)
            peak_mb = parts.peak_memory_mb(getattr(self._proc, "pid", None))
            begun_ns = began_ns + round(1e6 * (self.init_ms or 0))
            memory_mb, error = int(self.config.get("MemorySize", 128)), error_type(answer, parts.TIMED_OUT)
            report = parts.Report(duration_ms, self.init_ms, memory_mb, peak_mb, begun_ns, error)
            version, log_format = self.config.get("Version", "$LATEST"), logging(self.config)[0]
            answer["log"] = parts.invocation_log(request_id, version, answer["log"] or "", report, log_format)
            return answer

    return Sandbox


def answer_of(invoke: Callable[[], Json], init_failed: Any, printed: Callable[[], str]) -> Json:
    """Return what an invocation answers; where its sandbox did not come to the handler, with what it printed before."""
    try:
        return invoke()
    except init_failed as error:
        said = {"errorMessage": str(error), "errorType": error.error_type}
        return {"status": "error", "error": str(error), "error_payload": said, "log": printed()}


def error_type(answer: Json, timed_out: str) -> str:
    """Return the type of the error in which an invocation ended; "" for none."""
    if answer["status"] == "ok":
        return ""
    payload = answer.get("error_payload")
    named = payload.get("errorType") if isinstance(payload, dict) else None
    late = "Task timed out" in str(answer.get("error", ""))
    return str(named or (timed_out if late else "Runtime.Unknown"))


def logging(config: Json) -> tuple[str, str]:
    """Return a function's log format and log group."""
    found = config.get("LoggingConfig") or {}
    return found.get("LogFormat", "Text"), found.get("LogGroup", "")


class Printed(str):
    """A text whose lines end as Lambda's do: a carriage return, or U+2028, is a part of a line."""

    __slots__ = ()

    def splitlines(self, keepends: bool = False) -> list[str]:  # noqa: FBT001, FBT002 -- as MiniStack calls it
        """Return the lines; MiniStack wants none of their ends."""
        return [f"{line}\n" if keepends else line for line in self.removesuffix("\n").split("\n")] if self else []


def log_as_json(service: Any, logs: Any, parts: Any) -> None:
    """
    Leave out MiniStack's own START, END and REPORT lines where a function logs as JSON: its lines have been written.

    Args:
        service: the module `ministack.services.lambda_svc`.
        logs: the module `ministack.services.cloudwatch_logs`.
        parts: our module `lambda_parts`.
    """
    stock = service._emit_lambda_logs

    def emit(function: Json, request_id: str, text: str, error: Any, duration_ms: int, **named: Any) -> None:
        config = function.get("config") or function
        log_format, group = logging(config)
        version, now_ns = config.get("Version", "$LATEST"), time.time_ns()
        if log_format != "JSON" or group not in logs._log_groups:
            stock(function, request_id, Printed(text or ""), error, duration_ms, **named)
            return
        if not text:  # its sandbox did not start
            begun_ns, failed = now_ns - duration_ms * 1_000_000, "Runtime.Unknown" if error else ""
            report = parts.Report(duration_ms, None, int(config.get("MemorySize", 128)), None, begun_ns, failed)
            text = parts.invocation_log(request_id, version, "", report, log_format)
        now_ms = now_ns // 1_000_000
        never = dict.fromkeys(("firstEventTimestamp", "lastEventTimestamp", "lastIngestionTime"))
        stream: Json = {"events": [], "uploadSequenceToken": "1", "creationTime": now_ms, **never}
        lines = [{"timestamp": now_ms, "message": line, "ingestionTime": now_ms} for line in Printed(text).splitlines()]
        logs._append_log_events(stream, lines)
        name = f"{time.strftime('%Y/%m/%d', time.gmtime())}/[{version}]{uuid.uuid4().hex}"
        logs._log_groups[group]["streams"][name] = stream

    service._emit_lambda_logs = emit


class Patient:
    """
    The queue on which a sandbox without work waits for some, which looks less often whether its sandbox has ended.

    A dozen that look ten times a second take a hundredth of a core from whoever measures beside them.
    """

    def __init__(self, pending: queue.Queue[Any]) -> None:
        self._pending = pending

    def get(self, timeout: float) -> Any:
        """Return the next piece of work; waits for up to ten `timeout` (s) before it raises `queue.Empty`."""
        return self._pending.get(timeout=10 * timeout)


def bounded_class(provided_worker: Any) -> Any:
    """Return MiniStack's worker with a limit on its memory, which `limits.watch_memory` has looked at."""

    class Bounded(provided_worker):  # type: ignore[misc] # known at run time only
        """The process is ended when it holds more than its function's memory."""

        out_of_memory = False
        """Whether the present process was ended, or the last one while none has followed it."""

        def _spawn(self, *arguments: Any, **options: Any) -> None:
            self.out_of_memory = False
            super()._spawn(*arguments, **options)

        def enforce_memory(self) -> None:
            """Look at resident pages that are in no file, and end the process if they are too many."""
            process = self._proc
            with contextlib.suppress(OSError, AttributeError):  # it has ended, or not begun
                _, resident, shared = map(int, Path(f"/proc/{process.pid}/statm").read_text().split()[:3])
                if (resident - shared) * _PAGE_BYTES > int(self.config.get("MemorySize", 128)) * 1024**2:
                    self.out_of_memory = True
                    process.kill()

        def invoke(self, event: Any, request_id: str, **options: Any) -> Any:
            """Return what Lambda says of a process that was killed."""
            answer = super().invoke(event, request_id, **options)
            if self.out_of_memory and answer["status"] == "error":
                said = {**KILLED, "errorMessage": f"RequestId: {request_id} Error: {KILLED['errorMessage']}"}
                answer.update(error=said["errorMessage"], error_payload=said)
            return answer

    return Bounded


def handler_class(stock: Any) -> Any:
    """Return the Runtime API's request handler: quick, and with Lambda's limit on responses."""

    class Handler(stock):  # type: ignore[misc] # known at run time only
        disable_nagle_algorithm = True
        wbufsize = 65_536
        path: str

        def _read_body(self) -> bytes:
            """Read a response that is too large as the error that it is on AWS."""
            body: bytes = super()._read_body()
            if len(body) <= RESPONSE_BYTES or not self.path.endswith("/response"):
                return body
            self.path = self.path.removesuffix("response") + "error"
            return json.dumps(RESPONSE_TOO_LARGE).encode()

    return Handler

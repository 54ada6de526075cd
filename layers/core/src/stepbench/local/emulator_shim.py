"""
MiniStack with Python Lambdas run by AWS's own runtime client, in processes of their own.

Started by path with the interpreter of the emulator's environment, which has MiniStack and nothing of ours, so this
file imports nothing of ours either. Stock MiniStack runs Python functions by a script of its own: every exception
is a `Runtime.HandlerError`, each error costs the sandbox, and each invocation waits for log lines. Here they go
through MiniStack's Runtime API server, as its custom runtimes do, with `awslambdaric` on the other end
(`lambda_sandbox.py`, run by LAMBDA_PYTHON). MiniStack is changed in memory only; a symbol that is missing stops the
start with a message, since a half-patched emulator would measure something else.
"""

from __future__ import annotations

import contextvars
import importlib
import importlib.util
import os
import shlex
import sys
import threading
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SUPPORTED = "1.5.33"
PATCHED = {
    "ministack.core.lambda_runtime": ("ProvidedRuntimeError", "ProvidedWorker", "_worker_class_for"),
    "ministack.services.lambda_svc": (
        "_docker_extracted_dir",
        "_execute_function",
        "_execute_function_provided_warm",
        "_execute_function_warm",
        "_extract_zip_preserving_mode",
        "_inflight_key",
        "_poll_dynamodb_streams",
        "_provided_code_lock",
        "_provided_runtime_code_dir",
        "_provided_worker_env",
        "_release_execution_slot",
        "_reserved_concurrency",
        "_resolve_layer_zip",
        "_runtime_env_vars",
        "_xray_trace_id_for_invocation",
        "_functions",
        "executions_in_flight",
        "invoke_async_with_retry",
    ),
    "ministack.services.cloudformation.provisioners": ("_RESOURCE_HANDLERS",),
    "ministack.services.stepfunctions": ("_resolve_path_or_ctx", "_run_distributed_map"),
}
PATCHED_METHODS = ("_await_init", "_build_handler_class", "_drain_stderr_bounded", "invoke")

INHERITED = frozenset({"PATH", "LANG", "LC_ALL", "TZ", "TMPDIR"})
"""All that a sandbox gets of the emulator's own environment: nobody's credentials, proxies or Python settings."""
GIVEN = frozenset(
    {
        "AWS_ACCESS_KEY_ID",
        "AWS_DEFAULT_REGION",
        "AWS_DISABLE_HOST_PREFIX_INJECTION",
        "AWS_ENDPOINT_URL",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
        "AWS_LAMBDA_FUNCTION_NAME",
        "AWS_LAMBDA_FUNCTION_VERSION",
        "AWS_LAMBDA_LOG_STREAM_NAME",
        "AWS_LAMBDA_RUNTIME_API",
        "AWS_REGION",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "LAMBDA_TASK_ROOT",
        "_HANDLER",
    }
)
"""What MiniStack sets for a sandbox."""

Json = dict[str, Any]


def neighbour(name: str) -> Any:  # noqa: ANN401 -- a module
    """A module beside this file. Its folder is not on the path: names there would hide those of other packages."""
    found = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    if found is None or found.loader is None:
        sys.exit(f"emulator: {name}.py is not beside {__file__}")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def load() -> dict[str, Any]:
    """
    Import the modules to patch, by name.

    Raises:
        SystemExit: MiniStack is not there, or not the version that this file knows.
    """
    modules: dict[str, Any] = {}
    for name, symbols in PATCHED.items():
        try:
            modules[name] = importlib.import_module(name)
        except ImportError as error:
            sys.exit(f"emulator: cannot import {name} ({error}); install ministack[full]=={SUPPORTED}")
        _require(modules[name], name, symbols)
    worker = modules["ministack.core.lambda_runtime"].ProvidedWorker
    _require(worker, "ministack.core.lambda_runtime.ProvidedWorker", PATCHED_METHODS)
    return modules


def _require(holder: object, name: str, symbols: tuple[str, ...]) -> None:
    missing = [symbol for symbol in symbols if not hasattr(holder, symbol)]
    if missing:
        sys.exit(
            f"emulator: {name} has no {', '.join(missing)}, which this version of Stepbench builds on; "
            f"install ministack[full]=={SUPPORTED}"
        )


def is_python(config: Json) -> bool:
    """Whether a function's configuration asks for a Python runtime."""
    return str(config.get("Runtime", "")).startswith("python")


def run_under_runtime_client(runtime: Any, service: Any, python: str) -> None:  # noqa: ANN401 -- modules
    """
    Send Python functions through the Runtime API server.

    Args:
        runtime: the module `ministack.core.lambda_runtime`.
        service: the module `ministack.services.lambda_svc`.
        python: interpreter that has `awslambdaric` and boto3, as Lambda's own has.
    """
    service._provided_runtime_code_dir = with_bootstrap(service, python)  # noqa: SLF001 -- we patch it
    service._provided_worker_env = sandbox_environment(service)  # noqa: SLF001
    worker = sandbox_class(runtime.ProvidedWorker, runtime.ProvidedRuntimeError)
    stock_class, stock_execute = runtime._worker_class_for, service._execute_function_warm  # noqa: SLF001

    def worker_class_for(config: Json) -> Any:  # noqa: ANN401 -- a class of MiniStack's
        return worker if is_python(config) else stock_class(config)

    def execute_warm(function: Json, event: Any, request_id: str) -> Any:  # noqa: ANN401 -- JSON
        if is_python(function.get("config") or function):
            return service._execute_function_provided_warm(function, event, request_id)  # noqa: SLF001
        return stock_execute(function, event, request_id)

    runtime._worker_class_for = worker_class_for  # noqa: SLF001
    service._execute_function_warm = execute_warm  # noqa: SLF001


def with_bootstrap(service: Any, python: str) -> Callable[[bytes], str]:  # noqa: ANN401 -- a module
    """Unpack a function's code as before, and put beside it the program that runs it."""
    stock = service._provided_runtime_code_dir  # noqa: SLF001 -- wrapped
    sandbox = Path(__file__).with_name("lambda_sandbox.py")
    script = f"#!/bin/sh\nexec {shlex.quote(python)} -P {shlex.quote(str(sandbox))}\n"

    def code_dir(code_zip: bytes) -> str:
        directory: str = stock(code_zip)
        bootstrap = Path(directory) / "bootstrap"
        with service._provided_code_lock:  # noqa: SLF001 -- no fork may overlap the write (ETXTBSY)
            if not bootstrap.exists():
                bootstrap.write_text(script)
                bootstrap.chmod(0o755)
        return directory

    return code_dir


def sandbox_environment(service: Any) -> Callable[[Json, str, int], dict[str, str]]:  # noqa: ANN401 -- a module
    """The environment of a sandbox as on Lambda: the function's variables, Lambda's, and layers on PYTHONPATH."""
    stock = service._provided_worker_env  # noqa: SLF001 -- wrapped

    def environment(config: Json, code_dir: str, port: int) -> dict[str, str]:
        made: dict[str, str] = stock(config, code_dir, port)
        if not is_python(config):
            return made
        function = config.get("FunctionName", "")
        own = service._runtime_env_vars(config)  # noqa: SLF001
        return {
            **{name: value for name, value in made.items() if name in INHERITED | GIVEN and value},
            **{name: value for name, value in own.items() if name not in GIVEN},
            "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function}",
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{config['Runtime']}",
            "AWS_XRAY_CONTEXT_MISSING": "LOG_ERROR",
            "AWS_XRAY_DAEMON_ADDRESS": "127.0.0.1:2000",
            "PYTHONPATH": os.pathsep.join([code_dir, *layer_paths(service, config)]),
            "PYTHONUNBUFFERED": "1",
        }

    return environment


def layer_paths(service: Any, config: Json) -> list[str]:  # noqa: ANN401 -- a module
    """
    Where the function's layers were unpacked, in the order in which Lambda would find their modules.

    Lambda unpacks layers over each other into /opt, so a later layer wins; here each has a folder of its own,
    shared by all functions that use it, so the last comes first.
    """
    paths: list[str] = []
    for layer in reversed(config.get("Layers") or []):
        blob = service._resolve_layer_zip(layer)  # noqa: SLF001
        if blob:
            root = Path(service._docker_extracted_dir(blob, "layer")) / "python"  # noqa: SLF001
            paths += [str(path) for path in (*sorted(root.glob("lib/python3*/site-packages")), root)]
    return paths


def sandbox_class(provided_worker: Any, init_failed: Any) -> Any:  # noqa: ANN401 -- classes of MiniStack's
    """MiniStack's worker for custom runtimes, without its waits."""

    class Sandbox(provided_worker):  # type: ignore[misc] # known at run time only
        """One execution environment."""

        def _drain_stderr_bounded(
            self, first_line_wait: float = 0.002, idle_confirm: float = 0.001, hard_cap: float = 0.25
        ) -> Any:  # noqa: ANN401 -- text
            """Wait 2 ms for log lines, not 50: they are in the pipe before the response is."""
            return super()._drain_stderr_bounded(first_line_wait, idle_confirm, hard_cap)

        def _build_handler_class(self, generation: int, pending: Any) -> Any:  # noqa: ANN401 -- a class
            """Headers and body in one segment at once; otherwise Nagle and delayed ACK cost 40 ms a call."""
            handler = super()._build_handler_class(generation, pending)
            handler.disable_nagle_algorithm = True
            handler.wbufsize = 65_536
            return handler

        def _await_init(self, init_timeout: float | None = None) -> None:
            """Name an error at import as AWS does (`Runtime.ImportModuleError`), not `Runtime.Unknown`."""
            try:
                super()._await_init(init_timeout)
            except RuntimeError:
                if isinstance(self._init_error, dict):
                    said = self._init_error
                    raise init_failed(said.get("errorMessage", ""), said.get("errorType", "")) from None
                raise

        def invoke(self, event: Any, request_id: str, **options: Any) -> Any:  # noqa: ANN401 -- JSON
            """Stock Python workers know two options more, which the Runtime API has no header for."""
            known = {name: options[name] for name in ("trace_id", "invoked_function_arn") if name in options}
            return super().invoke(event, request_id, **known)

    return Sandbox


def queue_asynchronous(service: Any, sandboxes: int) -> None:  # noqa: ANN401 -- the module `lambda_svc`
    """
    Let asynchronous invocations of a function wait for one of so many sandboxes, as in Lambda's own queue.

    MiniStack starts a sandbox for each event that finds none free. On a small machine that never ends once it has
    begun: a receiver that stands still for a second leaves twenty sandboxes to start, those take the processors from
    the ones that work, and every further event adds one.
    """
    queued = contextvars.ContextVar("queued", default=False)
    free: defaultdict[str, threading.Semaphore] = defaultdict(lambda: threading.Semaphore(sandboxes))
    stock_invoke, stock_execute = service.invoke_async_with_retry, service._execute_function  # noqa: SLF001

    def invoke_asynchronously(function: Json, event: Any) -> None:  # noqa: ANN401 -- JSON
        token = queued.set(True)
        try:
            stock_invoke(function, event)  # its thread runs in a copy of this context
        finally:
            queued.reset(token)

    def execute(function: Json, event: Any) -> Any:  # noqa: ANN401 -- JSON
        if not queued.get():
            return stock_execute(function, event)
        with free[(function.get("config") or function).get("FunctionArn", "")]:
            token = queued.set(False)  # it may call itself once more, in another scope
            try:
                return stock_execute(function, event)
            finally:
                queued.reset(token)

    service.invoke_async_with_retry, service._execute_function = invoke_asynchronously, execute  # noqa: SLF001


def reserve_concurrency_by_template(provisioners: Any, service: Any) -> None:  # noqa: ANN401 -- modules
    """
    Let CloudFormation set ReservedConcurrentExecutions of a function, which MiniStack knows from its API only.

    Args:
        provisioners: the module `ministack.services.cloudformation.provisioners`.
        service: the module `ministack.services.lambda_svc`.
    """
    handlers = provisioners._RESOURCE_HANDLERS["AWS::Lambda::Function"]  # noqa: SLF001 -- we patch it
    stock_create, stock_update = handlers["create"], handlers["update"]

    def reserve(made: Any, properties: Json) -> Any:  # noqa: ANN401 -- as the originals
        wanted = properties.get("ReservedConcurrentExecutions")
        service._functions[made[0]]["concurrency"] = None if wanted is None else int(wanted)  # noqa: SLF001
        return made

    def create(logical_id: str, properties: Json, *rest: Any) -> Any:  # noqa: ANN401 -- as the original
        return reserve(stock_create(logical_id, properties, *rest), properties)

    def update(physical_id: str, old: Json, new: Json, *rest: Any, **named: Any) -> Any:  # noqa: ANN401 -- as the original
        return reserve(stock_update(physical_id, old, new, *rest, **named), new)

    handlers.update(create=create, update=update)


def await_reserved_concurrency(service: Any, limit_s: float = 5.0) -> None:  # noqa: ANN401 -- the module `lambda_svc`
    """
    Let a stream's delivery wait until its function's reserved concurrency is free, for a while.

    MiniStack's poller takes a busy function for a failing one and leaves it alone for a second. Where one sandbox
    writes and receives it finds it busy each time, since the stream has the record before the write is answered; the
    second would be the latency.
    """
    delivering = contextvars.ContextVar("delivering", default=False)
    freed = threading.Condition()
    stock_poll, stock_execute = service._poll_dynamodb_streams, service._execute_function  # noqa: SLF001 -- wrapped
    stock_release = service._release_execution_slot  # noqa: SLF001

    def poll() -> Any:  # noqa: ANN401 -- as the original
        token = delivering.set(True)
        try:
            return stock_poll()
        finally:
            delivering.reset(token)

    def release(slot: Any) -> None:  # noqa: ANN401 -- as the original
        stock_release(slot)
        with freed:
            freed.notify_all()

    def is_free(function: Json) -> bool:
        config = function.get("config") or function
        reserved = service._reserved_concurrency(function, config)  # noqa: SLF001
        _, by_function = service.executions_in_flight()
        return not reserved or by_function.get(service._inflight_key(config), 0) < reserved  # noqa: SLF001

    def execute(function: Json, event: Any) -> Any:  # noqa: ANN401 -- JSON
        if delivering.get():
            with freed:
                freed.wait_for(lambda: is_free(function), limit_s)
        return stock_execute(function, event)

    service._poll_dynamodb_streams, service._execute_function = poll, execute  # noqa: SLF001
    service._release_execution_slot = release  # noqa: SLF001


def sample_no_traces(service: Any) -> None:  # noqa: ANN401 -- the module `lambda_svc`
    """Tell functions that X-Ray does not keep their traces: there is none here, and its SDK takes long to import."""
    stock = service._xray_trace_id_for_invocation  # noqa: SLF001 -- wrapped

    def trace_id(config: Json, inbound_trace_header: str | None = None) -> str | None:
        made: str | None = stock(config, inbound_trace_header)
        return made and made.replace("Sampled=1", "Sampled=0")

    service._xray_trace_id_for_invocation = trace_id  # noqa: SLF001


def accept_max_concurrency_path(service: Any) -> None:  # noqa: ANN401 -- the module `stepfunctions`
    """Let a Distributed Map take MaxConcurrencyPath, as AWS does; MiniStack reads the literal field only."""
    stock = service._run_distributed_map  # noqa: SLF001 -- wrapped

    def run(state: Json, raw_input: Any, effective: Any, *rest: Any) -> Any:  # noqa: ANN401 -- as the original
        if "MaxConcurrencyPath" in state:
            context = rest[-1]
            limit = service._resolve_path_or_ctx(state["MaxConcurrencyPath"], effective, context)  # noqa: SLF001
            state = {**state, "MaxConcurrency": int(limit)}
        return stock(state, raw_input, effective, *rest)

    service._run_distributed_map = run  # noqa: SLF001


def main() -> None:
    """Patch and serve. From the environment come GATEWAY_PORT, LAMBDA_PYTHON and LAMBDA_LAYERS; the rest is fixed."""
    python = os.environ.get("LAMBDA_PYTHON") or sys.exit("emulator: LAMBDA_PYTHON names no interpreter")
    port = os.environ.get("GATEWAY_PORT") or sys.exit("emulator: GATEWAY_PORT names no port")
    layers = os.environ.get("LAMBDA_LAYERS") or sys.exit("emulator: LAMBDA_LAYERS names no folder")
    os.environ.update(
        BIND_HOST="127.0.0.1", IOT_MTLS_ENABLED="0", SFTP_ENABLED="0", AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}"
    )
    modules = load()
    service = modules["ministack.services.lambda_svc"]
    run_under_runtime_client(modules["ministack.core.lambda_runtime"], service, python)
    queue_asynchronous(service, max(2, os.cpu_count() or 2))
    provisioners = modules["ministack.services.cloudformation.provisioners"]
    reserve_concurrency_by_template(provisioners, service)
    neighbour("emulator_layers").keep_layers(service, provisioners, Path(layers), python)
    sample_no_traces(service)
    await_reserved_concurrency(service)
    accept_max_concurrency_path(modules["ministack.services.stepfunctions"])
    importlib.import_module("ministack.app").main()


if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    main()

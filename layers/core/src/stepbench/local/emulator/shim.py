"""
MiniStack with Python Lambdas run by AWS's own runtime client, in processes of their own.

Started by path with the interpreter of the emulator's environment, which has MiniStack and nothing of ours, so this
file imports nothing of ours either. Stock MiniStack runs Python functions by a script of its own: every exception
is a `Runtime.HandlerError`, each error costs the sandbox, and each invocation waits for log lines. Here they go
through MiniStack's Runtime API server, as its custom runtimes do, with `awslambdaric` on the other end
(`lambda_sandbox.py`, run by LAMBDA_PYTHON). MiniStack is changed in memory only, here and in the files beside it that
are loaded by path; a symbol that is missing stops the start with a message, since a half-patched emulator would measure
something else.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

SUPPORTED = "1.5.33"
PATCHED = {
    "ministack.core.lambda_runtime": (
        "ProvidedRuntimeError",
        "ProvidedWorker",
        "_lock",
        "_worker_class_for",
        "_workers",
    ),
    "ministack.core.iam_actions": ("request_tag_context",),
    "ministack.core.iam_evaluator": ("enforce", "evaluate", "is_root_access_key"),
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
        "_invoke",
        "_validate_total_unzipped_size",
        "error_response_json",
        "executions_in_flight",
        "invoke_async_with_retry",
    ),
    "ministack.services.cloudformation.provisioners": ("_RESOURCE_HANDLERS",),
    "ministack.services.stepfunctions": (
        "_ExecutionError",
        "_apply_jsonata_output",
        "_apply_output_path",
        "_apply_parameters",
        "_apply_result_selector",
        "_call_lambda",
        "_error_matches",
        "_resolve_path_or_ctx",
        "_run_distributed_map",
        "_start_execution",
        "error_response_json",
    ),
}
PATCHED_METHODS = ("_await_init", "_build_handler_class", "_drain_stderr_bounded", "invoke")

Json = dict[str, Any]


def neighbour(name: str) -> Any:  # noqa: ANN401 -- a module
    """Load a module beside this file, which is not on the path: its names would hide other packages."""
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


def sample_no_traces(service: Any) -> None:  # noqa: ANN401 -- the module `lambda_svc`
    """Tell functions that their traces are not sampled: there is no X-Ray here, and its SDK takes long to import."""
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
    provisioners = modules["ministack.services.cloudformation.provisioners"]
    runtime, concurrency = modules["ministack.core.lambda_runtime"], neighbour("concurrency")
    neighbour("sandboxes").run_under_runtime_client(runtime, service, python)
    concurrency.queue_asynchronous(service, max(2, os.cpu_count() or 2))
    concurrency.reserve_concurrency_by_template(provisioners, service)
    neighbour("layers").patch_layers(service, provisioners, Path(layers), python)
    sample_no_traces(service)
    concurrency.await_reserved_concurrency(service)
    machines, limits = modules["ministack.services.stepfunctions"], neighbour("limits")
    accept_max_concurrency_path(machines)
    limits.refuse_large_requests(service)
    limits.limit_unzipped_size(provisioners, service)
    limits.limit_state_data(machines)
    limits.name_throttles(machines)
    limits.watch_memory(runtime)
    if decisions := os.environ.get("DECISIONS"):
        evaluator, permissions = modules["ministack.core.iam_evaluator"], neighbour("permissions")
        permissions.record_decisions(evaluator, Path(decisions))
        permissions.supply_condition_keys(modules["ministack.core.iam_actions"])
    importlib.import_module("ministack.app").main()


if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    main()

"""
Limits of AWS's that MiniStack does not have: payloads, unzipped size, memory, and what state machines may pass on.

A function that breaks one breaks here with AWS's own error. The file system is in `lambda_sandbox.py`, concurrency in
`concurrency.py`. `shim.py` loads this by path, so it imports nothing of ours.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from typing import Any

Json = dict[str, Any]

REQUEST_BYTES = {"RequestResponse": 6 * 1024**2, "Event": 1024**2}
"""Limits by invocation type. Asynchronous events were 256 KiB until October 2025."""
STATE_BYTES = 256 * 1024
"""A state's input, a task's result, a state's output, an execution's input; UTF-8."""
TOO_LARGE = "States.DataLimitExceeded"
UNCATCHABLE = frozenset({TOO_LARGE, "States.Runtime"})
"""Only a Retry or Catch that names them matches these: `States.ALL` and `States.TaskFailed` do not."""
THROTTLED = "Lambda.TooManyRequestsException"
MEMORY_EVERY_S, IDLE_TURNS = 0.1, 10


def refuse_large_requests(service: Any) -> None:  # noqa: ANN401 -- the module `lambda_svc`
    """Let the Invoke API refuse payloads over Lambda's limits."""
    stock = service._invoke  # noqa: SLF001 -- wrapped

    async def invoke(name: str, event: Any, headers: Json, *rest: Any, **named: Any) -> Any:  # noqa: ANN401 -- JSON
        limit = REQUEST_BYTES.get(headers.get("x-amz-invocation-type") or "RequestResponse")
        if limit is not None and int(headers.get("content-length") or 0) > limit:
            said = f"Request must be smaller than {limit} bytes for the InvokeFunction operation"
            return service.error_response_json("RequestEntityTooLargeException", said, 413)
        return await stock(name, event, headers, *rest, **named)

    service._invoke = invoke  # noqa: SLF001


def limit_unzipped_size(provisioners: Any, service: Any) -> None:  # noqa: ANN401 -- modules
    """
    Let CloudFormation refuse functions that are over 250 MB with their layers, as MiniStack's own API does.

    Args:
        provisioners: the module `ministack.services.cloudformation.provisioners`.
        service: the module `ministack.services.lambda_svc`.
    """
    handlers = provisioners._RESOURCE_HANDLERS["AWS::Lambda::Function"]  # noqa: SLF001 -- we patch it
    stock = handlers["create"]  # an update goes through the API's own check

    def create(*arguments: Any) -> Any:  # noqa: ANN401 -- as the original
        answer = stock(*arguments)
        function = service._functions[answer[0]]  # noqa: SLF001
        layers = function["config"].get("Layers")
        refused = service._validate_total_unzipped_size(function.get("code_zip"), layers)  # noqa: SLF001
        if refused:
            del service._functions[answer[0]]  # noqa: SLF001
            message = f"{answer[0]}: {json.loads(refused[2])['message']}"
            raise ValueError(message)  # as MiniStack's own provisioners say no
        return answer

    handlers.update(create=create)


def limit_state_data(service: Any) -> None:  # noqa: ANN401 -- the module `stepfunctions`
    """Fail executions whose states pass on more than 256 KiB, and refuse to start one with a larger input."""
    for name in ("_apply_parameters", "_apply_result_selector", "_apply_output_path", "_apply_jsonata_output"):
        of_result = name == "_apply_result_selector"
        setattr(service, name, _bounded(getattr(service, name), service._ExecutionError, of_result=of_result))  # noqa: SLF001
    stock_start, stock_matches = service._start_execution, service._error_matches  # noqa: SLF001

    def start(data: Json) -> Any:  # noqa: ANN401 -- a response
        if len(data.get("input", "").encode()) > STATE_BYTES:
            said = f"Value at 'input' failed to satisfy constraint: Member must have length at most {STATE_BYTES}"
            return service.error_response_json("ValidationException", said, 400)
        return stock_start(data)

    def matches(error_equals: list[str], error: str) -> bool:
        return error in error_equals if error in UNCATCHABLE else stock_matches(error_equals, error)

    service._start_execution, service._error_matches = start, matches  # noqa: SLF001


def _bounded(stock: Any, failure: Any, *, of_result: bool) -> Any:  # noqa: ANN401 -- functions and classes of MiniStack's
    """Return the function with a limit on what it makes, and with `of_result` on what it is given, a state's result."""

    def apply(state: Json, *rest: Any, **named: Any) -> Any:  # noqa: ANN401 -- JSON
        answer = stock(state, *rest, **named)
        for data in (*rest, answer) if of_result else (answer,):
            if len(json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()) > STATE_BYTES:
                said = f"a result with a size exceeding the maximum number of bytes service limit ({STATE_BYTES})"
                name = state.get("Resource", state.get("Type"))
                raise failure(TOO_LARGE, f"The state/task '{name}' returned {said}.")
        return answer

    return apply


def name_throttles(service: Any) -> None:  # noqa: ANN401 -- the module `stepfunctions`
    """Let a throttled task fail as `Lambda.TooManyRequestsException`, not as `Lambda.Unknown`."""
    stock = service._call_lambda  # noqa: SLF001 -- wrapped

    def call(function: str, event: Any) -> Any:  # noqa: ANN401 -- JSON
        try:
            return stock(function, event)
        except service._ExecutionError as error:  # noqa: SLF001
            if error.error != "Lambda.Unknown" or "TooManyRequestsException" not in error.cause:
                raise
            raise service._ExecutionError(THROTTLED, error.cause) from error  # noqa: SLF001

    service._call_lambda = call  # noqa: SLF001


def watch_memory(runtime: Any) -> None:  # noqa: ANN401 -- the module `lambda_runtime`
    """
    End sandboxes that hold more memory than their function has.

    Looked at from outside, ten times a second, or once a second while a sandbox has no work: what is allocated and
    freed in between passes. (An address space limit would count what numerical libraries reserve and never touch; a
    control group needs root.)
    """

    def watch() -> None:
        for turn in itertools.count():
            time.sleep(MEMORY_EVERY_S)
            with runtime._lock:  # noqa: SLF001
                pools = [worker for pool in runtime._workers.values() for worker in pool]  # noqa: SLF001
            for worker in pools:
                if worker.in_use or turn % IDLE_TURNS == 0:
                    getattr(worker, "enforce_memory", bool)()

    threading.Thread(target=watch, daemon=True, name="memory-limit").start()

"""
Limits of AWS's that MiniStack does not have: sandboxes, payloads, unzipped size, memory, and state machines' data.

A function that breaks one breaks here with AWS's own error; events and requests queue for sandboxes as on Lambda. The
file system is in `lambda_sandbox.py`. `shim.py` loads this by path, so it imports nothing of ours.
"""

from __future__ import annotations

import contextvars
import itertools
import json
import threading
import time
from collections import defaultdict
from typing import Any

Json = dict[str, Any]
REQUEST_S = 25.0
"""How long a request waits for a sandbox: the gateway waits for 30 s for its answer."""
TOO_MANY = 429


def queue_for_sandboxes(service: Any, gateway: Any, sandboxes: int) -> None:
    """
    Let asynchronous events, and requests to an API, wait for one of so many sandboxes of their function.

    MiniStack starts a sandbox for each that finds none free. On a small machine that never ends once it has begun: a
    receiver that stands still for a second leaves twenty sandboxes to start, those take the processors from the ones
    that work, and every further event adds one; of a hundred requests that find an API cold, all start at once, and
    none within its time. Events wait as in Lambda's own queue, without a limit, and come to nothing where their
    function is deleted meanwhile; requests for `REQUEST_S`, and are throttled then, as on Lambda.

    Args:
        service: the module `ministack.services.lambda_svc`.
        gateway: the module `ministack.services.apigateway`.
        sandboxes: of each function.
    """
    waits = contextvars.ContextVar[float | None]("waits", default=0.0)  # seconds at most; None: as long as it takes
    free: defaultdict[str, threading.Semaphore] = defaultdict(lambda: threading.Semaphore(sandboxes))
    stock_invoke, stock_execute = service.invoke_async_with_retry, service._execute_function
    stock_proxy = gateway._invoke_lambda_proxy

    def invoke_asynchronously(function: Json, event: Any) -> None:
        token = waits.set(None)
        try:
            stock_invoke(function, event)  # its thread runs in a copy of this context
        finally:
            waits.reset(token)

    async def invoke_for_request(*arguments: Any, **named: Any) -> Any:
        token = waits.set(REQUEST_S)
        try:
            status, headers, body = await stock_proxy(*arguments, **named)  # likewise
        finally:
            waits.reset(token)
        return status, {"Retry-After": "1", **headers} if status == TOO_MANY else headers, body

    def is_dropped(function: Json, limit_s: float | None) -> bool:
        name = (function.get("config") or function).get("FunctionName")
        return limit_s is None and name is not None and name not in service._functions

    def execute(function: Json, event: Any) -> Any:
        limit_s = waits.get()
        if limit_s == 0:
            return stock_execute(function, event)
        gate = free[(function.get("config") or function).get("FunctionArn", "")]
        if not gate.acquire(timeout=limit_s):
            return service._throttle_response("ConcurrentInvocationLimitExceeded", "Rate Exceeded.")
        token = waits.set(0.0)  # it may call itself once more, in another scope
        try:
            return {} if is_dropped(function, limit_s) else stock_execute(function, event)
        finally:
            waits.reset(token)
            gate.release()

    service.invoke_async_with_retry, service._execute_function = invoke_asynchronously, execute
    gateway._invoke_lambda_proxy = invoke_for_request


def reserve_concurrency_by_template(provisioners: Any, service: Any) -> None:
    """
    Let CloudFormation set ReservedConcurrentExecutions of a function, which MiniStack knows from its API only.

    Args:
        provisioners: the module `ministack.services.cloudformation.provisioners`.
        service: the module `ministack.services.lambda_svc`.
    """
    handlers = provisioners._RESOURCE_HANDLERS["AWS::Lambda::Function"]
    stock_create, stock_update = handlers["create"], handlers["update"]

    def reserve(created: Any, properties: Json) -> Any:
        wanted = properties.get("ReservedConcurrentExecutions")
        service._functions[created[0]]["concurrency"] = None if wanted is None else int(wanted)
        return created

    def create(logical_id: str, properties: Json, *rest: Any) -> Any:
        return reserve(stock_create(logical_id, properties, *rest), properties)

    def update(physical_id: str, old: Json, new: Json, *rest: Any, **named: Any) -> Any:
        return reserve(stock_update(physical_id, old, new, *rest, **named), new)

    handlers.update(create=create, update=update)


def await_reserved_concurrency(service: Any, limit_s: float = 5.0) -> None:
    """
    Let a stream's delivery wait until its function's reserved concurrency is free, for a while.

    MiniStack's poller takes a busy function for a failing one and leaves it alone for a second. Where one sandbox
    writes and receives it finds it busy each time, since the stream has the record before the write is answered; the
    second would be the latency.
    """
    delivering = contextvars.ContextVar("delivering", default=False)
    freed = threading.Condition()
    stock_poll, stock_execute = service._poll_dynamodb_streams, service._execute_function
    stock_release = service._release_execution_slot

    def poll() -> Any:
        token = delivering.set(True)
        try:
            return stock_poll()
        finally:
            delivering.reset(token)

    def release(slot: Any) -> None:
        stock_release(slot)
        with freed:
            freed.notify_all()

    def is_free(function: Json) -> bool:
        config = function.get("config") or function
        reserved = service._reserved_concurrency(function, config)
        _, by_function = service.executions_in_flight()
        return not reserved or by_function.get(service._inflight_key(config), 0) < reserved

    def execute(function: Json, event: Any) -> Any:
        if delivering.get():
            with freed:
                freed.wait_for(lambda: is_free(function), limit_s)
        return stock_execute(function, event)

    service._poll_dynamodb_streams, service._execute_function = poll, execute
    service._release_execution_slot = release


def finish_invocations(runtime: Any, service: Any) -> None:
    """
    Let sandboxes that are at work end their invocation when their function's configuration changes.

    On AWS an invocation that has begun goes on in the sandbox that it has, which gets no other. MiniStack kills it.

    Args:
        runtime: the module `ministack.core.lambda_runtime`.
        service: the module `ministack.services.lambda_svc`.
    """
    stock_invalidate, stock_release = service.invalidate_worker, service.release_worker
    retired: set[int] = set()

    def invalidate(name: str, qualifier: str | None = None, **scope: Any) -> None:
        if not scope:  # a change of the configuration; otherwise the function is deleted, or its sandbox has failed
            with runtime._lock:
                for key, pool in runtime._workers.items():
                    if key.split(":")[-2:] == [name, qualifier]:
                        retired.update(id(worker) for worker in pool if worker.in_use)
                        pool[:] = [worker for worker in pool if not worker.in_use]
        stock_invalidate(name, qualifier=qualifier, **scope)

    def release(worker: Any) -> None:
        stock_release(worker)
        if id(worker) in retired:
            retired.discard(id(worker))
            runtime.kill_workers([worker])

    service.invalidate_worker, service.release_worker = invalidate, release


REQUEST_BYTES = {"RequestResponse": 6 * 1024**2, "Event": 1024**2}
"""Limits by invocation type. Asynchronous events were 256 KiB until October 2025."""
STATE_BYTES = 256 * 1024
"""A state's input, a task's result, a state's output, an execution's input; UTF-8."""
TOO_LARGE = "States.DataLimitExceeded"
UNCATCHABLE = frozenset({TOO_LARGE, "States.Runtime"})
"""Only a Retry or Catch that names them matches these: `States.ALL` and `States.TaskFailed` do not."""
THROTTLED = "Lambda.TooManyRequestsException"
MEMORY_EVERY_S, IDLE_TURNS = 0.1, 10


def refuse_large_requests(service: Any) -> None:
    """Let the Invoke API refuse payloads over Lambda's limits."""
    stock = service._invoke

    async def invoke(name: str, event: Any, headers: Json, *rest: Any, **named: Any) -> Any:
        limit = REQUEST_BYTES.get(headers.get("x-amz-invocation-type") or "RequestResponse")
        if limit is not None and int(headers.get("content-length") or 0) > limit:
            said = f"Request must be smaller than {limit} bytes for the InvokeFunction operation"
            return service.error_response_json("RequestEntityTooLargeException", said, 413)
        return await stock(name, event, headers, *rest, **named)

    service._invoke = invoke


def limit_unzipped_size(provisioners: Any, service: Any) -> None:
    """
    Let CloudFormation refuse functions that are over 250 MB with their layers, as MiniStack's own API does.

    Args:
        provisioners: the module `ministack.services.cloudformation.provisioners`.
        service: the module `ministack.services.lambda_svc`.
    """
    handlers = provisioners._RESOURCE_HANDLERS["AWS::Lambda::Function"]
    stock = handlers["create"]  # an update goes through the API's own check

    def create(*arguments: Any) -> Any:
        answer = stock(*arguments)
        function = service._functions[answer[0]]
        layers = function["config"].get("Layers")
        refused = service._validate_total_unzipped_size(function.get("code_zip"), layers)
        if refused:
            del service._functions[answer[0]]
            message = f"{answer[0]}: {json.loads(refused[2])['message']}"
            raise ValueError(message)  # as MiniStack's own provisioners say no
        return answer

    handlers.update(create=create)


def limit_state_data(service: Any) -> None:
    """Fail executions whose states pass on more than 256 KiB, and refuse to start one with a larger input."""
    for name in ("_apply_parameters", "_apply_result_selector", "_apply_output_path", "_apply_jsonata_output"):
        of_result = name == "_apply_result_selector"
        setattr(service, name, _bounded(getattr(service, name), service._ExecutionError, of_result=of_result))
    stock_start, stock_matches = service._start_execution, service._error_matches

    def start(data: Json) -> Any:
        if len(data.get("input", "").encode()) > STATE_BYTES:
            said = f"Value at 'input' failed to satisfy constraint: Member must have length at most {STATE_BYTES}"
            return service.error_response_json("ValidationException", said, 400)
        return stock_start(data)

    def matches(error_equals: list[str], error: str) -> bool:
        return error in error_equals if error in UNCATCHABLE else stock_matches(error_equals, error)

    service._start_execution, service._error_matches = start, matches


def _bounded(stock: Any, failure: Any, *, of_result: bool) -> Any:
    """Return the function with a limit on what it makes, and with `of_result` on what it is given, a state's result."""

    def apply(state: Json, *rest: Any, **named: Any) -> Any:
        answer = stock(state, *rest, **named)
        for data in (*rest, answer) if of_result else (answer,):
            if len(json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()) > STATE_BYTES:
                said = f"a result with a size exceeding the maximum number of bytes service limit ({STATE_BYTES})"
                name = state.get("Resource", state.get("Type"))
                raise failure(TOO_LARGE, f"The state/task '{name}' returned {said}.")
        return answer

    return apply


def name_throttles(service: Any) -> None:
    """Let a throttled task fail as `Lambda.TooManyRequestsException`, not as `Lambda.Unknown`."""
    stock = service._call_lambda

    def call(function: str, event: Any) -> Any:
        try:
            return stock(function, event)
        except service._ExecutionError as error:
            if error.error != "Lambda.Unknown" or "TooManyRequestsException" not in error.cause:
                raise
            raise service._ExecutionError(THROTTLED, error.cause) from error

    service._call_lambda = call


def watch_memory(runtime: Any) -> None:
    """
    End sandboxes that hold more memory than their function has.

    Looked at from outside, ten times a second, or once a second while a sandbox has no work: what is allocated and
    freed in between passes. (An address space limit would count what numerical libraries reserve and never touch; a
    control group needs root.)
    """

    def watch() -> None:
        for turn in itertools.count():
            time.sleep(MEMORY_EVERY_S)
            with runtime._lock:
                pools = [worker for pool in runtime._workers.values() for worker in pool]
            for worker in pools:
                if worker.in_use or turn % IDLE_TURNS == 0:
                    getattr(worker, "enforce_memory", bool)()

    threading.Thread(target=watch, daemon=True, name="memory-limit").start()

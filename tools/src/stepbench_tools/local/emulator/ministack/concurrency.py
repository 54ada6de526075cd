"""
Limits on a function's sandboxes, as on Lambda: queues of events and of requests, and reserved concurrency.

`shim.py` loads this by path, so it imports nothing of ours.
"""

from __future__ import annotations

import contextvars
import threading
from collections import defaultdict
from typing import Any

Json = dict[str, Any]
REQUEST_S = 25.0
"""How long a request waits for a sandbox: the gateway waits for 30 s for its answer."""
TOO_MANY = 429


def queue_for_sandboxes(service: Any, gateway: Any, sandboxes: int) -> None:  # noqa: ANN401 -- modules
    """
    Let asynchronous events, and requests to an API, wait for one of so many sandboxes of their function.

    MiniStack starts a sandbox for each that finds none free. On a small machine that never ends once it has begun: a
    receiver that stands still for a second leaves twenty sandboxes to start, those take the processors from the ones
    that work, and every further event adds one; of a hundred requests that find an API cold, all start at once, and
    none within its time. Events wait as in Lambda's own queue, without a limit; requests for `REQUEST_S`, and are
    throttled then, as on Lambda.

    Args:
        service: the module `ministack.services.lambda_svc`.
        gateway: the module `ministack.services.apigateway`.
        sandboxes: of each function.
    """
    waits = contextvars.ContextVar[float | None]("waits", default=0.0)  # seconds at most; None: as long as it takes
    free: defaultdict[str, threading.Semaphore] = defaultdict(lambda: threading.Semaphore(sandboxes))
    stock_invoke, stock_execute = service.invoke_async_with_retry, service._execute_function  # noqa: SLF001
    stock_proxy = gateway._invoke_lambda_proxy  # noqa: SLF001 -- wrapped, too

    def invoke_asynchronously(function: Json, event: Any) -> None:  # noqa: ANN401 -- JSON
        token = waits.set(None)
        try:
            stock_invoke(function, event)  # its thread runs in a copy of this context
        finally:
            waits.reset(token)

    async def invoke_for_request(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 -- as the original
        token = waits.set(REQUEST_S)
        try:
            status, headers, body = await stock_proxy(*arguments, **named)  # likewise
        finally:
            waits.reset(token)
        return status, {"Retry-After": "1", **headers} if status == TOO_MANY else headers, body

    def execute(function: Json, event: Any) -> Any:  # noqa: ANN401 -- JSON
        limit_s = waits.get()
        if limit_s == 0:
            return stock_execute(function, event)
        gate = free[(function.get("config") or function).get("FunctionArn", "")]
        if not gate.acquire(timeout=limit_s):
            return service._throttle_response("ConcurrentInvocationLimitExceeded", "Rate Exceeded.")  # noqa: SLF001
        token = waits.set(0.0)  # it may call itself once more, in another scope
        try:
            return stock_execute(function, event)
        finally:
            waits.reset(token)
            gate.release()

    service.invoke_async_with_retry, service._execute_function = invoke_asynchronously, execute  # noqa: SLF001
    gateway._invoke_lambda_proxy = invoke_for_request  # noqa: SLF001


def reserve_concurrency_by_template(provisioners: Any, service: Any) -> None:  # noqa: ANN401 -- modules
    """
    Let CloudFormation set ReservedConcurrentExecutions of a function, which MiniStack knows from its API only.

    Args:
        provisioners: the module `ministack.services.cloudformation.provisioners`.
        service: the module `ministack.services.lambda_svc`.
    """
    handlers = provisioners._RESOURCE_HANDLERS["AWS::Lambda::Function"]  # noqa: SLF001 -- we patch it
    stock_create, stock_update = handlers["create"], handlers["update"]

    def reserve(created: Any, properties: Json) -> Any:  # noqa: ANN401 -- as the originals
        wanted = properties.get("ReservedConcurrentExecutions")
        service._functions[created[0]]["concurrency"] = None if wanted is None else int(wanted)  # noqa: SLF001
        return created

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


def finish_invocations(runtime: Any, service: Any) -> None:  # noqa: ANN401 -- modules
    """
    Let sandboxes that are at work end their invocation when their function's configuration changes.

    On AWS an invocation that has begun goes on in the sandbox that it has, which gets no other. MiniStack kills it.

    Args:
        runtime: the module `ministack.core.lambda_runtime`.
        service: the module `ministack.services.lambda_svc`.
    """
    stock_invalidate, stock_release = service.invalidate_worker, service.release_worker
    retired: set[int] = set()

    def invalidate(name: str, qualifier: str | None = None, **scope: Any) -> None:  # noqa: ANN401 -- as the original
        if not scope:  # a change of the configuration; otherwise the function is deleted, or its sandbox has failed
            with runtime._lock:  # noqa: SLF001
                for key, pool in runtime._workers.items():  # noqa: SLF001
                    if key.split(":")[-2:] == [name, qualifier]:
                        retired.update(id(worker) for worker in pool if worker.in_use)
                        pool[:] = [worker for worker in pool if not worker.in_use]
        stock_invalidate(name, qualifier=qualifier, **scope)

    def release(worker: Any) -> None:  # noqa: ANN401 -- a sandbox
        stock_release(worker)
        if id(worker) in retired:
            retired.discard(id(worker))
            runtime.kill_workers([worker])

    service.invalidate_worker, service.release_worker = invalidate, release

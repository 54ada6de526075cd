"""Queue and reservations, on stand-ins for MiniStack's modules, which are in an environment of their own."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

from stepbench_tools.local.emulator.ministack import limits


class AsynchronousService:
    """It invokes asynchronously as MiniStack does: by a thread each, in a copy of the caller's context."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.entered = threading.Semaphore(0)
        self.done: list[str] = []
        self.functions = self._functions = dict[str, Any]()
        self._running = 0
        self.most = 0
        self._lock = threading.Lock()
        self.threads: list[threading.Thread] = []

    def invoke_async_with_retry(self, function: dict[str, Any], event: str) -> None:
        """Start a thread that executes."""
        run = contextvars.copy_context().run
        thread = threading.Thread(target=run, args=(lambda: self._execute_function(function, event),))
        thread.start()
        self.threads.append(thread)

    @staticmethod
    def _throttle_response(reason: str, message: str) -> dict[str, str]:
        return {"Reason": reason, "message": message}

    def _execute_function(self, _function: dict[str, Any], event: str) -> Any:  # noqa: ANN401 -- JSON
        with self._lock:
            self._running += 1
            self.most = max(self.most, self._running)
        self.entered.release()
        assert self.release.wait(10)
        with self._lock:
            self._running -= 1
            self.done.append(event)
        return event


class Gateway:
    """An API of one function, which it executes as MiniStack does: in a thread with a copy of the request's context."""

    def __init__(self, service: Any) -> None:  # noqa: ANN401 -- either of two
        self._service = service

    async def _invoke_lambda_proxy(self, function: dict[str, Any], event: str) -> tuple[int, dict[str, str], str]:
        answer = await asyncio.to_thread(self._service._execute_function, function, event)
        return (429, {}, answer["message"]) if isinstance(answer, dict) else (200, {}, answer)


def test_asynchronous_invocations_wait_for_a_sandbox_and_none_is_dropped() -> None:
    """Two of twenty events run at a time, and in the end all have; another function has sandboxes of its own."""
    service = AsynchronousService()
    limits.queue_for_sandboxes(service, Gateway(service), 2)
    for event in range(20):
        service.invoke_async_with_retry({"config": {"FunctionArn": "busy"}}, f"{event}")
    assert all(service.entered.acquire(timeout=10) for _ in range(2))
    service.invoke_async_with_retry({"FunctionArn": "other"}, "other")
    assert service.entered.acquire(timeout=10)
    assert not service.entered.acquire(timeout=0.1)
    service.release.set()
    for thread in service.threads:
        thread.join(10)
    assert sorted(service.done) == sorted([*map(str, range(20)), "other"])
    assert service.most == 3


def test_an_event_that_waits_is_dropped_with_its_function() -> None:
    """A copy's queue would go on for minutes after its trial, and make its log anew."""
    service = AsynchronousService()
    limits.queue_for_sandboxes(service, Gateway(service), 1)
    service.functions["copy"] = {}
    for event in ("under way", "waiting"):
        service.invoke_async_with_retry({"FunctionName": "copy", "FunctionArn": "copy"}, event)
        assert event == "waiting" or service.entered.acquire(timeout=10)
    service.functions.clear()
    service.release.set()
    for thread in service.threads:
        thread.join(10)
    assert service.done == ["under way"]


def requested(service: AsynchronousService, gateway: Gateway, requests: int) -> list[tuple[int, dict[str, str], str]]:
    """Return the answers to so many requests at once, two of which have begun before any may end."""

    async def ask() -> list[tuple[int, dict[str, str], str]]:
        calls = [gateway._invoke_lambda_proxy({"FunctionArn": "api"}, f"{event}") for event in range(requests)]
        answers = asyncio.gather(*calls)
        assert all([await asyncio.to_thread(service.entered.acquire, timeout=10) for _ in range(2)])
        service.release.set()
        return await answers

    return asyncio.run(ask())


def test_requests_to_a_cold_api_wait_for_its_sandboxes_and_all_are_answered() -> None:
    """A hundred sandboxes that start at once on two processors answer nobody within the gateway's time."""
    service = AsynchronousService()
    gateway = Gateway(service)
    limits.queue_for_sandboxes(service, gateway, 2)
    assert requested(service, gateway, 4) == [(200, {}, f"{event}") for event in range(4)]
    assert service.most == 2


def test_a_request_that_waits_too_long_is_throttled_as_on_lambda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its client learns when to come back, in place of a gateway's time-out."""
    monkeypatch.setattr(limits, "REQUEST_S", 0.01)
    service = AsynchronousService()
    gateway = Gateway(service)
    limits.queue_for_sandboxes(service, gateway, 1)
    service.invoke_async_with_retry({"FunctionArn": "api"}, "event")
    assert service.entered.acquire(timeout=10)
    answer = asyncio.run(gateway._invoke_lambda_proxy({"FunctionArn": "api"}, "request"))
    assert answer == (429, {"Retry-After": "1"}, "Rate Exceeded.")
    service.release.set()
    service.threads[0].join(10)


def test_a_synchronous_invocation_waits_for_nobody() -> None:
    """It may come from a function that holds the last sandbox, and would wait for itself."""
    service = AsynchronousService()
    limits.queue_for_sandboxes(service, Gateway(service), 1)
    function = {"FunctionArn": "busy"}
    service.invoke_async_with_retry(function, "asynchronous")
    assert service.entered.acquire(timeout=10)
    synchronous = threading.Thread(target=service._execute_function, args=(function, "synchronous"))
    synchronous.start()
    assert service.entered.acquire(timeout=10)
    service.release.set()
    for thread in (*service.threads, synchronous):
        thread.join(10)
    assert sorted(service.done) == ["asynchronous", "synchronous"]


def test_a_function_that_is_executed_again_in_another_scope_does_not_wait_for_itself() -> None:
    """MiniStack enters its own `_execute_function` a second time where the account or region differs."""
    service = AsynchronousService()
    inner = service._execute_function
    service.release.set()

    def twice(function: dict[str, Any], event: str) -> Any:  # noqa: ANN401 -- JSON
        scoped = {**function, "scoped": True}
        return inner(function, event) if "scoped" in function else service._execute_function(scoped, event)

    service._execute_function = twice  # type: ignore[method-assign,assignment]
    limits.queue_for_sandboxes(service, Gateway(service), 1)
    service.invoke_async_with_retry({"FunctionArn": "f"}, "event")
    service.threads[0].join(10)
    assert service.done == ["event"]


class ReservingService:
    """It counts who is running as MiniStack does; the stock poller delivers one event to the function `checker`."""

    def __init__(self, reserved: int | None) -> None:
        self.function = {"config": {"FunctionName": "checker"}, "concurrency": reserved}
        self.running = 0
        self.found_running: list[int] = []

    def _reserved_concurrency(self, function: dict[str, Any], _config: dict[str, Any]) -> int | None:
        reserved: int | None = function["concurrency"]
        return reserved

    def _inflight_key(self, config: dict[str, Any]) -> str:
        return f"account:region:{config['FunctionName']}"

    def executions_in_flight(self) -> tuple[int, dict[str, int]]:
        """Return those of one function."""
        return self.running, {"account:region:checker": self.running}

    def _release_execution_slot(self, _slot: str) -> None:
        self.running -= 1

    def _execute_function(self, _function: dict[str, Any], _event: str) -> None:
        self.found_running.append(self.running)

    def _poll_dynamodb_streams(self) -> bool:
        self._execute_function(self.function, "record")
        return True


def test_a_streams_delivery_waits_for_the_functions_one_slot() -> None:
    """One that is refused is tried again a second later, and that second would be the latency."""
    service = ReservingService(reserved=1)
    limits.await_reserved_concurrency(service, limit_s=10)
    service.running = 1
    poller = threading.Thread(target=service._poll_dynamodb_streams)
    poller.start()
    poller.join(0.1)
    assert service.found_running == []
    service._release_execution_slot("slot")
    poller.join(10)
    assert service.found_running == [0]


def test_the_wait_for_a_slot_has_an_end() -> None:
    """The poller serves all streams; what is not free by then is refused, as before."""
    service = ReservingService(reserved=1)
    limits.await_reserved_concurrency(service, limit_s=0.05)
    service.running = 1
    assert service._poll_dynamodb_streams()
    assert service.found_running == [1]


def test_only_deliveries_wait_and_only_for_a_slot_that_is_reserved() -> None:
    """A synchronous invocation of a busy function is refused on AWS, too; a function without a limit is never busy."""
    service = ReservingService(reserved=1)
    limits.await_reserved_concurrency(service, limit_s=60)
    service.running = 1
    service._execute_function(service.function, "write")
    unlimited = ReservingService(reserved=None)
    limits.await_reserved_concurrency(unlimited, limit_s=60)
    unlimited.running = 5
    unlimited._poll_dynamodb_streams()
    assert (service.found_running, unlimited.found_running) == ([1], [5])


def test_a_template_reserves_concurrency_and_takes_it_back() -> None:
    """MiniStack drops the property: CheckClock would get a second sandbox, and a second clock, without a word."""
    service = SimpleNamespace(_functions={"f": {"concurrency": None}})
    handlers = {
        "create": lambda logical_id, _properties, _stack: (logical_id, {"Arn": "arn"}),
        "update": lambda physical_id, _old, _new, _stack, logical_id=None: (physical_id, {"Logical": logical_id}),
        "delete": "untouched",
    }
    provisioners = SimpleNamespace(_RESOURCE_HANDLERS={"AWS::Lambda::Function": handlers})
    limits.reserve_concurrency_by_template(provisioners, service)
    create: Any = handlers["create"]
    update: Any = handlers["update"]
    assert create("f", {"ReservedConcurrentExecutions": "1"}, "stack") == ("f", {"Arn": "arn"})
    assert service._functions["f"]["concurrency"] == 1
    assert update("f", {}, {}, "stack", logical_id="F") == ("f", {"Logical": "F"})
    assert service._functions["f"]["concurrency"] is None
    assert handlers["delete"] == "untouched"


class Worker(SimpleNamespace):
    """A sandbox, as far as the pool knows it."""


def _pooled(**busy: bool) -> tuple[Any, Any, list[str]]:
    """Return stand-ins for the runtime and the service with such sandboxes of `f`, and whom the stock code ended."""
    ended: list[str] = []
    workers = [Worker(name=name, in_use=in_use) for name, in_use in busy.items()]
    runtime = SimpleNamespace(_lock=threading.Lock(), _workers={"0:us-east-1:f:$LATEST": workers})
    runtime.kill_workers = lambda found: ended.extend(worker.name for worker in found)

    def invalidate(_name: str, qualifier: str | None = None, **_scope: str) -> None:
        del qualifier
        runtime.kill_workers(runtime._workers.pop("0:us-east-1:f:$LATEST"))

    service = SimpleNamespace(
        invalidate_worker=invalidate, release_worker=lambda worker: setattr(worker, "in_use", False)
    )
    limits.finish_invocations(runtime, service)
    return service, workers, ended


def test_a_busy_sandbox_outlives_a_change_of_its_function_until_it_is_done() -> None:
    """And serves nobody after that; one that was idle ends at once."""
    service, (idle, busy), ended = _pooled(idle=False, busy=True)
    service.invalidate_worker("f", qualifier="$LATEST")
    assert ended == ["idle"]
    service.release_worker(busy)
    assert ended == ["idle", "busy"]
    service.release_worker(idle)
    assert ended == ["idle", "busy"]


def test_a_function_that_is_deleted_or_whose_sandbox_fails_has_none_left() -> None:
    """As before: only a change of the configuration names no account."""
    service, _, ended = _pooled(idle=False, busy=True)
    service.invalidate_worker("f", qualifier="$LATEST", account="0", region="us-east-1")
    assert ended == ["idle", "busy"]

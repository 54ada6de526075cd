"""The shim's patches, on stand-ins for MiniStack's modules: MiniStack itself is in an environment of its own."""

from __future__ import annotations

import contextvars
import os
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from stepbench.local import emulator_shim as shim


class ProvidedWorker:
    """As much of MiniStack's worker as the shim overrides."""

    _init_error: object = None

    def _drain_stderr_bounded(self, first_line_wait: float, idle_confirm: float, hard_cap: float) -> tuple[float, ...]:
        return first_line_wait, idle_confirm, hard_cap

    def _build_handler_class(self, generation: int, pending: object) -> type:
        return type("Handler", (), {"generation": generation, "pending": pending})

    def _await_init(self, _timeout: float | None) -> None:
        message = "init error"
        raise RuntimeError(message)

    def invoke(self, event: object, request_id: str, **options: object) -> tuple[object, ...]:
        """Answer with what came."""
        return event, request_id, options


class InitFailedError(RuntimeError):
    """MiniStack's ProvidedRuntimeError."""

    def __init__(self, message: str, error_type: str) -> None:
        super().__init__(message)
        self.error_type = error_type


def lambda_service(tmp_path: Path) -> SimpleNamespace:
    """MiniStack's `lambda_svc`; layers are their own unpacked folder's name."""
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
        _execute_function_provided_warm=lambda _function, _event, _request: "runtime client",
    )


def test_python_functions_go_to_the_runtime_client_and_others_do_not(tmp_path: Path) -> None:
    """A custom runtime beside ours has to work as before."""
    service = lambda_service(tmp_path)
    runtime = SimpleNamespace(
        ProvidedWorker=ProvidedWorker, ProvidedRuntimeError=InitFailedError, _worker_class_for=lambda _config: "stock"
    )
    shim.run_under_runtime_client(runtime, service, "/usr/bin/python")
    ours, other = {"Runtime": "python3.11"}, {"Runtime": "nodejs22.x"}
    assert issubclass(runtime._worker_class_for(ours), ProvidedWorker)
    assert runtime._worker_class_for(other) == "stock"
    assert service._execute_function_warm({"config": ours}, {}, "r") == "runtime client"
    assert service._execute_function_warm(other, {}, "r") == "stock"


def test_the_bootstrap_runs_the_sandbox_with_lambdas_interpreter(tmp_path: Path) -> None:
    """A path with a blank in it must survive the shell; a bootstrap that came with the code stays."""
    make = shim.with_bootstrap(lambda_service(tmp_path), "/opt/my python/bin/python")
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
    monkeypatch.setenv("TZ", "UTC")
    environment = shim.sandbox_environment(lambda_service(tmp_path))
    config = {
        "Runtime": "python3.12",
        "FunctionName": "f",
        "Handler": "h.handler",
        "Environment": {"Variables": {"MINE": "1", "_HANDLER": "stolen"}},
        "Layers": [],
    }
    made = environment(config, "/code", 1)
    assert made["MINE"] == "1"
    assert made["_HANDLER"] == "h.handler"
    assert made["TZ"] == "UTC"
    assert made["AWS_LAMBDA_LOG_GROUP_NAME"] == "/aws/lambda/f"
    assert made["PYTHONPATH"] == "/code"
    assert not {"VIRTUAL_ENV", "AWS_SESSION_TOKEN"} & made.keys()


def test_another_runtimes_environment_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only Python functions are ours."""
    monkeypatch.setenv("VIRTUAL_ENV", "/ours")
    environment = shim.sandbox_environment(lambda_service(tmp_path))
    assert environment({"Runtime": "provided.al2023", "Handler": "h"}, "/code", 1)["VIRTUAL_ENV"] == "/ours"


def test_layers_are_searched_from_the_last_to_the_first(tmp_path: Path) -> None:
    """With site-packages before the layer's own folder, and layers that are gone left out."""
    site = tmp_path / "layer-b/python/lib/python3.12/site-packages"
    site.mkdir(parents=True)
    config = {"Layers": [{"zip": "a"}, {"zip": None}, {"zip": "b"}]}
    found = shim.layer_paths(lambda_service(tmp_path), config)
    assert found == [str(site), str(tmp_path / "layer-b/python"), str(tmp_path / "layer-a/python")]
    assert shim.layer_paths(lambda_service(tmp_path), {"Layers": None}) == []


def test_a_sandbox_does_not_wait_for_logs_or_nagle() -> None:
    """Both would be in every latency."""
    sandbox = shim.sandbox_class(ProvidedWorker, InitFailedError)()
    assert sandbox._drain_stderr_bounded() == (0.002, 0.001, 0.25)
    handler = sandbox._build_handler_class(3, "queue")
    assert (handler.generation, handler.disable_nagle_algorithm, handler.wbufsize) == (3, True, 65_536)
    assert sandbox.invoke("e", "r", trace_id="t", depth=1, durable={}) == ("e", "r", {"trace_id": "t"})


def test_an_error_at_import_keeps_its_type() -> None:
    """Where the runtime client has told one; otherwise MiniStack's own words stand."""
    sandbox = shim.sandbox_class(ProvidedWorker, InitFailedError)()
    with pytest.raises(RuntimeError, match="init error"):
        sandbox._await_init()
    sandbox._init_error = {"errorType": "Runtime.ImportModuleError", "errorMessage": "no module"}
    with pytest.raises(InitFailedError, match="no module") as failed:
        sandbox._await_init()
    assert failed.value.error_type == "Runtime.ImportModuleError"


def test_max_concurrency_path_is_resolved_and_a_literal_passed_on() -> None:
    """The rest of the Map's definition stays as it was."""
    seen: list[dict[str, Any]] = []
    service = SimpleNamespace(
        _run_distributed_map=lambda state, *_rest: seen.append(state),
        _resolve_path_or_ctx=lambda path, data, _context: data[path.removeprefix("$.")],
    )
    shim.accept_max_concurrency_path(service)
    service._run_distributed_map({"MaxConcurrencyPath": "$.n", "Label": "L"}, {}, {"n": "4"}, {}, {}, {})
    service._run_distributed_map({"MaxConcurrency": 2}, {}, {}, {}, {}, {})
    assert seen == [{"MaxConcurrencyPath": "$.n", "Label": "L", "MaxConcurrency": 4}, {"MaxConcurrency": 2}]


@pytest.mark.parametrize(("made", "told"), [("Root=1;Parent=2;Sampled=1", "Root=1;Parent=2;Sampled=0"), (None, None)])
def test_nothing_is_sampled_where_there_is_no_x_ray(made: str | None, told: str | None) -> None:
    """A function that believed in it would import its SDK at each cold start, and send to nobody."""
    service = SimpleNamespace(_xray_trace_id_for_invocation=lambda _config, _inbound: made)
    shim.sample_no_traces(service)
    assert service._xray_trace_id_for_invocation({}) == told


def stand_ins(monkeypatch: pytest.MonkeyPatch, *, without: str = "") -> None:
    """Modules with every symbol that the shim needs, but one."""
    for name, symbols in shim.PATCHED.items():
        module = ModuleType(name)
        for symbol in symbols:
            if symbol != without:
                setattr(module, symbol, lambda *_arguments: None)
        monkeypatch.setitem(sys.modules, name, module)
    provisioners: Any = sys.modules["ministack.services.cloudformation.provisioners"]
    provisioners._RESOURCE_HANDLERS = {
        "AWS::Lambda::Function": {"create": None, "update": None},
        "AWS::Lambda::LayerVersion": {"create": None},
    }
    methods = {method: None for method in shim.PATCHED_METHODS if method != without}
    runtime: Any = sys.modules["ministack.core.lambda_runtime"]
    runtime.ProvidedWorker = type("ProvidedWorker", (), methods)


@pytest.mark.parametrize("gone", ["_resolve_layer_zip", "_run_distributed_map", "_await_init"])
def test_a_missing_symbol_stops_the_start_and_is_named(monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    """Another version of MiniStack, half patched, would measure something else."""
    stand_ins(monkeypatch, without=gone)
    with pytest.raises(SystemExit, match=rf"has no {gone}.*ministack\[full\]==1\.5\.33"):
        shim.load()


def test_a_missing_ministack_says_what_to_install() -> None:
    """This environment has none: the very case."""
    with pytest.raises(SystemExit, match=r"cannot import ministack.*install ministack\[full\]==1\.5\.33"):
        shim.load()


def test_all_symbols_in_place_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-ins themselves are whole, so the tests above fail for the one symbol only."""
    stand_ins(monkeypatch)
    assert shim.load().keys() == shim.PATCHED.keys()


@pytest.mark.parametrize("gone", ["LAMBDA_PYTHON", "GATEWAY_PORT", "LAMBDA_LAYERS"])
def test_main_refuses_to_guess(monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    """A default port or interpreter would be somebody else's."""
    monkeypatch.setenv("LAMBDA_PYTHON", "/python")
    monkeypatch.setenv("GATEWAY_PORT", "1")
    monkeypatch.setenv("LAMBDA_LAYERS", "/layers")
    monkeypatch.delenv(gone)
    with pytest.raises(SystemExit, match=gone):
        shim.main()


def test_main_serves_on_loopback_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """MiniStack's default is every interface, with an MQTT and an SFTP port beside."""
    for name in ("BIND_HOST", "IOT_MTLS_ENABLED", "SFTP_ENABLED", "AWS_ENDPOINT_URL"):
        monkeypatch.setenv(name, "to be replaced")
    monkeypatch.setenv("LAMBDA_PYTHON", "/python")
    monkeypatch.setenv("GATEWAY_PORT", "4711")
    monkeypatch.setenv("LAMBDA_LAYERS", str(tmp_path))
    stand_ins(monkeypatch)
    served: list[tuple[str | None, ...]] = []
    app = ModuleType("ministack.app")
    names = ("BIND_HOST", "IOT_MTLS_ENABLED", "SFTP_ENABLED", "AWS_ENDPOINT_URL")
    app.main = lambda: served.append(tuple(os.environ.get(name) for name in names))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ministack.app", app)
    shim.main()
    assert served == [("127.0.0.1", "0", "0", "http://127.0.0.1:4711")]


class AsynchronousService:
    """MiniStack's asynchronous invocation: a thread each, in a copy of the caller's context."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.entered = threading.Semaphore(0)
        self.done: list[str] = []
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

    def _execute_function(self, _function: dict[str, Any], event: str) -> str:
        with self._lock:
            self._running += 1
            self.most = max(self.most, self._running)
        self.entered.release()
        assert self.release.wait(10)
        with self._lock:
            self._running -= 1
            self.done.append(event)
        return event


def test_asynchronous_invocations_wait_for_a_sandbox_and_none_is_dropped() -> None:
    """Twenty events on two sandboxes: two at a time, all executed; another function has sandboxes of its own."""
    service = AsynchronousService()
    shim.queue_asynchronous(service, 2)
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


def test_a_synchronous_invocation_waits_for_nobody() -> None:
    """It may come from a function that holds the last sandbox, and would wait for itself."""
    service = AsynchronousService()
    shim.queue_asynchronous(service, 1)
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

    def twice(function: dict[str, Any], event: str) -> str:
        scoped = {**function, "scoped": True}
        return inner(function, event) if "scoped" in function else service._execute_function(scoped, event)

    service._execute_function = twice  # type: ignore[method-assign,assignment]
    shim.queue_asynchronous(service, 1)
    service.invoke_async_with_retry({"FunctionArn": "f"}, "event")
    service.threads[0].join(10)
    assert service.done == ["event"]


class ReservingService:
    """MiniStack's account of who is running; the stock poller delivers one event to the function `checker`."""

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
        """One function's."""
        return self.running, {"account:region:checker": self.running}

    def _release_execution_slot(self, _slot: str) -> None:
        self.running -= 1

    def _execute_function(self, _function: dict[str, Any], _event: str) -> None:
        self.found_running.append(self.running)

    def _poll_dynamodb_streams(self) -> bool:
        self._execute_function(self.function, "record")
        return True


def test_a_streams_delivery_waits_for_the_functions_one_slot() -> None:
    """Refused, it would be tried again a second later, and that second would be the latency."""
    service = ReservingService(reserved=1)
    shim.await_reserved_concurrency(service, limit_s=10)
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
    shim.await_reserved_concurrency(service, limit_s=0.05)
    service.running = 1
    assert service._poll_dynamodb_streams()
    assert service.found_running == [1]


def test_only_deliveries_wait_and_only_for_a_slot_that_is_reserved() -> None:
    """A synchronous invocation of a busy function is refused on AWS, too; a function without a limit is never busy."""
    service = ReservingService(reserved=1)
    shim.await_reserved_concurrency(service, limit_s=60)
    service.running = 1
    service._execute_function(service.function, "write")
    unlimited = ReservingService(reserved=None)
    shim.await_reserved_concurrency(unlimited, limit_s=60)
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
    shim.reserve_concurrency_by_template(provisioners, service)
    create: Any = handlers["create"]
    update: Any = handlers["update"]
    assert create("f", {"ReservedConcurrentExecutions": "1"}, "stack") == ("f", {"Arn": "arn"})
    assert service._functions["f"]["concurrency"] == 1
    assert update("f", {}, {}, "stack", logical_id="F") == ("f", {"Logical": "F"})
    assert service._functions["f"]["concurrency"] is None
    assert handlers["delete"] == "untouched"

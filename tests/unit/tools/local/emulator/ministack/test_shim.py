"""The shim's patches, on stand-ins for MiniStack's modules: MiniStack itself is in an environment of its own."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from stepbench_tools.local.emulator.ministack import shim
from stepbench_tools.local.emulator.start import load, neighbour


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


class Transactions:
    """It compares requests as MiniStack does, after it has brought the numbers of the first into another form."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any]] = {}

    def _txn_token_lookup(self, token: str) -> dict[str, Any] | None:
        return self._known.get(token)

    def _transact_write_items(self, request: dict[str, Any]) -> str:
        token = request.get("ClientRequestToken")
        signature = {name: value for name, value in request.items() if name != "ClientRequestToken"}
        if token and (prior := self._known.get(token)):
            return "repeated" if prior["signature"] == signature else "mismatch"
        if token:
            self._known[token] = {"signature": signature}
        for item in request["TransactItems"]:
            item["N"] = str(float(item["N"]))
        return "written"


def test_a_transaction_that_is_sent_again_is_the_same_one() -> None:
    """As on DynamoDB; another one with its token is refused, and one without a token is written each time."""
    service = Transactions()
    shim.repeat_transactions(service)

    def send(number: str, token: str = "token") -> str:  # noqa: S107 -- no secret
        request = {"TransactItems": [{"N": number}], **({"ClientRequestToken": token} if token else {})}
        return service._transact_write_items(request)

    assert [send("0.10") for _ in range(3)] == ["written", "repeated", "repeated"]
    assert [send("0.20"), send("0.10"), send("0.20", "")] == ["mismatch", "repeated", "written"]


def stand_ins(monkeypatch: pytest.MonkeyPatch, *, without: str = "") -> None:
    """Put modules in place that have every symbol that the shim needs, but one."""
    for name, symbols in shim.PATCHED.items():
        module, _, holder = name.partition(":")
        found = {symbol: lambda *_arguments: None for symbol in symbols.split() if symbol != without}
        if holder:
            setattr(sys.modules[module], holder, type(holder, (), found))
            continue
        monkeypatch.setitem(sys.modules, module, ModuleType(module))
        vars(sys.modules[module]).update(found)
    provisioners: Any = sys.modules["ministack.services.cloudformation.provisioners"]
    provisioners._RESOURCE_HANDLERS = {
        "AWS::Lambda::Function": {"create": None, "update": None},
        "AWS::Lambda::LayerVersion": {"create": None},
    }
    for module_name, table in (("ecs", "_ACTION_MAP"), ("stepfunctions", "_SERVICE_DISPATCH")):
        if table != without:
            setattr(sys.modules[f"ministack.services.{module_name}"], table, {})
    runtime: Any = sys.modules["ministack.core.lambda_runtime"]
    if without not in {"_lock", "_workers"}:
        runtime._lock, runtime._workers = threading.Lock(), {}


@pytest.mark.parametrize("gone", ["_resolve_layer_zip", "_run_distributed_map", "_await_init", "_mark_task_stopped"])
def test_a_missing_symbol_stops_the_start_and_is_named(monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    """Another version of MiniStack, half patched, would measure something else."""
    stand_ins(monkeypatch, without=gone)
    with pytest.raises(SystemExit, match=rf"has no {gone}.*ministack\[full\]==1\.5\.33"):
        load(shim.PATCHED, shim.REMEDY)


def test_a_missing_ministack_says_what_to_install() -> None:
    """This environment has none, which is the very case."""
    with pytest.raises(SystemExit, match=r"cannot import ministack.*install ministack\[full\]==1\.5\.33"):
        load(shim.PATCHED, shim.REMEDY)


def test_all_symbols_in_place_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-ins themselves are whole, so the tests above fail for the one symbol only."""
    stand_ins(monkeypatch)
    assert load(shim.PATCHED, shim.REMEDY).keys() == {name.partition(":")[0] for name in shim.PATCHED}


@pytest.mark.parametrize("gone", ["LAMBDA_PYTHON", "GATEWAY_PORT", "LAMBDA_LAYERS"])
def test_main_refuses_to_guess(monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    """A default port or interpreter would be somebody else's."""
    monkeypatch.setenv("LAMBDA_PYTHON", "/python")
    monkeypatch.setenv("GATEWAY_PORT", "1")
    monkeypatch.setenv("LAMBDA_LAYERS", "/layers")
    monkeypatch.delenv(gone)
    with pytest.raises(SystemExit, match=gone):
        shim.main(load, neighbour)


def test_main_serves_on_loopback_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """MiniStack's default is every interface, with an MQTT and an SFTP port beside."""
    names = ("BIND_HOST", "IOT_MTLS_ENABLED", "SFTP_ENABLED", "AWS_ENDPOINT_URL")
    for name in names:
        monkeypatch.setenv(name, "to be replaced")
    monkeypatch.setenv("LAMBDA_PYTHON", "/python")
    monkeypatch.setenv("GATEWAY_PORT", "4711")
    monkeypatch.setenv("LAMBDA_LAYERS", str(tmp_path))
    stand_ins(monkeypatch)
    served: list[tuple[str | None, ...]] = []
    app = ModuleType("ministack.app")
    app.main = lambda: served.append(tuple(os.environ.get(name) for name in names))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ministack.app", app)
    shim.main(load, _unwatched)
    assert served == [("127.0.0.1", "0", "0", "http://127.0.0.1:4711")]


def _unwatched(path: Path) -> Any:  # noqa: ANN401 -- a module
    """Load a module without the thread that looks at sandboxes until its process ends."""
    module = neighbour(path)
    module.watch_memory = lambda _runtime: None
    return module

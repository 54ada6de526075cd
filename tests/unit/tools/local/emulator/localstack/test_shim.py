"""What is changed in LocalStack, on stand-ins for its modules: it is in an environment of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from stepbench_tools.local.emulator.localstack import shim, state_machines
from stepbench_tools.local.emulator.start import load, neighbour

PATCHED = {**shim.PATCHED, **state_machines.PATCHED}
METHODS = {**shim.METHODS, **state_machines.METHODS}
DYNAMODB = "localstack.services.dynamodb"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Put modules in place that have every symbol that the shim needs."""
    for name, symbols in PATCHED.items():
        module = ModuleType(name)
        for symbol in symbols:
            setattr(module, symbol, lambda *_arguments: None)
        monkeypatch.setitem(sys.modules, name, module)
    for (name, holder), names in METHODS.items():
        setattr(sys.modules[name], holder, type(holder, (), dict.fromkeys(names)))
    found: dict[str, Any] = {name: sys.modules[name] for name in PATCHED}
    found["localstack.constants"].VERSION = shim.SUPPORTED
    installer = SimpleNamespace(get_installed_dir=lambda: str(tmp_path))
    found[f"{DYNAMODB}.packages"].dynamodblocal_package = SimpleNamespace(get_installer=lambda: installer)
    return found


@pytest.mark.parametrize("gone", ["get_runtime_executor", "_create_shell_command", "_wait_interval", "StatesErrorName"])
def test_a_missing_symbol_stops_the_start_and_is_named(modules: dict[str, Any], gone: str) -> None:
    """Another version of LocalStack, half patched, would measure something else."""
    for holder in [*modules.values(), *(getattr(modules[name], kind) for name, kind in METHODS)]:
        if gone in vars(holder):
            delattr(holder, gone)
    with pytest.raises(SystemExit, match=rf"has no {gone}.*setup-localstack.*4\.14\.0"):
        load(PATCHED, METHODS, shim.REMEDY)


def test_another_version_is_refused(modules: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its symbols may have the same names, and do something else."""
    modules["localstack.constants"].VERSION = "4.13.1"
    monkeypatch.setenv("LAMBDA_PYTHON", "/python")
    monkeypatch.setenv("LAMBDA_LAYERS", "/layers")
    with pytest.raises(SystemExit, match=r"this is LocalStack 4\.13\.1; run `make setup-localstack`"):
        shim.main(load, neighbour)


def test_everything_is_patched_before_it_serves(
    modules: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All three modules that ask for an executor of functions get ours, which needs no Docker."""
    monkeypatch.setenv("LAMBDA_PYTHON", sys.executable)
    monkeypatch.setenv("LAMBDA_LAYERS", str(tmp_path / "layers"))
    served: list[Any] = []
    executor = "get_runtime_executor"
    asking = [module for module in modules.values() if hasattr(module, executor)]
    modules["localstack.runtime.main"].main = lambda: served.extend(getattr(each, executor)() for each in asking)
    shim.main(load, neighbour)
    assert len(served) == 3
    assert len(set(map(id, served))) == 1
    assert served[0].validate_environment()
    command = modules[f"{DYNAMODB}.server"].DynamodbServer._create_shell_command
    assert str(tmp_path) in " ".join(command(SimpleNamespace(heap_size="1m", port=4711)))


def test_missing_jars_stop_the_start(modules: dict[str, Any]) -> None:
    """LocalStack would fetch some from a place that no lock names."""
    installer = SimpleNamespace(get_installed_dir=lambda: None)
    modules[f"{DYNAMODB}.packages"].dynamodblocal_package = SimpleNamespace(get_installer=lambda: installer)
    with pytest.raises(SystemExit, match="jars are missing; run `make setup-localstack`"):
        shim.run_dynamodb_from_jars(modules)


@pytest.mark.parametrize(
    ("status", "wanted", "put"),
    [("SUCCESS", "1", [("f", 1)]), ("SUCCESS", 0, [("f", 0)]), ("SUCCESS", None, []), ("IN_PROGRESS", 1, [])],
)
def test_a_template_reserves_concurrency_once_the_function_is_there(
    modules: dict[str, Any], status: str, wanted: object, put: list[tuple[str, int]]
) -> None:
    """CloudFormation asks again while a function is in progress; what the template does not say is not reserved."""
    holder = modules["localstack.services.lambda_.resource_providers.aws_lambda_function"]
    made = SimpleNamespace(status=SimpleNamespace(name=status), resource_model={"FunctionName": "f"})
    holder.LambdaFunctionProvider.create = lambda _self, _request: made
    shim.reserve_concurrency_by_template(modules)
    reserved: list[tuple[str, int]] = []
    client = SimpleNamespace(put_function_concurrency=lambda **given: reserved.append(tuple(given.values())))
    desired = {} if wanted is None else {"ReservedConcurrentExecutions": wanted}
    request = SimpleNamespace(desired_state=desired, aws_client_factory=SimpleNamespace(lambda_=client))
    assert holder.LambdaFunctionProvider().create(request) is made
    assert reserved == put


def test_a_layer_without_a_version_is_not_listed() -> None:
    """A deleted stack leaves it; LocalStack then failed for all of them."""
    stored = {"gone": SimpleNamespace(layer_versions={}), "there": SimpleNamespace(layer_versions={"1": "one"})}
    stores = {"0": {"here": SimpleNamespace(layers=stored)}}
    context = SimpleNamespace(account_id="0", region="here")
    kind = type(
        "LambdaProvider", (), {"list_layers": lambda _, context: list(stores[context.account_id]["here"].layers)}
    )
    module = SimpleNamespace(LambdaProvider=kind, lambda_stores=stores)
    shim.list_layers_that_have_versions({"localstack.services.lambda_.provider": module})
    assert kind().list_layers(context) == ["there"]

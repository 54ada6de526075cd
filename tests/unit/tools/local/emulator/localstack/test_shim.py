"""What is changed in LocalStack, on stand-ins for its modules: it is in an environment of its own."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from stepbench_tools.local.emulator.localstack import shim
from stepbench_tools.local.emulator.start import load, neighbour

DYNAMODB = "localstack.services.dynamodb"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Put modules in place that have every symbol that the shim needs."""
    for name, symbols in shim.PATCHED.items():
        module, _, holder = name.partition(":")
        found = {symbol: lambda *_arguments: None for symbol in symbols.split()}
        if holder:
            setattr(sys.modules[module], holder, type(holder, (), found))
            continue
        monkeypatch.setitem(sys.modules, module, ModuleType(module))
        vars(sys.modules[module]).update(found)
    modules: dict[str, Any] = {name: sys.modules[name] for name in shim.PATCHED if ":" not in name}
    modules["localstack.constants"].VERSION = shim.SUPPORTED
    installer = SimpleNamespace(get_installed_dir=lambda: str(tmp_path))
    modules[f"{DYNAMODB}.packages"].dynamodblocal_package = SimpleNamespace(get_installer=lambda: installer)
    return modules


@pytest.mark.parametrize("gone", ["get_runtime_executor", "_create_shell_command", "_wait_interval", "StatesErrorName"])
def test_a_missing_symbol_stops_the_start_and_is_named(modules: dict[str, Any], gone: str) -> None:
    """Another version of LocalStack, half patched, would measure something else."""
    classes = (name.split(":") for name in shim.PATCHED if ":" in name)
    for holder in (*modules.values(), *(getattr(modules[module], holder) for module, holder in classes)):
        if gone in vars(holder):
            delattr(holder, gone)
    with pytest.raises(SystemExit, match=rf"has no {gone}.*setup-localstack.*4\.14\.0"):
        load(shim.PATCHED, shim.REMEDY)


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


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ('"ToleratedFailurePercentage": 100,', '"ToleratedFailurePercentage": 100.0,'),
        ('{"ToleratedFailurePercentage":5}', '{"ToleratedFailurePercentage":5.0}'),
        ('"ToleratedFailurePercentage": 99.5,', '"ToleratedFailurePercentage": 99.5,'),
        ('"ToleratedFailurePercentagePath": "$.n",', '"ToleratedFailurePercentagePath": "$.n",'),
    ],
)
def test_a_whole_percentage_is_read(written: str, read: str) -> None:
    """AWS's own examples have it."""
    parser = SimpleNamespace(InputStream=str)
    shim.accept_whole_percentages(parser)
    assert parser.InputStream(written) == read


def _modules(scale: float) -> tuple[Any, Any, Any]:
    wait, timestamp, retrier = SimpleNamespace(WaitFunction=type("WaitFunction", (), {})), SimpleNamespace(), None
    retrier = SimpleNamespace(time=time)
    shim.wait_exactly(wait, timestamp, retrier, scale)
    return wait, timestamp, retrier


def test_what_is_left_until_a_timestamp_keeps_its_fraction() -> None:
    """Cut to whole seconds, a writer would begin up to one too early."""
    _, timestamp, _ = _modules(1)
    assert timestamp.int(1.75) == 1.75


def test_a_wait_is_taken_up_again_until_its_time_or_the_end_of_the_execution() -> None:
    """Another's interrupt must not shorten it; a stopped execution waits for nothing."""
    wait, _, _ = _modules(0.01)
    waited: list[float] = []

    def interrupted(left_s: float) -> None:
        waited.append(left_s)
        threading.Event().wait(left_s / 2)

    event = SimpleNamespace(wait=interrupted)
    wait.WaitFunction()._wait_interval(SimpleNamespace(is_running=lambda: True, program_state_event=event), 5)
    assert len(waited) > 1
    assert 0.04 < waited[0] <= 0.05
    waited.clear()
    wait.WaitFunction()._wait_interval(SimpleNamespace(is_running=lambda: False, program_state_event=event), 5)
    assert waited == []


def test_an_error_of_the_service_s_own_may_come_from_within() -> None:
    """LocalStack compares the name's beginning with this, and refuses what has it."""
    custom = SimpleNamespace(ILLEGAL_CUSTOM_ERROR_PREFIX="States.")
    shim.keep_names_of_nested_errors(custom)
    assert not "States.Timeout".startswith(custom.ILLEGAL_CUSTOM_ERROR_PREFIX)


def test_what_breaks_in_a_stopped_execution_is_no_failure() -> None:
    """The sweeper is started by ABORTED, and a report tells it from a failure."""
    stopped = type("ProgramStopped", (), {})
    kind = type("Environment", (), {"set_error": lambda self, error: setattr(self, "_program_state", error)})
    shim.stay_stopped(SimpleNamespace(Environment=kind, ProgramStopped=stopped))
    execution: Any = kind()
    execution._program_state = before = stopped()
    execution.set_error("an iteration was aborted")
    assert execution._program_state is before
    execution._program_state = "running"
    execution.set_error("failed")
    assert execution._program_state == "failed"


class FailureError(Exception):
    """Stands for LocalStack's FailureEventException."""

    def __init__(self, failure_event: Any) -> None:  # noqa: ANN401 -- LocalStack's
        super().__init__(failure_event)
        self.event = failure_event


@pytest.mark.parametrize("raised", [FailureError("named already"), KeyError("NoSuchKey")])
def test_items_that_cannot_be_read_have_the_error_that_aws_gives(raised: Exception) -> None:
    """The machine's Catch of States.ALL would not see States.Runtime on AWS; what has a name keeps it."""

    def fail(_self: object, _env: object) -> None:
        raise raised

    reader = SimpleNamespace(ItemReader=type("ItemReader", (), {"_eval_body": fail}))
    names: Any = SimpleNamespace(
        FailureEventException=FailureError,
        FailureEvent=SimpleNamespace,
        StatesErrorName=lambda typ: SimpleNamespace(error_name=typ),
        StatesErrorNameType=SimpleNamespace(StatesItemReaderFailed="States.ItemReaderFailed"),
        MapRunFailedEventDetails=dict,
        EventDetails=dict,
        HistoryEventType=SimpleNamespace(TaskFailed="TaskFailed"),
    )
    shim.name_a_reader_s_failure(reader, names)
    with pytest.raises(FailureError) as failed:
        reader.ItemReader()._eval_body(None)
    if isinstance(raised, FailureError):
        assert failed.value is raised
    else:
        assert failed.value.event.error_name.error_name == "States.ItemReaderFailed"


def test_a_map_run_has_no_executions_of_its_own() -> None:
    """Its iterations end with the execution that they are part of; asked for them, LocalStack failed."""
    kind = type("StepFunctionsProvider", (), {"list_executions": lambda _, context, **named: (context, named)})
    shim.list_no_children_of_map_runs(SimpleNamespace(StepFunctionsProvider=kind))
    assert kind().list_executions("context", map_run_arn="arn:of:a:map") == {"executions": []}
    assert kind().list_executions("context", state_machine_arn="a") == ("context", {"state_machine_arn": "a"})

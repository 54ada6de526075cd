"""LocalStack's Step Functions, mended; its modules are stand-ins."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from stepbench_tools.local.emulator.localstack import state_machines


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
    state_machines.accept_whole_percentages(parser)
    assert parser.InputStream(written) == read


def _modules(scale: float) -> tuple[Any, Any, Any]:
    wait, timestamp, retrier = SimpleNamespace(WaitFunction=type("WaitFunction", (), {})), SimpleNamespace(), None
    retrier = SimpleNamespace(time=time)
    state_machines.wait_exactly(wait, timestamp, retrier, scale)
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
    state_machines.keep_names_of_nested_errors(custom)
    assert not "States.Timeout".startswith(custom.ILLEGAL_CUSTOM_ERROR_PREFIX)


def test_what_breaks_in_a_stopped_execution_is_no_failure() -> None:
    """The sweeper is started by ABORTED, and a report tells it from a failure."""
    stopped = type("ProgramStopped", (), {})
    kind = type("Environment", (), {"set_error": lambda self, error: setattr(self, "_program_state", error)})
    state_machines.stay_stopped(SimpleNamespace(Environment=kind, ProgramStopped=stopped))
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
    state_machines.name_a_reader_s_failure(reader, names)
    with pytest.raises(FailureError) as failed:
        reader.ItemReader()._eval_body(None)
    if isinstance(raised, FailureError):
        assert failed.value is raised
    else:
        assert failed.value.event.error_name.error_name == "States.ItemReaderFailed"


def test_a_map_run_has_no_executions_of_its_own() -> None:
    """Its iterations end with the execution that they are part of; asked for them, LocalStack failed."""
    kind = type("StepFunctionsProvider", (), {"list_executions": lambda _, context, **named: (context, named)})
    state_machines.list_no_children_of_map_runs(SimpleNamespace(StepFunctionsProvider=kind))
    assert kind().list_executions("context", map_run_arn="arn:of:a:map") == {"executions": []}
    assert kind().list_executions("context", state_machine_arn="a") == ("context", {"state_machine_arn": "a"})

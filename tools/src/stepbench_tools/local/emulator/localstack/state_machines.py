"""
LocalStack's Step Functions where it departs from AWS's documentation and a machine of ours depends on it.

Loaded by the shim, by path, so it imports nothing of ours.
"""

from __future__ import annotations

import re
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_ASL = "localstack.services.stepfunctions.asl"
_ENVIRONMENT = f"{_ASL}.eval.environment"
_NAME = f"{_ASL}.component.common.error_name.custom_error_name"
_PARSER = f"{_ASL}.parse.asl_parser"
_RETRIER = f"{_ASL}.component.common.retry.retrier_decl"
_WAIT = f"{_ASL}.component.state.state_wait.wait_function.wait_function"
_TIMESTAMP = f"{_ASL}.component.state.state_wait.wait_function.timestamp"
_READER = f"{_ASL}.component.state.state_execution.state_map.item_reader.item_reader_decl"
_READER_CSV = (
    f"{_ASL}.component.state.state_execution.state_map.item_reader.resource_eval.resource_output_transformer"
    ".resource_output_transformer_csv"
)
_PROVIDER = "localstack.services.stepfunctions.provider"
PATCHED = {
    _PROVIDER: ("StepFunctionsProvider",),
    _ENVIRONMENT: ("Environment", "ProgramStopped"),
    _NAME: ("ILLEGAL_CUSTOM_ERROR_PREFIX",),
    _PARSER: ("InputStream",),
    _RETRIER: ("time",),
    _WAIT: ("WaitFunction",),
    _TIMESTAMP: ("Timestamp",),
    _READER: ("ItemReader",),
    _READER_CSV: (
        "EventDetails",
        "FailureEvent",
        "FailureEventException",
        "HistoryEventType",
        "MapRunFailedEventDetails",
        "StatesErrorName",
        "StatesErrorNameType",
    ),
}
METHODS = {
    (_PROVIDER, "StepFunctionsProvider"): ("list_executions",),
    (_ENVIRONMENT, "Environment"): ("set_error", "set_stop"),
    (_WAIT, "WaitFunction"): ("_wait_interval",),
    (_TIMESTAMP, "Timestamp"): ("_get_wait_seconds",),
    (_READER, "ItemReader"): ("_eval_body",),
}


def patch(modules: Mapping[str, Any], wait_scale: float) -> None:
    """Patch LocalStack's state machines; `wait_scale` is a factor on Waits and retry intervals, for tests."""
    accept_whole_percentages(modules[_PARSER])
    wait_exactly(modules[_WAIT], modules[_TIMESTAMP], modules[_RETRIER], wait_scale)
    stay_stopped(modules[_ENVIRONMENT])
    keep_names_of_nested_errors(modules[_NAME])
    name_a_reader_s_failure(modules[_READER], modules[_READER_CSV])
    list_no_children_of_map_runs(modules[_PROVIDER])


def accept_whole_percentages(parser: Any) -> None:  # noqa: ANN401 -- a module
    """Let ToleratedFailurePercentage be a whole number, as in AWS's examples; LocalStack's grammar wants a fraction."""
    stock, whole = parser.InputStream, re.compile(r'("ToleratedFailurePercentage"\s*:\s*\d+)(?=\s*[,}])')
    parser.InputStream = lambda text: stock(whole.sub(r"\1.0", text))


def wait_exactly(wait: Any, timestamp: Any, retrier: Any, scale: float) -> None:  # noqa: ANN401 -- modules
    """
    Let a Wait end at its time.

    LocalStack cuts what is left until a timestamp down to whole seconds, so that it ends up to one too early.
    """

    def wait_interval(_self: Any, env: Any, wait_seconds: float) -> None:  # noqa: ANN401 -- as the original
        until = time.monotonic() + wait_seconds * scale
        while env.is_running() and (left_s := until - time.monotonic()) > 0:
            env.program_state_event.wait(left_s)

    wait.WaitFunction._wait_interval = wait_interval  # noqa: SLF001 -- we patch it
    timestamp.int = float  # its only use there is the cut
    retrier.time = SimpleNamespace(sleep=lambda seconds: time.sleep(seconds * scale))


def stay_stopped(environment: Any) -> None:  # noqa: ANN401 -- a module
    """Let an execution that is stopped inside a Map or Parallel end as ABORTED: what breaks there is no failure."""
    stock = environment.Environment.set_error

    def set_error(self: Any, error: Any) -> None:  # noqa: ANN401 -- as the original
        if not isinstance(self._program_state, environment.ProgramStopped):
            stock(self, error)

    environment.Environment.set_error = set_error


def keep_names_of_nested_errors(custom: Any) -> None:  # noqa: ANN401 -- a module
    """
    Let an error such as States.Timeout keep its name on its way out of a Map's iteration or a Parallel's branch.

    LocalStack takes it for a name of the machine's own there, refuses its prefix, and says States.Runtime.
    """
    custom.ILLEGAL_CUSTOM_ERROR_PREFIX = "\0"  # no name begins so


def name_a_reader_s_failure(reader: Any, names: Any) -> None:  # noqa: ANN401 -- modules
    """
    Let a Map whose items cannot be read fail as States.ItemReaderFailed, which States.ALL catches.

    LocalStack says States.Runtime, which on AWS nothing catches.
    """
    stock = reader.ItemReader._eval_body  # noqa: SLF001 -- we wrap it

    def read(self: Any, env: Any) -> None:  # noqa: ANN401 -- as the original
        try:
            stock(self, env)
        except names.FailureEventException:
            raise
        except Exception as error:
            name = names.StatesErrorName(typ=names.StatesErrorNameType.StatesItemReaderFailed)
            details = names.MapRunFailedEventDetails(error=name.error_name, cause=str(error))
            failure = names.FailureEvent(
                env=env,
                error_name=name,
                event_type=names.HistoryEventType.TaskFailed,
                event_details=names.EventDetails(mapRunFailedEventDetails=details),
            )
            raise names.FailureEventException(failure_event=failure) from error

    reader.ItemReader._eval_body = read  # noqa: SLF001


def list_no_children_of_map_runs(provider: Any) -> None:  # noqa: ANN401 -- a module
    """
    Let ListExecutions of a map run answer that there are none.

    A Distributed Map's iterations are executions on AWS; LocalStack runs them within the Map's, and asked for them it
    fails for want of a state machine.
    """
    stock = provider.StepFunctionsProvider.list_executions

    def list_executions(self: Any, *arguments: Any, map_run_arn: str | None = None, **named: Any) -> Any:  # noqa: ANN401 -- as the original
        return {"executions": []} if map_run_arn else stock(self, *arguments, **named)

    provider.StepFunctionsProvider.list_executions = list_executions

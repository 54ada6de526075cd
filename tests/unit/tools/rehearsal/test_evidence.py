"""What an execution's history says, as botocore's model of Step Functions has it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from botocore.stub import Stubber

from stepbench.planning import expand
from stepbench_tools.local.stack import TRIAL, local_client
from stepbench_tools.rehearsal import evidence
from stepbench_tools.rehearsal.plans import first_round

MACHINE = "arn:aws:states:eu-central-1:000000000000:stateMachine:rehearsed-trial"
BEGIN = datetime(2026, 11, 23, 12, tzinfo=UTC)


def _events(*states: tuple[str, float, float]) -> list[dict[str, Any]]:
    """Return the events of states, each with when it was entered and left."""
    events: list[dict[str, Any]] = []
    for name, *times in states:
        for which, at_s in zip(("Entered", "Exited"), times, strict=True):
            details = {f"state{which}EventDetails": {"name": name}}
            at = BEGIN + timedelta(seconds=at_s)
            events.append({"timestamp": at, "type": f"TaskState{which}", "id": len(events) + 1, **details})
    return events


def _waited(events: list[dict[str, Any]] | None) -> float | None:
    (plan, *_) = first_round(writers=1, clock_check=False, given={}).plans
    spec = expand(plan, "r")[0]
    asked = {"executionArn": f"{MACHINE.replace(':stateMachine:', ':execution:')}:{spec.tag}-s3"}
    client = local_client("stepfunctions", "http://127.0.0.1:9")
    stack: Any = SimpleNamespace(outputs={TRIAL: MACHINE}, aws=lambda _service: client)
    with Stubber(client) as stub:
        if events is None:
            stub.add_client_error("get_execution_history", "ExecutionDoesNotExist", expected_params=asked)
        else:
            stub.add_response("get_execution_history", {"events": events}, asked)
        return evidence._await_s(stack, spec)


def test_waiting_for_a_trigger_is_from_the_first_look_to_the_last() -> None:
    """AwaitTarget is asked again and again, with pauses."""
    looks = (("PrepareTarget", 0, 5), ("AwaitTarget", 5, 6), ("WaitForTarget", 6, 7), ("AwaitTarget", 7, 65.5))
    assert _waited(_events(*looks, ("PlanPhase", 65.5, 70))) == 60.5


def test_a_history_without_that_state_says_nothing() -> None:
    """Emulators leave out what happens in branches."""
    assert _waited(_events(("PrepareTarget", 0, 5))) is None


def test_a_history_that_cannot_be_read_says_nothing() -> None:
    """The trial's evidence does not hang on it."""
    assert _waited(None) is None

"""Joining the queue, with a register in memory and a Step Functions that notes who was told to go on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.samples.services import MemoryServices, small_plan, stored_trial

from stepbench.contracts.runs import MAX_TARGETS, AwaitTurnInput, RunRecord
from stepbench.errors import PlanError, RunEndedError
from stepbench.stages.await_turn import await_turn

NEW = "new"
ARN = "arn:aws:states:us-east-1:000000000000:execution:stack-Benchmark:"


class Aws:
    """Step Functions and EventBridge: tokens that were answered, and events."""

    def __init__(self, gone: set[str] | None = None) -> None:
        self.told: list[str] = []
        self.events: list[str] = []
        self.started: dict[str, str] = {}
        self._gone = gone or set()

    def send_task_success(self, *, taskToken: str, output: str) -> None:  # noqa: N803 -- boto3's
        """Note the token."""
        assert output
        if taskToken in self._gone:
            raise ClientError({"Error": {"Code": "TaskTimedOut", "Message": ""}}, "SendTaskSuccess")
        self.told.append(taskToken)

    def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> None:  # noqa: A002, N803 -- boto3's
        """Note an execution."""
        assert stateMachineArn == "machine"
        self.started[name] = input

    def put_events(self, *, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803 -- boto3's
        """Note the events."""
        self.events += [entry["DetailType"] for entry in Entries]
        return {"FailedEntryCount": 0}


def queue(aws: Aws | None = None, **settings: Any) -> tuple[MemoryServices, Aws]:  # noqa: ANN401 -- settings
    """Return services whose Step Functions is `aws`."""
    aws = aws or Aws()
    return MemoryServices(aws={"stepfunctions": aws, "events": aws}, **settings), aws


def arrive(memory: MemoryServices, run_id: str, second: int, stores: tuple[str, ...] = ("s3",), token: str = "") -> Any:  # noqa: ANN401
    """Let a run arrive that needs these stores; what AwaitTurn answers."""
    for trial, store in enumerate(stores):
        stored_trial(memory.services, small_plan(store), run_id, trial)
    arrived = datetime(2026, 1, 2, 3, 4, second, tzinfo=UTC)
    memory.register.add(RunRecord(run_id=run_id, team="a", plan="p", state="submitted", submitted_at=arrived))
    task = AwaitTurnInput(
        run_id=run_id, trials=len(stores), started_at=arrived, execution_arn=ARN + run_id, token=token or f"{run_id}'s"
    )
    return await_turn(task, memory.services)


def state_of(memory: MemoryServices, run_id: str) -> str:
    """Return the run's state in the register."""
    run = memory.register.find(run_id)
    assert run is not None
    return run.state


def test_a_run_whose_targets_are_free_goes_on_at_once() -> None:
    """Its execution is told, and whoever listens on EventBridge."""
    memory, aws = queue()
    output = arrive(memory, "first", 1)
    assert (output.admitted, aws.told, aws.events) == (True, ["first's"], ["RunStarted"])
    assert state_of(memory, "first") == "running"


def test_a_run_waits_for_one_on_the_same_target_and_not_for_another() -> None:
    """Two runs on one store would measure each other."""
    memory, aws = queue()
    arrive(memory, "first", 1)
    assert not arrive(memory, "second", 2).admitted
    assert arrive(memory, "other", 3, ("etcd",)).admitted
    assert (aws.told, state_of(memory, "second")) == (["first's", "other's"], "queued")


def test_a_stack_that_runs_one_at_a_time_lets_nobody_pass() -> None:
    """On one machine every run takes the processors from every other."""
    memory, _ = queue(one_run_at_a_time=True)
    arrive(memory, "first", 1)
    assert not arrive(memory, "other", 2, ("etcd",)).admitted


def test_asked_again_with_another_token_a_run_that_has_its_turn_is_told_again() -> None:
    """Step Functions retries the state with a new token; the first one's answer went nowhere."""
    memory, aws = queue()
    arrive(memory, "first", 1)
    assert arrive(memory, "first", 1, token=NEW).admitted
    assert (aws.told, aws.events) == (["first's", NEW], ["RunStarted"])


def test_a_run_that_was_stopped_before_it_joined_holds_nothing() -> None:
    """Its function may still run when its execution is aborted and swept."""
    memory, _ = queue()
    stopped = RunRecord(
        run_id="first", team="a", plan="p", state="stopped", submitted_at=datetime(2026, 1, 1, tzinfo=UTC)
    )
    memory.register.add(stopped)
    with pytest.raises(RunEndedError, match="first is stopped"):
        arrive(memory, "first", 1)
    assert (memory.register.entries(), memory.register.held) == ([], {})
    assert arrive(memory, "second", 2).admitted


def test_an_execution_that_no_longer_waits_is_told_once() -> None:
    """Whoever asks next would meet the same refusal; its run leaves the queue when it is swept."""
    memory, aws = queue(Aws(gone={"first's"}))
    arrive(memory, "first", 1)
    arrive(memory, "other", 2, ("etcd",))
    assert aws.told == ["other's"]
    assert {turn.resumed for turn in memory.register.turns.values()} == {True}


def test_more_targets_than_one_transaction_takes_are_refused() -> None:
    """DynamoDB writes 100 items at once, or none."""
    memory, _ = queue(allow_custom_endpoints=True)
    for trial in range(MAX_TARGETS + 1):
        plan = small_plan("etcd", target={"endpoint": f"10.0.0.1:{2000 + trial}"})
        stored_trial(memory.services, plan, "many", trial)
    task = AwaitTurnInput(
        run_id="many",
        trials=MAX_TARGETS + 1,
        started_at=datetime(2026, 1, 2, tzinfo=UTC),
        execution_arn=f"{ARN}many",
        token=NEW,
    )
    with pytest.raises(PlanError, match="46 different targets"):
        await_turn(task, memory.services)

"""Joining the queue, with a register in memory and a Step Functions that notes who was told to go on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st
from tests.samples.services import MemoryServices, fail, small_plan, stored_trial

from stepbench.contracts.runs import MAX_TARGETS, AwaitTurnInput, QueueEntry, RunRecord
from stepbench.errors import PlanError, RecordsUnavailableError, RunEndedError
from stepbench.planning.wall_time import ahead_of
from stepbench.stages.await_turn import await_turn
from stepbench.stages.turns import leave, let_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.memory_register import MemoryRegister

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


START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TARGETS = ("a", "b", "c")


class DiedError(Exception):
    """A function's sandbox has died."""


class Calls:
    """The calls to register and Step Functions that a function may make yet before it dies."""

    def __init__(self) -> None:
        self.left: int | None = None

    def dies_around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return the call, in place of which or after which the function dies, when it has made as many."""

        def made(*args: Any, **named: Any) -> Any:  # noqa: ANN401 -- any call's
            if self.left == 0:
                raise DiedError
            answer = call(*args, **named)
            if self.left is not None:
                self.left -= 1
            return answer

        return made


class Queue:
    """Runs in a queue whose functions may die; each is called again until it has ended by itself."""

    def __init__(self) -> None:
        self.aws, self.calls = Aws(), Calls()
        self.memory = MemoryServices(aws={"stepfunctions": self.aws, "events": self.aws})
        self.register: MemoryRegister = self.memory.register
        self.running: list[str] = []
        self.ended: set[str] = set()
        self._admit = self.register.admit
        for name in ("join", "change", "mark_resumed", "release", "forget"):
            setattr(self.register, name, self.calls.dies_around(getattr(self.register, name)))
        setattr(self.register, "admit", self.calls.dies_around(self._checked_admit))  # noqa: B010 -- a method
        setattr(self.aws, "send_task_success", self.calls.dies_around(self.aws.send_task_success))  # noqa: B010

    def arrive(self, run: int, targets: set[str], dies_at: list[int]) -> None:
        """Let a run join, as AwaitTurn does, after so many deaths."""
        run_id, arrived = f"run-{run}", START + timedelta(seconds=run % 7)
        self.memory.register.add(RunRecord(run_id=run_id, team="a", plan="p", state="submitted", submitted_at=arrived))
        entry = QueueEntry(
            run_id=run_id, team="a", plan="p", targets=tuple(sorted(targets)), arrived_at=arrived, execution_arn=run_id
        )

        def join(attempt: int) -> None:
            assert self.register.join(entry, f"{run_id}/{attempt}", arrived)
            let_in(entry.targets, self.memory.services)

        self._retried(join, dies_at)

    def end(self, run_id: str, dies_at: list[int]) -> None:
        """Take a run out, as ConcludeRun does, after so many deaths."""

        def conclude(_: int) -> None:
            self.register.change(run_id, ("submitted", "queued", "running"), state="stopped")
            leave(run_id, self.memory.services)

        self._retried(conclude, dies_at)
        self.ended.add(run_id)

    def check(self) -> None:
        """Look for two runs on one target, and for a run that could begin and was not told."""
        queue = self.register.queue()
        assert self.register.entries() == queue
        assert self.ended.isdisjoint(entry.run_id for entry in queue)
        held = [target for entry in queue if entry.admitted_at for target in entry.targets]
        assert sorted(held) == sorted(set(held)) == sorted(self.register.held)
        for entry in queue:
            assert (entry.admitted_at is None) == bool(ahead_of(entry, queue)), "it waits, and for nobody"
            assert self.register.turns[entry.run_id].resumed == bool(entry.admitted_at)

    def told(self, run_id: str) -> bool:
        """Tell whether the last token of a run was answered."""
        return self.register.turns[run_id].token in self.aws.told

    def _retried(self, call: Callable[[int], None], dies_at: list[int]) -> None:
        for attempt, left in enumerate(dies_at):
            self.calls.left = left
            try:
                call(attempt)
            except DiedError:
                continue
            finally:
                self.calls.left = None
            return
        call(len(dies_at))

    def _checked_admit(self, entry: QueueEntry, now: datetime) -> bool:
        queue = self.register.queue()
        before = [each for each in queue if not each.admitted_at and each.order < entry.order]
        admitted = self._admit(entry, now)
        assert not (admitted and any(set(each.targets) & set(entry.targets) for each in before)), "somebody was passed"
        return admitted


DEATHS = st.lists(st.integers(0, 8), max_size=3)
STEPS = st.lists(st.tuples(st.booleans(), st.integers(0, 99), st.sets(st.sampled_from(TARGETS), min_size=1), DEATHS))


@given(STEPS)
def test_no_two_run_on_one_target_nobody_is_passed_and_nobody_is_forgotten(
    steps: list[tuple[bool, int, set[str], list[int]]],
) -> None:
    """Wherever functions die: their retries, and those of the runs beside them, make up for it."""
    queue = Queue()
    for run, (arrives, which, targets, dies_at) in enumerate(steps):
        inside = queue.register.queue()
        if arrives or not inside:
            queue.arrive(run, targets, dies_at)
        else:
            queue.end(inside[which % len(inside)].run_id, dies_at)
        queue.check()
    while inside := [entry for entry in queue.register.queue() if entry.admitted_at]:  # nobody waits for ever
        assert all(queue.told(entry.run_id) for entry in inside)
        queue.end(inside[0].run_id, [])
        queue.check()
    assert queue.register.entries() == []


def test_a_queue_that_changes_faster_than_it_is_looked_at_is_an_error() -> None:
    """The state machine tries again; nothing loops for ever."""
    queue = Queue()
    queue.arrive(1, {"a"}, [])
    queue.arrive(2, {"a"}, [])
    setattr(queue.register, "release", lambda *_: False)  # noqa: B010 -- a method
    with pytest.raises(RecordsUnavailableError, match="run run-1 was changed by others 20 times"):
        leave("run-1", queue.memory.services)
    setattr(queue.register, "admit", lambda *_: False)  # noqa: B010
    queue.register.held.clear()
    with pytest.raises(RecordsUnavailableError, match="the line at a"):
        let_in(("a",), queue.memory.services)


def test_a_run_that_cannot_be_told_at_once_fails_none_that_lets_it_in() -> None:
    """The state of one that has just succeeded tries again what is unavailable; any other error would fail its run."""
    queue = Queue()
    queue.arrive(1, {"a"}, [])
    queue.arrive(2, {"a"}, [])
    tell = queue.aws.send_task_success
    setattr(queue.aws, "send_task_success", fail)  # noqa: B010 -- a method
    with pytest.raises(RecordsUnavailableError, match="run run-2 has its targets"):
        queue.end("run-1", [])
    setattr(queue.aws, "send_task_success", tell)  # noqa: B010
    queue.end("run-1", [])
    assert queue.told("run-2")

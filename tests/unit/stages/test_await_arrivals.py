from __future__ import annotations

import json

import pytest
from tests.samples.dags import dataflow_trial
from tests.samples.finished_trials import LATENESS_NS, SERVICE_NS, FinishedTrial
from tests.samples.records import run_of, t4_item
from tests.samples.services import MemoryServices, small_plan, stored_trial
from tests.support.fake_clock import FakeClock

from stepbench.contracts.dataflow.rows import DagEnd
from stepbench.contracts.function import MeasuredFunction
from stepbench.contracts.identity import EventId
from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.target import DynamoDbTarget, S3Target
from stepbench.contracts.tasks import AwaitArrivalsInput, AwaitArrivalsOutput
from stepbench.records.formats.t4 import Entry, encode_fallback
from stepbench.records.storage import layout
from stepbench.records.storage.dag_rows import DagRows
from stepbench.stages.await_arrivals import RETRY_S, await_arrivals

START_NS = 1_700_000_000_000_000_000
SECOND_NS = 10**9
FUNCTION = MeasuredFunction(package=f"functions/{'0' * 64}.zip", handler="app.handler", attempts=2)
FAILED = (False, False, False)
LAST_T2_NS = START_NS + SECOND_NS + LATENESS_NS + SERVICE_NS


def finished(*, lost: tuple[int, ...] = ()) -> tuple[MemoryServices, FinishedTrial, FakeClock]:
    """Return a trial of two events a second apart, drain limit 10 s; it is 1.5 s after the start."""
    clock = FakeClock(START_NS + 3 * SECOND_NS // 2)
    memory = MemoryServices(clock)
    plan = small_plan(drain_limit_s=10)
    trial = FinishedTrial(memory.services, stored_trial(memory.services, plan), plan, START_NS)
    trial.phase(0, lost=lost)
    return memory, trial, clock


def looked(memory: MemoryServices, trial: FinishedTrial) -> AwaitArrivalsOutput:
    """Call the stage once."""
    return await_arrivals(AwaitArrivalsInput(ref=trial.ref), memory.services)


def test_it_is_over_at_once_when_everything_is_there() -> None:
    """No trial waits for its drain limit for nothing."""
    memory, trial, _ = finished()
    assert looked(memory, trial) == AwaitArrivalsOutput(done=True, expected=2, arrived=2)


def test_what_is_missing_is_waited_for_until_the_drain_limit() -> None:
    """Counted from the last acknowledgement."""
    memory, trial, clock = finished(lost=(1,))
    assert looked(memory, trial) == AwaitArrivalsOutput(done=False, expected=2, arrived=1)
    clock.advance(LAST_T2_NS + 10 * SECOND_NS - round(RETRY_S * SECOND_NS) - clock.now_ns())
    assert not looked(memory, trial).done
    clock.advance(1)
    assert looked(memory, trial).done


def test_what_is_recorded_a_moment_later_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watcher records once a second; the state machine's next round would come two later."""
    memory, trial, clock = finished(lost=(1,))
    began_ns, sleep = clock.now_ns(), clock.sleep

    def deliver(seconds: float) -> None:
        sleep(seconds)
        trial.deliver(0, 1, clock.now_ns())

    monkeypatch.setattr(clock, "sleep", deliver)
    assert looked(memory, trial).done
    assert clock.now_ns() - began_ns < SECOND_NS


def test_duplicates_do_not_pass_for_what_is_missing() -> None:
    """Counters alone would say that two of two arrived."""
    memory, trial, _ = finished(lost=(1,))
    trial.deliver(0, 0, START_NS + 2 * SECOND_NS)
    assert looked(memory, trial) == AwaitArrivalsOutput(done=False, expected=2, arrived=1)


def test_an_arrival_in_the_bucket_counts() -> None:
    """The table was down; its counter knows nothing."""
    memory, trial, _ = finished(lost=(1,))
    body = encode_fallback(layout.t4_sk("r", START_NS), t4_item([Entry(0, 0, 0, 0, 0, 1, START_NS + SECOND_NS)]))
    memory.services.runs.put_bytes(layout.t4_fallback_key(trial.ref.tag, "r", START_NS), body)
    assert looked(memory, trial).done


def test_a_file_without_a_pointer_is_waited_for_as_well() -> None:
    """The table was down at the writer's end: by its pointers, nothing was sent, and the watchers would be stopped."""
    memory, trial, clock = finished(lost=(1,))
    for key in [key for key in memory.table.items if key[1].startswith(layout.FILE)]:
        del memory.table.items[key]
    clock.advance(7 * SECOND_NS)
    assert looked(memory, trial) == AwaitArrivalsOutput(done=False, expected=2, arrived=1)
    clock.advance(2 * SECOND_NS)
    assert looked(memory, trial).done


def test_a_cancelled_trial_waits_for_nothing() -> None:
    """Ctrl-C should not take two minutes."""
    memory, trial, _ = finished(lost=(1,))
    memory.services.table.set_flag(trial.ref.tag, layout.CANCELLED, "Ctrl-C")
    assert looked(memory, trial).done


def test_nothing_sent_is_nothing_to_wait_for() -> None:
    """No writer came to offer anything."""
    memory = MemoryServices(FakeClock(START_NS))
    ref = stored_trial(memory.services)
    answer = await_arrivals(AwaitArrivalsInput(ref=ref), memory.services)
    assert answer == AwaitArrivalsOutput(done=True, expected=0, arrived=0)


def test_operations_have_nothing_to_arrive() -> None:
    """It is over at the first look, with acknowledged operations on record and no arrival."""
    memory = MemoryServices()
    plan = small_plan("redis", experiment="operations", workload={"mix": {"read": 1}})
    ref = stored_trial(memory.services, plan)
    output = await_arrivals(AwaitArrivalsInput(ref=ref), memory.services)
    assert output == AwaitArrivalsOutput(done=True, expected=0, arrived=0)


def executions(*, lost: tuple[int, ...] = ()) -> tuple[MemoryServices, FinishedTrial]:
    """Return a trial that has started two executions, drain limit 60 s."""
    memory = MemoryServices(FakeClock(START_NS + 3 * SECOND_NS // 2))
    plan = TrialPlan.model_validate(dataflow_trial(drain_limit_s=60))
    trial = FinishedTrial(memory.services, stored_trial(memory.services, plan), plan, START_NS)
    trial.phase(0, lost=lost)
    return memory, trial


def tell_end(memory: MemoryServices, trial: FinishedTrial, sequence: int, *, completed: bool) -> None:
    """Store the end of an execution."""
    event = EventId(trial.ref.tag, 0, 0, 0, 0, sequence).text()
    end = DagEnd(event=event, dag="diamond", ended_ns=1, completed=completed, deleted=0, left=0, delete_ns=1)
    DagRows(memory.services.table).put_end(trial.ref.tag, end)


@pytest.mark.parametrize("completed", [False, True])
def test_the_end_of_every_execution_is_waited_for(*, completed: bool) -> None:
    """One that has failed never arrives; one that has completed arrives before its objects are removed."""
    memory, trial = executions(lost=() if completed else (1,))
    tell_end(memory, trial, 0, completed=True)
    assert looked(memory, trial) == AwaitArrivalsOutput(done=False, expected=2, arrived=1 + completed)
    tell_end(memory, trial, 1, completed=completed)
    assert looked(memory, trial) == AwaitArrivalsOutput(done=True, expected=1 + completed, arrived=1 + completed)


def test_the_end_of_an_execution_that_nobody_expects_stands_for_no_other() -> None:
    """Its start was answered by nothing, and it ran all the same."""
    memory, trial = executions()
    tell_end(memory, trial, 0, completed=True)
    tell_end(memory, trial, 7, completed=True)
    assert not looked(memory, trial).done


def test_an_end_that_is_never_told_is_waited_for_until_the_drain_limit() -> None:
    """Its function has died, and was tried again in vain."""
    memory, trial = executions()
    tell_end(memory, trial, 0, completed=True)
    memory.services.clock.sleep(61)
    assert looked(memory, trial).done


def measuring(
    target: S3Target | DynamoDbTarget, log: EmptyLog, tries: tuple[bool, ...]
) -> tuple[MemoryServices, FinishedTrial]:
    """Return a trial of two events at a measured function: one was processed, of the other these attempts came."""
    memory = MemoryServices(FakeClock(START_NS + 3 * SECOND_NS // 2), aws={"logs": log}, function_prefix="stack")
    plan = small_plan(target.store, drain_limit_s=100).model_copy(update={"target": target})
    trial = FinishedTrial(memory.services, stored_trial(memory.services, plan), plan, START_NS)
    trial.phase(0, lost=(0, 1))
    for number, (sequence, processed) in enumerate([(0, True), *((1, each) for each in tries)]):
        t4_ns = trial.start_of(0) + sequence * SECOND_NS + SECOND_NS // 10 + number
        item = t4_item([Entry(0, 0, 0, 0, 0, sequence, t4_ns)], **run_of(t4_ns + 1, int(processed)))
        memory.services.table.put_t4(trial.ref.tag, f"r-{sequence}", t4_ns, item)
    return memory, trial


class EmptyLog:
    """CloudWatch Logs without a line: what was printed has been taken in before."""

    def __init__(self) -> None:
        self.events: list[dict[str, object]] = []

    def filter_log_events(self, **_: object) -> dict[str, list[dict[str, object]]]:
        """Return what there is."""
        return {"events": self.events}


@pytest.mark.parametrize(
    ("tries", "settled"),
    [
        ((), 1),
        ((False,), 1),
        ((False, True), 2),
        ((False, False), 2),
        ((True,), 2),
    ],
)
def test_a_measured_function_is_waited_for_until_it_has_processed_or_given_up(
    tries: tuple[bool, ...], settled: int
) -> None:
    """An event that failed once has arrived, and comes again: what it does then is what the trial is about."""
    memory, trial = measuring(S3Target(store="s3", function=FUNCTION), EmptyLog(), tries)

    assert looked(memory, trial) == AwaitArrivalsOutput(done=settled == 2, expected=2, arrived=settled)


def test_an_invocation_that_is_under_way_gives_nothing_up() -> None:
    """Its events count as not processed until it ends; to go on would remove the function under it."""
    memory, trial = measuring(S3Target(store="s3", function=FUNCTION), log := EmptyLog(), FAILED[:2])
    begun = {"trial": trial.ref.tag, "request": "r-9", "t4": START_NS, "sandbox": "s", "batch": 1, "source": "aws:s3"}
    log.events = [{"timestamp": START_NS // 10**6, "message": json.dumps({"stepbench.t4": begun})}]

    assert looked(memory, trial) == AwaitArrivalsOutput(done=False, expected=2, arrived=1)


@pytest.mark.parametrize(("batch_size", "settled"), [(1, 2), (2, 1)])
def test_an_event_of_a_stream_is_given_up_by_count_only_where_it_is_alone(batch_size: int, settled: int) -> None:
    """Lambda counts a batch's attempts: one that stood behind others may have failed with them, before its own."""
    target = DynamoDbTarget(store="dynamodb", function=FUNCTION, batch_size=batch_size)
    memory, trial = measuring(target, EmptyLog(), FAILED)

    assert looked(memory, trial) == AwaitArrivalsOutput(done=settled == 2, expected=2, arrived=settled)

"""The driver of DAGs: what a start says, when a client is told of its end, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.dags import dataflow_trial
from tests.support.fake_clock import FakeClock
from tests.support.memory_blobs import MemoryBlobs

from stepbench.contracts.dataflow.rows import RunDataflowInput
from stepbench.contracts.identity import CANARY_PHASE, EventId, execution_name
from stepbench.contracts.plan import TrialPlan, TrialSpec
from stepbench.experiments.dataflow.driver import AwaitedExecution, DataflowDriver
from stepbench.model.errors import NO_ANSWER
from stepbench.model.request import Outcome, Result
from stepbench.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TAG = "abcdefghij-0000"
MACHINE = "arn:aws:states:us-east-1:000000000000:stateMachine:stepbench-Dataflow"
ACKNOWLEDGED = Result(10, 20, Outcome.OK, "arn")
WIDE = {"name": "wide", "stages": [{"name": "all", "task": "synthetic.work", "tasks": 41}]}


class StepFunctions:
    """As much of boto3's client as clearing up uses; one execution is stopped a call."""

    def __init__(self, *running: str) -> None:
        self.running = list(running)
        self.stopped: list[str] = []

    def get_paginator(self, _name: str) -> StepFunctions:
        """Return itself."""
        return self

    def paginate(self, **_: str) -> Iterator[dict[str, Any]]:
        """Yield a page an execution."""
        for name in self.running:
            yield {"executions": [{"name": name, "executionArn": f"arn:{name}"}]}

    def stop_execution(self, *, executionArn: str, **_: str) -> None:  # noqa: N803 -- boto3's
        """Stop it."""
        self.stopped.append(executionArn)
        self.running.remove(executionArn.removeprefix("arn:"))


@pytest.fixture
def blobs() -> MemoryBlobs:
    """Return a store in memory."""
    return MemoryBlobs(FakeClock())


@pytest.fixture
def driver(blobs: MemoryBlobs) -> DataflowDriver:
    """Return a driver over it; phase 1 is closed, and starts executions of a DAG with a wide level."""
    phases = [
        {"name": "open", "dag": "diamond", "load": [{"rate_per_s": 1, "count": 2}]},
        {"name": "closed", "dag": "wide", "closed": {"clients": 1, "operations": 5, "duration_s": 60}},
    ]
    trial = dataflow_trial(phases=phases)
    plan = TrialPlan.model_validate({**trial, "dags": [*trial["dags"], WIDE]})
    spec = TrialSpec(run_id="run-1", index=0, name="dag", tag=TAG, plan=plan, estimate_usd=0)
    settings = Settings(results_table="table", results_bucket="bucket", dataflow_arn=MACHINE)
    return DataflowDriver(spec, settings, FakeClock(), blobs)


def started(driver: DataflowDriver, event: EventId) -> tuple[dict[str, str], RunDataflowInput]:
    """Return the body of a start, and the input in it."""
    body = json.loads(driver.start_body(event.text()))
    return body, RunDataflowInput.model_validate_json(body["input"])


def test_an_execution_is_named_for_its_event_and_has_the_phase_s_dag(driver: DataflowDriver) -> None:
    """The machine knows nothing else of the plan; identities go into the prepared text, whatever is around them."""
    event = EventId(TAG, 0, 3, 0, 1, 255)
    body, given = started(driver, event)
    assert (body["stateMachineArn"], body["name"]) == (MACHINE, execution_name(event.text()))
    assert (given.event, given.dag, given.ref.tag) == (event.text(), "diamond", TAG)
    assert [len(level.tasks) for level in given.levels] == [1, 6, 1]


def test_a_wide_level_is_a_key_not_a_list(driver: DataflowDriver) -> None:
    """An execution's input has 256 KiB at most, and travels with every start."""
    _, given = started(driver, EventId(TAG, 1, 0, 0, 0, 0))
    (level,) = given.levels
    assert (level.wide, level.tasks, level.items_bucket) == (True, (), "bucket")
    assert level.items_key == "runs/run-1/trials/0000/dags/wide/levels/00.json"


def test_a_canary_goes_straight_to_its_end(driver: DataflowDriver) -> None:
    """It proves that a start is followed by an arrival, without a task."""
    _, given = started(driver, EventId(TAG, CANARY_PHASE, 0, 0, 0, 7))
    assert given.levels == ()


class Start:
    """`PendingRequest` that is answered at once."""

    def __init__(self, result: Result) -> None:
        self.result = result

    def send(self, done: Callable[[Result], None]) -> None:
        """See `PendingRequest`."""
        asyncio.get_running_loop().call_soon(done, self.result)

    def abandon(self) -> None:
        """See `PendingRequest`."""


def told_after(result: Result, ends: list[bool], *, limit_s: float = 10, abandon_s: float | None = None) -> float:
    """Return after how many seconds a client was told the result."""
    clock, told = FakeClock(), list[tuple[float, Result]]()

    async def has_ended() -> bool:
        return ends.pop(0)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        began_s, done = loop.time(), asyncio.Event()
        pending = AwaitedExecution(Start(result), has_ended, limit_s)

        def take(given: Result) -> None:
            told.append((loop.time() - began_s, given))
            done.set()

        pending.send(take)
        if abandon_s is not None:
            loop.call_later(abandon_s, pending.abandon)
        await done.wait()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    clock.run(run())
    ((after_s, given),) = told
    assert given == result
    return round(after_s, 3)


def test_a_client_is_told_when_its_execution_has_ended() -> None:
    """By hand: looked for each 0.2 s, found at the third look; and what it is told is the start's acknowledgement."""
    assert told_after(ACKNOWLEDGED, [False, False, True]) == 0.6


def test_a_start_that_was_refused_has_no_end_to_wait_for() -> None:
    """Throttling, say."""
    assert told_after(Result(10, 20, Outcome.FAILED, error="ThrottlingException"), []) == 0
    assert told_after(Result(10, 20, Outcome.UNKNOWN, error=NO_ANSWER), []) == 0


def test_an_end_that_never_comes_is_waited_for_up_to_the_drain_limit() -> None:
    """Somebody may have aborted it from the console: then nothing tells of its end."""
    assert told_after(ACKNOWLEDGED, [False] * 9, limit_s=1) == 1


def test_a_slice_that_ends_tells_what_is_known() -> None:
    """The start was acknowledged, which is what its row says."""
    assert told_after(ACKNOWLEDGED, [False] * 9, abandon_s=0.5) == 0.5


def tear_down(driver: DataflowDriver, client: StepFunctions) -> bool:
    """Clear up once."""

    async def step_functions() -> StepFunctions:
        return client

    driver.step_functions = step_functions  # type: ignore[method-assign]
    return asyncio.run(driver.tear_down())


def test_executions_are_stopped_before_objects_are_removed(driver: DataflowDriver, blobs: MemoryBlobs) -> None:
    """Their tasks may still write; those of other trials, and what somebody tries by hand, are left alone."""
    own, other = execution_name(EventId(TAG, 0, 0, 0, 0, 1).text()), execution_name("abcdefghij-0001/00-0000")
    client = StepFunctions(other, own, "by-hand")
    blobs.blobs[f"{TAG}/00/a-0/b-0"] = b"1"
    assert not tear_down(driver, client)
    assert (client.stopped, len(blobs.blobs)) == ([f"arn:{own}"], 1)
    assert asyncio.run(driver.remaining()) == 1
    assert tear_down(driver, client)
    assert asyncio.run(driver.remaining()) == 0
    assert (client.running, blobs.blobs) == ([other, "by-hand"], {})


def test_what_cannot_be_removed_keeps_the_tear_down_from_ending(driver: DataflowDriver, blobs: MemoryBlobs) -> None:
    """That nothing is left is seen, not assumed."""
    blobs.blobs[f"{TAG}/00/a-0/b-0"] = b"1"

    async def delete(keys: Sequence[str]) -> int:
        return 0 * len(keys)

    blobs.delete = delete  # type: ignore[method-assign]
    assert not tear_down(driver, StepFunctions())

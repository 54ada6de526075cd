"""The end of an execution: its arrival, its objects, and what is told of it."""

from __future__ import annotations

import time

import pytest
from tests.samples.tasks import Execution
from tests.support.memory_blobs import MemoryBlobs

from stepbench.clock import SystemClock
from stepbench.contracts.dataflow.rows import EndDataflowInput, EndDataflowOutput, RunTaskInput
from stepbench.contracts.identity import CANARY_PHASE, EventId
from stepbench.contracts.tasks import StateError
from stepbench.errors import TargetUnavailableError
from stepbench.records.formats.t4_items import parse_item
from stepbench.records.storage.dag_rows import read_dag_ends, recorded_ends
from stepbench.stages.end_dataflow import end_dataflow
from stepbench.stages.run_task import run_task

T4_NS = 1_767_225_600_000_000_000
FAILED = StateError(Error="TaskFailedError", Cause='{"errorMessage": "map-0: get split-0/map-0: truncated"}')
OBJECTS = 4 + 1 + 4 + 2
"""Of the diamond, by hand."""


def end(execution: Execution, failure: StateError = StateError(), event: str = "") -> EndDataflowOutput:  # noqa: B008 -- immutable
    """End the execution."""
    task = EndDataflowInput(ref=execution.ref, event=event or execution.event, dag="diamond", failure=failure)
    return end_dataflow(task, execution.ends, T4_NS, "request-9")


def run_all(execution: Execution) -> None:
    """Run all tasks."""
    tasks = [("split", 0), *(("map", index) for index in range(4)), ("model", 0), ("model", 1), ("join", 0)]
    for stage, index in tasks:
        task = RunTaskInput(item=execution.item(stage, index), attempt=0)
        run_task(task, execution.tasks, time.time_ns(), f"{stage}-{index}")


def arrivals(execution: Execution) -> list[tuple[int, int]]:
    """Return phase and t4 of all arrivals."""
    items = [parse_item(item) for item in execution.services.table.t4_items(execution.ref.tag)]
    return [(int(entry["phase"]), int(entry["t4_ns"])) for item in items for entry in item.entries]


@pytest.fixture
def execution() -> Execution:
    """Return an execution of a DAG."""
    return Execution()


def test_an_execution_arrives_with_its_end_and_leaves_nothing_in_the_store(execution: Execution) -> None:
    """Every object that was written is removed, and counted."""
    run_all(execution)
    assert len(execution.blobs.blobs) == OBJECTS
    assert end(execution) == EndDataflowOutput(completed=True, deleted=OBJECTS, left=0)
    assert execution.blobs.blobs == {}
    assert arrivals(execution) == [(0, T4_NS)]
    ((told,), damaged) = read_dag_ends(execution.ref.tag, execution.services.table)
    assert (told.completed, told.ended_ns, told.deleted, told.error, damaged) == (True, T4_NS, OBJECTS, "", ())


def test_one_that_has_failed_does_not_arrive_and_says_why(execution: Execution) -> None:
    """It would be a latency of something that was never done; what it had written goes all the same."""
    execution.blobs.blobs[f"{execution.ref.tag}/00-0000-0000-00-00000000/split-0/map-0"] = b"1"
    assert end(execution, FAILED) == EndDataflowOutput(completed=False, deleted=1, left=0)
    assert arrivals(execution) == []
    ((told,), _) = read_dag_ends(execution.ref.tag, execution.services.table)
    assert (told.error, told.cause) == (FAILED.Error, "map-0: get split-0/map-0: truncated")
    assert recorded_ends(execution.ref.tag, execution.services.table) == {execution.event: False}


def test_a_store_that_is_away_keeps_no_end_from_being_told() -> None:
    """A state that raised would be tried again, with a later t4; its objects go with the trial."""
    execution = Execution(blobs=MemoryBlobs(SystemClock(), unavailable=True))
    assert end(execution) == EndDataflowOutput(completed=True, deleted=0, left=OBJECTS)
    assert arrivals(execution) == [(0, T4_NS)]


def test_a_canary_arrives_and_is_no_end(execution: Execution) -> None:
    """It has no tasks, and stands outside the accounting."""
    end(execution, event=EventId(execution.ref.tag, CANARY_PHASE, 0, 0, 0, 5).text())
    assert arrivals(execution) == [(CANARY_PHASE, T4_NS)]
    assert read_dag_ends(execution.ref.tag, execution.services.table) == ((), ())


def test_a_store_that_goes_away_meanwhile_is_no_reason_to_raise(execution: Execution) -> None:
    """Likewise, where it was reached before."""

    async def refuse(_keys: object) -> int:
        message = "away"
        raise TargetUnavailableError(message)

    execution.blobs.delete = refuse  # type: ignore[assignment]
    assert end(execution).left == OBJECTS
    assert arrivals(execution) == [(0, T4_NS)]

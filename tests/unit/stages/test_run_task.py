"""A task leaves a row whatever becomes of it, and stops when its trial is to."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.samples.tasks import Execution
from tests.support.memory_blobs import MemoryBlobs

from stepbench.clock import SystemClock
from stepbench.contracts.dataflow.rows import RunTaskInput
from stepbench.errors import RecordsUnavailableError, TaskFailedError, TrialCancelledError
from stepbench.model.request import Outcome
from stepbench.records.storage import layout
from stepbench.records.storage.dag_rows import StoredTasks
from stepbench.stages.leftovers import alive
from stepbench.stages.run_task import CancellationWatcher, run_task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.dataflow.rows import RunTaskOutput, TaskRow


def run(execution: Execution, stage: str, index: int = 0, attempt: int = 0) -> RunTaskOutput:
    """Run one attempt at a task."""
    task = RunTaskInput(item=execution.item(stage, index), attempt=attempt)
    return run_task(task, execution.tasks, time.time_ns(), "request-1")


def rows(execution: Execution) -> tuple[TaskRow, ...]:
    """Return all rows."""
    stored = StoredTasks.read(execution.ref.tag, execution.services.table)
    assert not stored.damaged
    return stored.of(execution.event)


@pytest.fixture
def execution() -> Execution:
    """Return an execution of a DAG."""
    return Execution()


def test_tasks_pass_their_outputs_on_and_each_leaves_a_row(execution: Execution) -> None:
    """By hand: split writes 4 parts and one for both models; a map reads one of them."""
    run(execution, "split")
    output = run(execution, "map", 3)
    mapped, split = rows(execution)
    assert (split.name, mapped.name, split.request_id) == ("split-0", "map-3", "request-1")
    assert [blob.object for blob in split.blobs] == [*(f"split-0/map-{part}" for part in range(4)), "split-0/model-0"]
    assert [(blob.object, blob.operation) for blob in mapped.blobs] == [
        ("split-0/map-3", "get"),
        ("map-3/join-0", "put"),
    ]
    assert output.read_bytes == split.blobs[3].blob_bytes == len(execution.blobs.blobs[key(execution, "split-0/map-3")])


def key(execution: Execution, name: str) -> str:
    """Return an object's key."""
    return f"{execution.ref.tag}/{execution.event.partition('/')[2]}/{name}"


def test_a_failed_attempt_is_a_row_first_and_an_error_for_the_machine_then(execution: Execution) -> None:
    """The machine tries again; what the first attempt met is known all the same."""
    with pytest.raises(TaskFailedError, match="map-0: get split-0/map-0: not_found"):
        run(execution, "map")
    run(execution, "split")
    run(execution, "map", attempt=1)
    outcomes = {(row.name, row.attempt): row.outcome for row in rows(execution)}
    assert outcomes == {("map-0", 0): "failed", ("map-0", 1): "ok", ("split-0", 0): "ok"}


def test_a_row_that_cannot_be_stored_is_no_success(execution: Execution) -> None:
    """The attempt is made again: its objects are overwritten, and only one row counts."""
    execution.memory.table.put_item = fail_put  # type: ignore[method-assign]
    with pytest.raises(RecordsUnavailableError):
        run(execution, "split")


def fail_put(**_: object) -> None:
    """Fail as a table does that is away."""
    from tests.samples.services import AWAY  # one error

    raise AWAY


def test_a_task_of_a_cancelled_trial_stops_and_leaves_no_row() -> None:
    """Whoever clears up has set the flag, and must not find new objects afterwards."""
    hanging = MemoryBlobs(SystemClock(), hanging=["model-0"])
    execution = Execution(blobs=hanging)
    execution.services.table.set_flag(execution.ref.tag, layout.CANCELLED, "swept")
    with pytest.raises(TrialCancelledError):
        run(execution, "split")
    assert rows(execution) == ()


def test_a_flag_that_is_set_later_is_seen_within_a_second(execution: Execution) -> None:
    """Here at once: looks are 10 ms apart. Signs of life begin with the second look, and end with the task."""
    cancelled, table = threading.Event(), execution.services.table
    cancellation = CancellationWatcher(table, execution.item("split"), poll_s=0.01)

    class Loop:
        def call_soon_threadsafe(self, _cancel: object) -> None:
            cancelled.set()

    cancellation.notify(Loop(), lambda: None)  # type: ignore[arg-type]
    cancellation.start()
    while not table.beats(execution.ref.tag):
        time.sleep(0.005)
    assert not cancelled.is_set()
    table.set_flag(execution.ref.tag, layout.CANCELLED, "swept")
    assert cancelled.wait(5)
    cancellation.end()
    assert cancellation.is_cancelled
    assert alive(execution.ref.tag, execution.services) == ()


class Computing:
    """A task that computes until the test has ended, for `compute_ms` that nobody waits out."""

    def __init__(self) -> None:
        self.begun, self.released = threading.Event(), threading.Event()

    def sleep(self, _seconds: float) -> None:
        """Stand for `time.sleep`."""
        self.begun.set()
        self.released.wait(120)

    def execution(self, timeout_s: int) -> Execution:
        """Return one whose only task is this."""
        parameters = {"compute_ms": 5_000, "compute": "sleep"}
        stage = {"name": "all", "task": "synthetic.work", "timeout_s": timeout_s, "parameters": parameters}
        return Execution(dag={"name": "slow", "stages": [stage]})


@pytest.fixture
def computing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Computing]:
    """Stand in for what computes; its thread ends with the test."""
    computing = Computing()
    monkeypatch.setattr("stepbench.experiments.dataflow.tasks.applications.synthetic.time", computing)
    yield computing
    computing.released.set()


def test_a_sandbox_whose_task_was_given_up_ends_once_the_row_is_there(computing: Computing) -> None:
    """The computing goes on in it, and would slow down whatever comes next."""
    execution = computing.execution(timeout_s=1)
    with pytest.raises(TaskFailedError, match="timeout"):
        run(execution, "all")
    assert (execution.exits, [row.outcome for row in rows(execution)]) == ([1], ["failed"])


def test_a_sandbox_whose_trial_was_cancelled_while_it_computed_ends_as_well(computing: Computing) -> None:
    """Else the next trial's first task would be the one that is ended."""
    execution = computing.execution(timeout_s=60)
    table, tag = execution.services.table, execution.ref.tag

    def cancel() -> None:
        computing.begun.wait(60)
        table.set_flag(tag, layout.CANCELLED, "swept")

    cancelling = threading.Thread(target=cancel)
    cancelling.start()
    with pytest.raises(TrialCancelledError):
        run(execution, "all")
    cancelling.join()
    assert (execution.exits, rows(execution)) == ([1], ())


def test_a_store_that_refuses_is_reached_anew_by_the_next_task() -> None:
    """Nobody knows in what state a failed task has left its connections."""
    execution = Execution(blobs=MemoryBlobs(SystemClock(), failing={"model-0": (Outcome.UNKNOWN, "closed")}))
    with pytest.raises(TaskFailedError, match="put split-0/model-0: closed"):
        run(execution, "split")
    run(execution, "map", 1)
    assert (execution.blobs.opened, execution.blobs.closed) == (2, 1)

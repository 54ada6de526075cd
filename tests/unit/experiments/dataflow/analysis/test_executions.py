"""What a task's time and an execution's critical path consist of, added up by hand."""

from __future__ import annotations

import pytest
from tests.samples.dag_rows import MS, ORIGIN_NS, blob, event_text, task_row
from tests.samples.finished_dags import FORK, fork_rows

from stepbench.experiments.dataflow.analysis.executions import (
    Execution,
    ExecutionTasks,
    TaskParts,
    critical_path,
    level_times,
    task_parts,
)

EXECUTION = Execution(
    event_text(), FORK, 0, 0, ORIGIN_NS, ORIGIN_NS + 3 * MS, ORIGIN_NS + 90 * MS, arrived=True, end=None
)


def test_a_tasks_parts_add_up() -> None:
    """Puts that overlap take their time once, and their coding, which comes before them, apart."""
    parts = task_parts(fork_rows(event_text())[0])
    assert parts == TaskParts(*(each * MS for each in (2, 0, 0, 5, 8, 5)))
    assert parts.whole == 20 * MS


def test_connecting_in_mid_task_is_connecting() -> None:
    """Where the store has ended a connection that rested; it is not what nothing explains."""
    first, second = fork_rows(event_text())[0].blobs
    waited = first.model_copy(update={"connect_ns": 3 * MS}), second.model_copy(update={"connect_ns": 4 * MS})
    row = fork_rows(event_text())[0].model_copy(update={"blobs": waited})
    assert task_parts(row) == TaskParts(*(each * MS for each in (5, 0, 0, 5, 8, 2)))


def test_transfers_within_others_take_no_time_of_their_own() -> None:
    """A short one inside a long one, and one that begins as the other ends."""
    blobs = [
        blob("get", name, at, whole_ns=length * MS) for name, at, length in (("x", 0, 10), ("y", 2, 3), ("z", 10, 5))
    ]
    assert task_parts(task_row("a", 0, 20, *blobs)).get == (15 + 3) * MS


def test_the_critical_path_adds_up_to_the_whole_time() -> None:
    """Nothing of t4 - t0 is told twice or left out: a level's last task counts, and what lies between levels."""
    tasks = ExecutionTasks(FORK, fork_rows(event_text()))
    path = critical_path(EXECUTION, level_times(tasks))
    assert {part: ns / MS for part, ns in path.items()} == {
        "late": 3, "start": 7, "dispatch": 2, "retry": 0, "open": 2, "input": 0, "get": 5 + 6, "compute": 5 + 15 + 2,
        "put": 8 + 5, "rest": 5 + 3 + 2, "barrier": 5 + 5, "end": 10,
    }  # fmt: skip
    assert sum(path.values()) == 90 * MS


def test_a_retried_task_costs_the_path_what_its_first_attempts_took() -> None:
    """b-1 is begun at 37 ms, fails, and its second attempt ends the level."""
    a, b0, b1, c = fork_rows(event_text())
    failed = b1.model_copy(
        update={"began_ns": ORIGIN_NS + 37 * MS, "ended_ns": ORIGIN_NS + 38 * MS, "outcome": "failed"}
    )
    again = b1.model_copy(update={"began_ns": ORIGIN_NS + 41 * MS, "attempt": 1, "compute_ns": 11 * MS})
    path = critical_path(EXECUTION, level_times(ExecutionTasks(FORK, [again, a, b0, failed, c])))
    assert (path["dispatch"], path["retry"], path["compute"]) == (2 * MS, 4 * MS, (5 + 11 + 2) * MS)
    assert sum(path.values()) == 90 * MS


@pytest.mark.parametrize("missing", range(4))
def test_an_execution_without_a_row_of_each_task_is_not_whole(missing: int) -> None:
    """Its path would lack a level, or name the wrong task."""
    rows = fork_rows(event_text())
    assert ExecutionTasks(FORK, rows).whole
    assert not ExecutionTasks(FORK, [*rows[:missing], *rows[missing + 1 :]]).whole

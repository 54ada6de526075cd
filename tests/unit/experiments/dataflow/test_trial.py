"""A trial of DAGs from the records of its writers, tasks and ends to its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.samples.dag_rows import MS, ORIGIN_NS, dag_end, event_text
from tests.samples.finished_dags import END_MS, SLOWER_MS, FinishedDags, fork_rows, slower_each_time

from stepbench.contracts.identity import CANARY_PHASE
from stepbench.experiments.dataflow.analysis.executions import find_executions
from stepbench.experiments.dataflow.analysis.stages import spread
from stepbench.records.join.reader import read_records

if TYPE_CHECKING:
    from stepbench.contracts.dataflow.result import DagWindow, DataflowFindings
    from stepbench.contracts.result import TrialResult

    Analysed = tuple[TrialResult, DataflowFindings, DagWindow]

EXECUTIONS = len(SLOWER_MS)


def _analysed(trial: FinishedDags) -> Analysed:
    result = trial.result()
    assert result.summary.dataflow is not None
    return result, result.summary.dataflow, result.summary.dataflow.windows[0]


@pytest.fixture(scope="module")
def whole() -> Analysed:
    """Eight executions, slower than the fork's times by 0 to 7 ms, in no order."""
    return _analysed(slower_each_time())


def test_every_object_is_accounted_for(whole: Analysed) -> None:
    """Four objects an execution, each written, read once and removed."""
    objects, executions = whole[1].objects, whole[1].executions
    assert (objects.expected, objects.written, objects.read, objects.reads, objects.deleted) == (32, 32, 32, 32, 32)
    assert objects.complete
    assert (executions.started, executions.completed, executions.tasks, executions.cold_starts) == (8, 8, 32, 8)
    assert "All 32 objects were written, read as often as the DAG says, and removed." in whole[1].answers


def test_times_are_from_the_due_time(whole: Analysed) -> None:
    """90 to 97 ms after it; the writer was late by 0.02 ms."""
    window = whole[2]
    assert window.n == window.completed == EXECUTIONS
    assert window.end_to_end_ms.p50.value == pytest.approx(93.5)
    assert window.from_start_ms.p50.value == pytest.approx(93.48)


def test_the_path_is_told_part_by_part(whole: Analysed) -> None:
    """Computing is 22 to 29 ms of 90 to 97; the shares are all of the time."""
    window = whole[2]
    path = {part.part: part for part in window.path}
    assert path["compute"].ms.p50.value == pytest.approx(25.5)
    assert path["compute"].ms.p50.low is not None
    assert sum(part.share.value or 0 for part in window.path) == pytest.approx(1)
    expected = sum((11 + 13) / (90 - 0.02 + number) for number in range(EXECUTIONS)) / EXECUTIONS
    assert window.passing_on_path.value == pytest.approx(expected)
    # a-0: 8 of 20; b-0: 10 of 20; b-1: 10 of 28; c-0: 6 of 10 and more.
    of_tasks = sum(34 / (78 + number) for number in range(EXECUTIONS)) / EXECUTIONS
    assert window.passing_of_tasks.value == pytest.approx(of_tasks)
    assert [(each.stage, each.executions, each.most_often) for each in window.critical] == [
        ("a", EXECUTIONS, 0), ("b", EXECUTIONS, 1), ("c", EXECUTIONS, 0)
    ]  # fmt: skip


def test_stages_levels_and_edges_have_their_times(whole: Analysed) -> None:
    """Of b: 30 ms from 35 to 65, tasks of 20 and 28; the barrier before it 5 ms; objects of 1 MiB in 4 ms."""
    window = whole[2]
    b = window.stages[1]
    assert (b.duration_ms.p50.value, b.task_ms.p50.value, b.get_ms and b.get_ms.max) == (30, 24, 5)
    assert (b.cold_starts, b.init_ms, b.retries, b.stragglers, b.input_ms) == (EXECUTIONS, 100, 0, None, None)
    assert [level.before_ms.p50.value for level in window.levels] == [pytest.approx(9.98), 5, 5]
    assert [level.dispatch_ms.max for level in window.levels] == [0, 2, 0]
    edge = window.edges[0]
    assert (edge.producer, edge.consumer, edge.kind, edge.objects, edge.put_ms.n) == ("a", "b", "scatter", 2, 16)
    assert (edge.put_ms.p50.value, edge.put_store_ms.max, edge.put_network_ms.max, edge.serialise_ms.max) == (
        4,
        2,
        2,
        1,
    )
    assert edge.get_mib_per_s.p50.value == pytest.approx(250)
    assert window.passed_mib.max == 8


def test_tasks_of_one_execution_are_not_independent() -> None:
    """Sixteen tasks of five executions tell of five: what is slow in one is slow for all of its tasks."""
    values = [float(each * 7 % 16) for each in range(16)]
    assert spread(values, 16).p50.low is not None
    assert spread(values, 5).p50.reason == "5 of 16 independent < 6"


def test_performance_per_dollar_is_of_each_execution(whole: Analysed) -> None:
    """1 / (0.0935 s) / its dollars: 78 ms of tasks and more, 24 transitions, four puts and four gets on S3."""
    costs = [cost for cost in whole[1].costs if cost.prices == "us-east-1, November 2022" and not cost.idle]
    assert len(costs) == 1
    assert len(whole[1].costs) == 4
    tasks_s = (0.078 + 0.0035) * 1_769 / 1_024 + 0.001
    assert costs[0].parts_usd == pytest.approx(
        {"functions": tasks_s * 1.66667e-5 + 5 * 2e-7, "orchestration": 19 * 2.5e-5, "store": 4 * 5e-6 + 4 * 4e-7}
    )
    assert costs[0].perf_per_usd.value == pytest.approx(1 / 0.0935 / (costs[0].usd.value or 0), rel=1e-3)
    assert costs[0].perf_per_usd.low is not None
    assert costs[0].modelled == ""


def test_the_trial_is_billed_for_its_executions(whole: Analysed) -> None:
    """S3's requests as the DAG says, and the DAG machine's transitions: 5 + 2 x 3 + 2 x 4 for each of eight."""
    items = {item.item: item.quantity for item in whole[0].summary.cost_usd.items}
    assert items["Step Functions state transitions, executions of DAGs"] == 8 * 19
    assert (items["S3 PUT requests"], items["S3 GET requests"]) == (8 * 4, 8 * 4)


def test_one_execution_is_drawn(whole: Analysed) -> None:
    """That nearest to the median; its rows lie on the time since it was due."""
    drawn = whole[0].dataflow
    assert drawn is not None
    gantt = drawn.gantts[0]
    assert (gantt.event, gantt.end_ms) == (event_text(0), 93)
    row = gantt.rows[2]
    assert (row.stage, row.index, row.from_ms, row.to_ms, row.critical, row.cold) == ("b", 1, 37, 65, True, True)
    assert [(span.kind, span.from_ms, span.to_ms) for span in row.spans] == [
        ("get", 38, 43), ("compute", 43, 58), ("put", 59, 64)
    ]  # fmt: skip
    assert row.spans[0].blob_bytes == 2**20
    assert [(each.second, each.completed, each.puts, each.get_mib) for each in drawn.bins[:2]] == [
        (0, 1, 4, 4), (1, 1, 4, 4)
    ]  # fmt: skip


def test_a_failed_execution_is_told_with_its_cause() -> None:
    """Its b-1 failed three times: it is no lost event, its time is missing, and so is one object."""
    trial = FinishedDags(2)
    trial.execution(0)
    a, b0, b1, _ = fork_rows(event_text(1), 1_000)
    gone = b1.blobs[0].model_copy(update={"outcome": "failed", "error": "not_found"})
    bad = b1.model_copy(update={"outcome": "failed", "error": "get a-0/b-1: not_found", "blobs": (gone,)})
    failed = [bad.model_copy(update={"attempt": attempt}) for attempt in range(3)]
    end = dag_end(1_070, event=event_text(1), dag="fork", completed=False, error="TaskFailedError", deleted=3)
    trial.execution(1, [a, b0, *failed], end)
    result, findings, window = _analysed(trial)
    kinds = {caveat.kind: caveat.text for caveat in result.summary.caveats}
    assert kinds["failed_executions"].startswith("1 execution of 2 failed: get a-0/b-1: not_found (1).")
    assert kinds["missing_objects"] == "3 reads were of objects that were not there."
    assert kinds["retried_tasks"].startswith(
        "2 attempts beyond the first were made at 7 tasks: get a-0/b-1: not_found (3)."
    )
    assert "lost_events" not in kinds
    assert (window.completed, window.failed, window.end_to_end_ms.missing) == (1, 1, 1)
    # One of two has performed nothing: the median is between that and the other's 1 / 0.09 s / its dollars.
    assert [(cost.perf_per_usd.value or 0) * (cost.usd.value or 0) * 0.09 for cost in findings.costs] == pytest.approx(
        [0.5] * len(findings.costs)
    )
    objects = findings.objects
    assert (objects.expected, objects.unwritten, objects.unread, objects.reads_missing) == (8, 1, 2, 3)
    assert (objects.failed, objects.not_found, objects.deleted) == (3, 3, 7)


def test_what_a_task_does_after_its_execution_s_end_is_no_loss_of_the_store_s() -> None:
    """A level's other tasks go on when one has failed for good; the objects are removed meanwhile: no cause of it."""
    trial = FinishedDags(2)
    trial.execution(0)
    a, b0, b1, _ = fork_rows(event_text(1), 1_000)
    bad = b0.model_copy(update={"outcome": "failed", "error": "compute: ValueError", "blobs": b0.blobs[:1]})
    end = dag_end(1_060, event=event_text(1), dag="fork", completed=False, error="TaskFailedError", deleted=1)
    after_ns = end.ended_ns + end.delete_ns + 1_000_000
    late = [blob.model_copy(update={"began_ns": after_ns}) for blob in b1.blobs]
    gone = late[0].model_copy(update={"outcome": "failed", "error": "not_found"})
    late_row = b1.model_copy(
        update={"outcome": "failed", "error": "get a-0/b-1: not_found", "blobs": (gone,), "ended_ns": after_ns + 10**7}
    )
    writes = late_row.model_copy(update={"attempt": 1, "outcome": "ok", "error": "", "blobs": tuple(late)})
    trial.execution(1, [a, bad, late_row, writes], end)
    result, findings, _ = _analysed(trial)
    assert findings.executions.causes == {"compute: ValueError": 1}
    objects = findings.objects
    assert (objects.not_found, objects.failed) == (0, 1)
    assert objects.errors == {"get: not_found, after its execution's end": 1}
    assert objects.not_deleted == sum(blob.operation == "put" for blob in late)
    assert "were not there" not in {caveat.kind: caveat.text for caveat in result.summary.caveats}.get(
        "missing_objects", ""
    )


def test_an_attempt_that_was_killed_is_no_dispatch() -> None:
    """Nothing of it is on record but that the next one is not the first: it was begun with the others of its level."""
    trial = FinishedDags(1)
    a, b0, b1, c = fork_rows(event_text())
    trial.execution(0, [a, b0, b1.model_copy(update={"attempt": 1}), c])
    result, findings, window = _analysed(trial)
    path = {part.part: part.ms.p50.value for part in window.path}
    assert (path["dispatch"], path["retry"]) == (0, 2)
    assert (findings.executions.tasks, findings.executions.attempts, window.stages[1].retries) == (4, 5, 1)
    assert "retried_tasks" in {caveat.kind for caveat in result.summary.caveats}


@pytest.mark.parametrize("error", ["truncated", "wrong_length", "wrong_digest", "wrong_object", "garbage"])
def test_what_the_store_gave_wrongly_is_damaged(error: str) -> None:
    """Whatever it is by which the codec has seen it."""
    trial = FinishedDags(2)
    trial.execution(0)
    a, b0, b1, c = fork_rows(event_text(1), 1_000)
    bad = b1.blobs[0].model_copy(update={"outcome": "failed", "error": error})
    trial.execution(1, [a, b0, b1.model_copy(update={"outcome": "failed", "blobs": (bad,)}), c])
    assert _analysed(trial)[1].objects.damaged == 1


def test_an_execution_without_an_end_is_told() -> None:
    """Nobody has removed what it wrote but the trial's tear-down."""
    trial = FinishedDags(1)
    for row in fork_rows(event_text()):
        trial.rows_of.put_task(trial.ref.tag, row)
    result, findings, _ = _analysed(trial)
    assert (findings.executions.unfinished, findings.objects.not_deleted) == (1, 4)
    failure = result.summary.failure
    assert failure is not None
    assert failure.cause == "no execution of window run was completed: none has ended"
    assert "failed_executions" in {caveat.kind for caveat in result.summary.caveats}


def test_what_the_last_tasks_found_is_kept_once() -> None:
    """Labels that differ between executions of the same input are a wrong answer, and are told as such."""
    trial = FinishedDags(2)
    trial.execution(0)
    rows = fork_rows(event_text(1), 1_000)
    trial.execution(1, [*rows[:3], rows[3].model_copy(update={"result": '{"labels": [2]}'})])
    _, findings, _ = _analysed(trial)
    assert findings.results == {"fork/c-0": '{"labels": [1]}'}
    assert findings.differing == ("fork/c-0",)


def test_a_completed_execution_without_a_row_is_left_out_of_its_parts() -> None:
    """Its time counts all the same; that its row is missing is told."""
    trial = FinishedDags(2)
    trial.execution(0)
    trial.execution(1, fork_rows(event_text(1), 1_000)[:3])
    result, _, window = _analysed(trial)
    assert (window.completed, window.n, window.end_to_end_ms.n) == (2, 1, 2)
    assert "of 1 completed execution a task's row is missing" in str(result.summary.caveats)


def test_times_may_lie_before_others_on_other_clocks() -> None:
    """A sandbox's clock may be behind: the barrier is negative then, and is told as it is."""
    trial = FinishedDags(1)
    rows = fork_rows(event_text())
    early = rows[3].model_copy(update={"began_ns": ORIGIN_NS + 64 * MS})
    trial.execution(0, [*rows[:3], early])
    _, _, window = _analysed(trial)
    assert window.levels[2].before_ms.max == -1
    assert sum(part.ms.max or 0 for part in window.path) == pytest.approx(END_MS)


def test_an_execution_that_no_writer_tells_of_is_found_by_its_rows() -> None:
    """A writer that ended early leaves tasks behind; what is no execution of the trial's DAGs is none of them."""
    trial = FinishedDags(1)
    spec, services = trial.memory.services.trial(trial.ref), trial.memory.services
    joined = read_records(spec, services.runs, services.table).joined
    left = {event_text(7), event_text(0, CANARY_PHASE), event_text(0, 5), "nonsense"}
    first, second = find_executions(spec, joined, (), left)
    assert (first.event, first.number, second.event, second.number) == (event_text(), 0, event_text(7), None)
    assert (second.dag.name, second.arrived) == ("fork", False)

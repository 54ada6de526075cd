"""One attempt at one task, whatever the store and the application do: a row that tells it."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.dags import DIAMOND, dag_of, stage
from tests.samples.records import REF
from tests.support.fake_clock import START_NS, FakeClock
from tests.support.memory_blobs import MemoryBlobs

from stepbench.contracts.dataflow.dag import Dag
from stepbench.contracts.dataflow.rows import TaskItem, TaskRow
from stepbench.contracts.phase import LoadStep, Phase
from stepbench.contracts.plan import TrialPlan, TrialSpec
from stepbench.contracts.target import S3Target
from stepbench.experiments.dataflow.analysis.executions import task_parts
from stepbench.experiments.dataflow.tasks import runner
from stepbench.experiments.dataflow.tasks.application import ApplicationError, TaskAnswer, TaskCall
from stepbench.experiments.dataflow.tasks.applications import synthetic
from stepbench.experiments.dataflow.tasks.objects import IN_FLIGHT
from stepbench.experiments.dataflow.tasks.sandbox import Kept, Sandbox
from stepbench.model.request import Outcome
from stepbench.workload.topology import all_objects, object_key

if TYPE_CHECKING:
    from collections.abc import Callable

EVENT = f"{REF.tag}/00-0000-0000-00-00000000"
DAG = Dag.model_validate(DIAMOND)
LINE = dag_of(stage("a"), stage("b", ("a", "scatter")))


class Bench:
    """Runs tasks of a DAG in one sandbox, on a store in memory."""

    def __init__(self, dag: Dag = DAG, environ: dict[str, str] | None = None, **store: Any) -> None:  # noqa: ANN401 -- a store's faults
        self.dag = dag
        self.clock = FakeClock()
        self.by_fake_clock = True
        self.store = MemoryBlobs(self.clock, **store)
        self.sandbox = Sandbox(environ or {}, START_NS - 300, START_NS - 100)
        phases = (Phase(name="run", load=(LoadStep(rate_per_s=1, count=1),)),)
        plan = TrialPlan(
            experiment="dataflow", target=S3Target(store="s3"), dags=(dag,), phases=phases, drain_limit_s=600
        )
        self.spec = TrialSpec(run_id="run-1", index=0, name="s3", tag=REF.tag, plan=plan, estimate_usd=0)

    def run(self, name: str, index: int = 0, *, attempt: int = 0, late_ns: int = 0) -> TaskRow:
        """Run one attempt at a task, whose first statement was so long ago."""
        item = TaskItem(ref=REF, event=EVENT, dag=self.dag.name, stage=name, index=index)
        invocation = self.sandbox.begin(self.clock, self.clock.now_ns() - late_ns, "request-1", attempt)
        running = runner.run_task(item, self.spec, self.store, lambda _: b"made", invocation)
        return self.clock.run(running) if self.by_fake_clock else asyncio.run(running)

    def run_all(self) -> list[TaskRow]:
        """Run every task, level by level."""
        stages = [each for level in self.dag.levels for each in level]
        return [self.run(each.name, index) for each in stages for index in range(each.tasks)]


@pytest.fixture
def application(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[TaskCall], TaskAnswer]], None]:
    """Let another function be `synthetic.work`."""
    return lambda function: monkeypatch.setitem(synthetic.TASKS, "work", function)


def test_every_object_of_an_execution_passes() -> None:
    """By hand: the diamond's 11 objects are written once and read 12 times, and the last task has seen 6 of them."""
    bench = Bench()
    rows = bench.run_all()
    assert {row.error for row in rows} == {""}
    passed = [(blob.operation, blob.object) for row in rows for blob in row.blobs if blob.outcome == "ok"]
    assert [operation for operation, _ in passed].count("get") == 12
    assert {name for operation, name in passed if operation == "put"} == {each.name for each in all_objects(DAG)}
    assert set(bench.store.blobs) == {object_key(REF.tag, EVENT, each.name) for each in all_objects(DAG)}
    assert json.loads(rows[-1].result) == {"objects": 6, "checked_bytes": 6 * 65_536, "right": True}


def test_a_retry_writes_over_what_the_attempt_before_has_written() -> None:
    """Otherwise its readers would have two, and the last stage one too many to remove."""
    bench = Bench(LINE)
    first, second = bench.run("a"), bench.run("a", attempt=1)
    assert (first.attempt, second.attempt) == (0, 1)
    assert len(bench.store.blobs) == 1


def test_the_store_is_opened_once_a_sandbox() -> None:
    """As a function keeps its client; the second task's time has no connecting in it."""
    bench = Bench(LINE)
    rows = bench.run_all()
    assert (bench.store.opened, bench.store.closed) == (1, 0)
    assert [row.cold for row in rows] == [True, False]
    assert [row.init_ns for row in rows] == [200, 0]


def test_a_task_that_reads_much_has_some_gets_in_flight_at_once() -> None:
    """One after the other would measure round trips; all at once a burst that no function could hold."""
    dag = dag_of(stage("a", tasks=40), stage("b", ("a", "gather")), stage("c", ("b", "broadcast")))
    bench = Bench(dag)
    rows = bench.run_all()
    assert [blob.outcome for blob in rows[40].blobs] == ["ok"] * 41
    assert bench.store.most_in_flight == IN_FLIGHT


def test_what_waits_for_connections_is_told_apart_from_what_passes() -> None:
    """By hand: of three gets of 2 s one finds its connection, one waits 1 s, and one 5 s, 2 s of it alone."""
    dag = dag_of(stage("a", tasks=3), stage("b", ("a", "gather")))
    bench = Bench(dag, passing_s=2, away={"a-1/b-0": 1, "a-2/b-0": 5})
    *_, row = bench.run_all()
    second_ns = 10**9
    assert row.open_ns == 0
    assert [blob.connect_ns for blob in row.blobs] == [0, second_ns, 5 * second_ns]
    assert task_parts(row)._replace(compute=0) == (2 * second_ns, 0, 5 * second_ns, 0, 0, 0)


FAILURES: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({"failing": {"/b-0": (Outcome.FAILED, "not_found")}}, "get a-0/b-0: not_found"),
    "unknown": ({"failing": {"/b-0": (Outcome.UNKNOWN, "timeout")}}, "get a-0/b-0: timeout"),
    "truncated": ({"damage": lambda blob: blob[:-1]}, "get a-0/b-0: truncated"),
    "other bytes": ({"damage": lambda blob: blob[:-1] + b"!"}, "get a-0/b-0: wrong_digest"),
    "broken driver": ({"raising": ["/b-0"]}, "get a-0/b-0: KeyError in the driver"),
    "not there": ({"unavailable": True}, "open: the store in memory is to be unavailable"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_what_a_store_does_is_told(failure: str) -> None:
    """It is data: the row has it, and the connection is not used again."""
    faults, error = FAILURES[failure]
    whole, bench = Bench(LINE), Bench(LINE, **faults)
    whole.run("a")
    bench.store.blobs = whole.store.blobs
    row = bench.run("b")
    assert row.outcome == "failed"
    assert row.error.startswith(error)
    assert [blob.outcome for blob in row.blobs] in ([], ["failed"], ["unknown"])
    assert bench.sandbox.opened is None


def test_a_put_that_fails_ends_the_task_and_begins_no_other() -> None:
    """By hand: eight are in flight when the first one fails; of 20 the others never leave."""
    dag = dag_of(stage("a"), stage("b", ("a", "scatter"), tasks=20))
    row = Bench(dag, failing={"/b-0": (Outcome.FAILED, "full")}).run("a")
    assert row.error == "put a-0/b-0: full"
    assert len(row.blobs) == IN_FLIGHT


def test_a_task_that_takes_too_long_is_given_up_and_what_is_in_flight_is_unknown() -> None:
    """Whether a put that nobody has answered was done, nobody knows."""
    row = Bench(LINE, hanging=["/b-0"]).run("a", late_ns=5_000_000_000)
    assert row.error == "timeout: the task was given up after 20 s"
    assert row.ended_ns - row.began_ns == 20_000_000_000
    assert [(blob.operation, blob.outcome, blob.error) for blob in row.blobs] == [("put", "unknown", "timeout")]


def test_computing_that_takes_too_long_is_given_up_and_the_sandbox_is_spoiled(
    application: Callable[[Callable[[TaskCall], TaskAnswer]], None],
) -> None:
    """A thread cannot be ended: the next task would share the processor with it."""
    release = threading.Event()
    application(lambda _: TaskAnswer(result=release.wait(60)))
    bench = Bench(LINE)
    bench.by_fake_clock = False  # whose loop has no threads
    row = bench.run("a", late_ns=19_990_000_000)
    release.set()
    assert row.error.startswith("timeout")
    assert bench.sandbox.is_spoiled


def _refuse(_: TaskCall) -> TaskAnswer:
    message = "the video has no key frame in chunk 3"
    raise ApplicationError(message)


ANSWERS: dict[str, tuple[Callable[[TaskCall], TaskAnswer], str]] = {
    "says no": (_refuse, "the video has no key frame in chunk 3"),
    "breaks": (lambda _: TaskAnswer({"b": [1 // 0]}), "ZeroDivisionError in synthetic.work: "),
    "too few": (lambda _: TaskAnswer({}), "synthetic.work has given outputs {}, and the DAG's edges want {'b': 1}"),
    "a set": (lambda _: TaskAnswer({"b": [{1}]}), "value is a set, which cannot be passed on"),
    "long": (lambda _: TaskAnswer({"b": [1]}, "x" * 4_000), "the task's result has 4,002 characters"),
    "not JSON": (lambda _: TaskAnswer({"b": [1]}, {"rate": float("nan")}), "the task's result cannot be written"),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_an_application_does_wrong_is_told(
    answer: str, application: Callable[[Callable[[TaskCall], TaskAnswer]], None]
) -> None:
    """Its author has nothing but the row."""
    function, error = ANSWERS[answer]
    application(function)
    bench = Bench(LINE)
    row = bench.run("a")
    assert (row.outcome, row.error[: len(error)], row.result) == ("failed", error, "")
    assert bench.store.blobs == {}


def test_a_task_that_nobody_knows_is_told() -> None:
    """A plan may name an application that this deployment does not have."""
    row = Bench(dag_of(stage("a", task="unheard.of"))).run("a")
    assert row.error.startswith("there is no application unheard")


def test_a_function_with_too_little_memory_does_not_begin() -> None:
    """Stores are compared with equal functions, or not at all."""
    dag = dag_of(stage("a", memory_mib=1_769))
    row = Bench(dag, {"AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "1024"}).run("a")
    assert row.error == "memory: the function has 1024 MiB, and the stage wants 1769"


def test_a_file_of_a_stage_is_read_once_by_a_sandbox_and_trial(
    application: Callable[[Callable[[TaskCall], TaskAnswer]], None],
) -> None:
    """As a function loads its model when it starts; the time is part of the first task's input."""
    seen: list[TaskCall] = []
    application(lambda call: seen.append(call) or synthetic.work(call))  # type: ignore[func-returns-value]
    bench = Bench(dag_of({**stage("a", tasks=2), "files": {"model": "s3://files/model.onnx"}}))
    rows = [bench.run("a", index) for index in (0, 1)]
    assert ([row.error for row in rows], [row.input_bytes for row in rows]) == (["", ""], [4, 0])
    assert [call.files for call in seen] == [{"model": b"made"}] * 2
    kept = Kept("dag", "a", "model")
    assert bench.sandbox.file("another", kept, lambda _: b"other") == b"other"
    assert bench.sandbox.file(REF.tag, kept, lambda _: b"again") == b"again"


def test_the_dags_own_input_goes_to_the_tasks_that_have_no_other(
    application: Callable[[Callable[[TaskCall], TaskAnswer]], None],
) -> None:
    """It is read from the results bucket, which is no part of what is compared."""
    seen: list[TaskCall] = []
    application(lambda call: seen.append(call) or TaskAnswer({name: [0] * n for name, n in call.parts.items()}))  # type: ignore[func-returns-value]
    dag = Dag.model_validate({**LINE.model_dump(), "input": {"maker": "synthetic.bytes", "seed": 11}})
    rows = Bench(dag).run_all()
    assert [(call.dag_input, call.seed, call.parts) for call in seen] == [(b"made", 11, {"b": 1}), (None, 11, {})]
    assert [row.input_bytes for row in rows] == [4, 0]


def test_a_sandbox_made_ahead_is_not_cold() -> None:
    """Nothing has waited for it."""
    bench = Bench(LINE)
    bench.clock.advance(2_000_000_000)
    assert not bench.run("a").cold

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pyarrow.parquet as pq
import pytest
from psycopg import sql
from tests.end_to_end.deployment import (
    INVENTORY_S,
    MEASURED_ATTEMPT,
    TO_BE_STOPPED,
    Deployment,
    finish,
    plan,
    run_tag_of,
    sandboxes,
    started_attempts,
    wait_for,
)
from tests.end_to_end.moments import assert_stops_cleanly, sends

from stepbench.contracts.identity import EventId
from stepbench.digits import counted
from stepbench.records.formats.deliveries import POSTGRESQL_SOURCE
from stepbench_tools.local.stack import BENCHMARK, RECEIVER

pytestmark = pytest.mark.end_to_end


@pytest.mark.nightly("faults")
def test_an_event_delivered_twice_and_a_malformed_one_are_counted_apart(deployment: Deployment) -> None:
    """At-least-once delivery and stray invocations are facts of the stores, not losses and not extra events."""
    name = "twice"
    with deployment.running(plan(name, "postgresql")) as process:
        assert wait_for(lambda: MEASURED_ATTEMPT in started_attempts(deployment, name))
        tag = run_tag_of(deployment, name)
        assert tag is not None
        again = EventId(tag, phase=1, writer=0, slice=0, attempt=0, sequence=5).text()
        for event in (again, "no identity in here"):
            deployment.stack.aws("lambda").invoke(
                FunctionName=deployment.stack.outputs[RECEIVER],
                InvocationType="Event",
                Payload=json.dumps({"source": POSTGRESQL_SOURCE, "event": event, "t3_us": 0}).encode(),
            )
        finished = finish(process)
    assert finished.code == 0, finished.stderr
    accounting = finished.trial["accounting"]
    assert (accounting["offered"], accounting["ok"], accounting["received"], accounting["lost"]) == (60, 60, 60, 0)
    assert (accounting["duplicates"], accounting["malformed"]) == (1, 1)
    assert {"duplicates", "malformed_events"} <= {caveat["kind"] for caveat in finished.trial["caveats"]}


def test_a_writer_killed_in_the_middle_is_replaced_and_its_gap_is_counted(deployment: Deployment) -> None:
    """Its second attempt offers only what is ahead; what the first could not record is neither ok nor forgotten."""
    name = "killed"
    before = deployment.inventory()
    with deployment.running(plan(name, "etcd", measured=640)) as process:
        assert wait_for(lambda: _flushed(deployment, name))
        for sandbox in sandboxes(deployment, "RunWriter"):
            sandbox.kill()
        finished = finish(process)
    accounting = finished.trial["accounting"]
    assert accounting["offered"] == 640
    assert accounting["unrecorded"] > 0
    assert accounting["offered"] == accounting["sent"] + accounting["unsent"] + accounting["unrecorded"]
    assert accounting["sent"] == accounting["ok"] + accounting["failed"] + accounting["unknown"]
    records = pq.read_table(deployment.folder(finished) / "trials/0000/records.parquet", columns=["attempt"])
    assert {0, 1} <= set(records["attempt"].to_pylist())
    assert (accounting["lost"], accounting["ok_arrived"]) == (0, accounting["ok"])
    assert "unrecorded" in {caveat["kind"] for caveat in finished.trial["caveats"]}
    assert deployment.settled_inventory(before) == before


@contextmanager
def _timing_out(deployment: Deployment, function: str, timeout_s: int) -> Iterator[None]:
    """Give a function another time-out for as long as the context lasts."""
    client, name = deployment.stack.aws("lambda"), f"{deployment.state.stack}-{function}"
    before_s = client.get_function_configuration(FunctionName=name)["Timeout"]
    client.update_function_configuration(FunctionName=name, Timeout=timeout_s)
    try:
        yield
    finally:
        client.update_function_configuration(FunctionName=name, Timeout=before_s)


@pytest.mark.nightly("faults")
def test_writers_whose_function_times_out_each_time_are_named_with_the_error(deployment: Deployment) -> None:
    """Each of three attempts dies long before its slice is over: nothing is recorded, and the report says why."""
    before = deployment.inventory()
    with _timing_out(deployment, "RunWriter", 2):
        finished = deployment.run(plan("timed-out", "etcd", measured=400))
    accounting = finished.trial["accounting"]
    assert (accounting["offered"], accounting["sent"]) == (400, 0)
    assert accounting["unsent"] + accounting["unrecorded"] == 400
    (missing,) = (caveat["text"] for caveat in finished.trial["caveats"] if caveat["kind"] == "missing_writer")
    assert "writer 0 in slice 0 of unloaded (Sandbox.Timedout: Task timed out after 2.00 seconds" in missing
    assert deployment.settled_inventory(before) == before


@pytest.mark.nightly("faults")
def test_what_happened_while_both_watchers_were_dead_is_in_no_latency(deployment: Deployment) -> None:
    """The state machine starts a watcher again within seconds, which would pass for the store's."""
    name = "unwatched"
    before = deployment.inventory()
    patient = plan(name, "etcd", measured=320)
    patient["trials"][0]["drain_limit_s"] = 60
    with deployment.running(patient) as process:
        assert wait_for(lambda: sends(deployment, name, MEASURED_ATTEMPT, more_than=40))
        watchers = sandboxes(deployment, "WatchChanges")
        assert watchers
        for watcher in watchers:
            watcher.kill()
        finished = finish(process)
    assert finished.code == 0, finished.stderr
    accounting, (window,) = finished.trial["accounting"], finished.trial["windows"]
    assert (accounting["ok_arrived"], accounting["lost"]) == (accounting["ok"], 0)
    assert 0 < accounting["watch_gap"] < accounting["received"]
    assert window["n"] == window["latency_ms"]["n"] == accounting["ok"] - accounting["watch_gap"]
    assert window["latency_ms"]["missing"] == 0
    (caveat,) = [caveat for caveat in finished.trial["caveats"] if caveat["kind"] == "watch_gap"]
    assert caveat["text"].startswith(
        f"{counted(accounting['watch_gap'], 'event', 'was', 'were')} acknowledged while nobody watched etcd"
    )
    assert deployment.settled_inventory(before) == before


def _flushed(deployment: Deployment, name: str) -> bool:
    """Tell whether the measured phase's writer has stored its first file."""
    tag = run_tag_of(deployment, name)
    files = deployment.stack.table.files(tag) if tag else []
    return any(file.attempt_id == MEASURED_ATTEMPT for file in files)


KILLS = 6
"""The first may hit a session that only gets ready; five of 400 writes are above 1 %."""
WAITING = "SELECT pid FROM pg_stat_activity WHERE application_name = 'stepbench' AND wait_event_type = 'Lock'"


def _kill_writing_backends(deployment: Deployment, table: sql.Identifier) -> None:
    """Lock the table until a writer's backend waits for it, and end every backend that does; several times."""
    server = f"postgresql://postgres@{deployment.endpoint('postgresql')}?sslmode=disable"
    with psycopg.connect(server) as locking, psycopg.connect(server, autocommit=True) as other:
        for _ in range(KILLS):
            locking.execute(sql.SQL("LOCK TABLE {}").format(table))
            assert wait_for(lambda: other.execute(WAITING).fetchall(), 30)
            other.execute(WAITING.replace("pid", "pg_terminate_backend(pid)", 1))
            locking.commit()


@pytest.mark.nightly("faults")
def test_refused_writes_fail_the_verdict_and_not_the_run(deployment: Deployment) -> None:
    """A run that lost some of its writes, the slow ones, is no answer; nobody should have to look for that."""
    name = "refused"
    with deployment.running(plan(name, "postgresql", measured=400)) as process:
        assert wait_for(lambda: MEASURED_ATTEMPT in started_attempts(deployment, name))
        _kill_writing_backends(deployment, sql.Identifier(f"stepbench_{run_tag_of(deployment, name)}", "records"))
        finished = finish(process)
    assert finished.code == 3, finished.stderr
    summary, trial = finished.summary, finished.trial
    assert (summary["status"], summary["verdict"], trial["incomplete"]) == ("succeeded", "failed", False)
    (window,), accounting = trial["windows"], trial["accounting"]
    assert accounting["offered"] == accounting["sent"] == window["sent"] == 400
    assert accounting["sent"] == accounting["ok"] + accounting["failed"] + accounting["unknown"]
    refused = window["failed"] + window["unknown"]
    assert refused == accounting["failed"] + accounting["unknown"] == sum(window["errors"].values()) > KILLS - 2
    (missed,) = (each for each in summary["thresholds"] if each["state"] != "passed")
    assert (missed["threshold"], missed["value"], missed["state"]) == ("errors < 1 %", refused / 400, "failed")
    assert {"failed_outcomes", "unknown_outcomes"} & {caveat["kind"] for caveat in trial["caveats"]}
    said = " ".join(finished.stderr.split())
    assert "succeeded threshold missed: errors < 1 %: " in said
    assert f" % in {trial['name']}" in said
    assert _output_of(deployment, summary["run_id"])["verdict"] == "failed"


def _output_of(deployment: Deployment, run_id: str) -> dict[str, Any]:
    """Return the output of a run's execution, which succeeded."""
    step_functions = deployment.stack.aws("stepfunctions")
    listed = step_functions.list_executions(
        stateMachineArn=deployment.stack.outputs[BENCHMARK], statusFilter="SUCCEEDED"
    )
    (arn,) = (each["executionArn"] for each in listed["executions"] if each["name"] == run_id)
    output: dict[str, Any] = json.loads(step_functions.describe_execution(executionArn=arn)["output"])
    return output


@pytest.mark.nightly("faults")
def test_an_execution_aborted_from_the_console_is_swept(deployment: Deployment) -> None:
    """An abort runs no Catch and stops no Lambda: the rule's sweeper has to find and end everything."""
    name = "aborted"
    before = deployment.inventory()
    with deployment.running(plan(name, "postgresql", measured=TO_BE_STOPPED)) as process:
        assert wait_for(lambda: MEASURED_ATTEMPT in started_attempts(deployment, name))
        deployment.abort()
        assert wait_for(lambda: deployment.inventory() == before, every_s=INVENTORY_S), deployment.inventory()
        finished = finish(process)
    assert finished.code == 1
    tag = run_tag_of(deployment, name)
    assert tag is not None
    arrived = deployment.stack.table.t4_count(tag)
    assert not wait_for(lambda: deployment.stack.table.t4_count(tag) > arrived, 2)


def test_a_refused_plan_creates_nothing(deployment: Deployment) -> None:
    """Every mistake is said at once, with its path and its remedy."""
    bad = plan("bad", "postgresql")
    bad["trials"][0]["phases"][1]["load"][0]["rate_per_s"] = 0
    bad["trials"][0]["target"]["stoer"] = "s3"
    before = deployment.inventory()
    finished = deployment.run(bad)
    assert finished.code == 2
    assert "trials[0].phases[1].load[0].rate_per_s" in finished.stderr
    assert "stoer" in finished.stderr
    assert run_tag_of(deployment, "bad") is None
    assert deployment.inventory() == before


def test_the_stack_itself_refuses_a_bad_plan_before_anything_is_created(deployment: Deployment) -> None:
    """Users paste plans into the console, past our command line."""
    before = deployment.inventory()
    step_functions = deployment.stack.aws("stepfunctions")
    execution = step_functions.start_execution(
        stateMachineArn=deployment.stack.outputs[BENCHMARK], input='{"name": "x", "trials": []}'
    )["executionArn"]
    assert wait_for(lambda: step_functions.describe_execution(executionArn=execution)["status"] != "RUNNING", 30)
    described = step_functions.describe_execution(executionArn=execution)
    assert (described["status"], described["error"]) == ("FAILED", "PlanError")
    assert "trials" in described["cause"]
    assert deployment.settled_inventory(before) == before


def test_control_c_under_load_leaves_nothing_running_and_nothing_behind(deployment: Deployment) -> None:
    """The user who presses Ctrl-C has no second tool to clean up with; other moments are in tests/faults."""
    assert_stops_cleanly(deployment, "measured", "s3")

from __future__ import annotations

import json

import pytest
from tests.end_to_end.deployment import (
    MEASURED_ATTEMPT,
    Deployment,
    finish,
    plan,
    run_tag_of,
    sandboxes,
    started_attempts,
    wait_for,
)

from stepbench.contracts.identity import EventId
from stepbench.local.stack import RECEIVER
from stepbench.records.deliveries import POSTGRESQL_SOURCE

pytestmark = pytest.mark.end_to_end


def test_an_event_delivered_twice_and_a_malformed_one_are_counted_apart(deployment: Deployment) -> None:
    """At-least-once delivery and stray invocations are facts of the stores, not losses and not extra events."""
    name = "twice"
    with deployment.running(plan(name, "postgresql")) as process:
        assert wait_for(lambda: MEASURED_ATTEMPT in started_attempts(deployment, name), 90)
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
    books = finished.trial["accounting"]
    assert (books["offered"], books["ok"], books["received"], books["lost"]) == (60, 60, 60, 0)
    assert (books["duplicates"], books["malformed"]) == (1, 1)
    assert {"duplicates", "malformed_events"} <= {caveat["kind"] for caveat in finished.trial["caveats"]}


def test_a_writer_killed_in_the_middle_is_replaced_and_its_gap_is_counted(deployment: Deployment) -> None:
    """Its second attempt offers only what is ahead; what the first could not record is neither ok nor forgotten."""
    name = "killed"
    before = deployment.inventory()
    with deployment.running(plan(name, "etcd", measured=320)) as process:
        assert wait_for(lambda: _flushed(deployment, name), 120)
        for sandbox in sandboxes(deployment, "RunWriter"):
            sandbox.kill()
        finished = finish(process)
    books = finished.trial["accounting"]
    assert books["offered"] == 320
    assert books["unrecorded"] > 0
    assert books["offered"] == books["sent"] + books["unsent"] + books["unrecorded"]
    assert books["sent"] == books["ok"] + books["failed"] + books["unknown"]
    assert books["ok"] > 200
    assert (books["lost"], books["ok_arrived"]) == (0, books["ok"])
    assert "unrecorded" in {caveat["kind"] for caveat in finished.trial["caveats"]}
    assert deployment.settled_inventory(before) == before


def _flushed(deployment: Deployment, name: str) -> bool:
    """Whether the measured phase's writer has put its first file down."""
    tag = run_tag_of(deployment, name)
    files = deployment.stack.table.files(tag) if tag else []
    return any(file.attempt_id == MEASURED_ATTEMPT for file in files)


def test_an_execution_aborted_from_the_console_is_swept(deployment: Deployment) -> None:
    """An abort runs no Catch and stops no Lambda: the rule's sweeper has to find and end everything."""
    name = "aborted"
    before = deployment.inventory()
    with deployment.running(plan(name, "postgresql", measured=400)) as process:
        assert wait_for(lambda: MEASURED_ATTEMPT in started_attempts(deployment, name), 90)
        machine = deployment.stack.outputs["BenchmarkStateMachineArn"]
        step_functions = deployment.stack.aws("stepfunctions")
        (running,) = step_functions.list_executions(stateMachineArn=machine, statusFilter="RUNNING")["executions"]
        step_functions.stop_execution(executionArn=running["executionArn"], cause="from the console")
        assert wait_for(lambda: deployment.inventory() == before, 90), deployment.inventory()
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
        stateMachineArn=deployment.stack.outputs["BenchmarkStateMachineArn"], input='{"name": "x", "trials": []}'
    )["executionArn"]
    assert wait_for(lambda: step_functions.describe_execution(executionArn=execution)["status"] != "RUNNING", 30)
    described = step_functions.describe_execution(executionArn=execution)
    assert (described["status"], described["error"]) == ("FAILED", "PlanError")
    assert "trials" in described["cause"]
    assert deployment.settled_inventory(before) == before

from __future__ import annotations

import json
import os
import re
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg import sql
from tests.end_to_end.deployment import (
    MEASURED_ATTEMPT,
    RUN_LIMIT_S,
    Deployment,
    finish,
    plan,
    run_tag_of,
    sandboxes,
    started_attempts,
    stopped,
    wait_for,
)

from stepbench.contracts.identity import EventId
from stepbench.local.stack import BENCHMARK, RECEIVER
from stepbench.records.formats.deliveries import POSTGRESQL_SOURCE
from stepbench.records.storage import layout

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
    accounting = finished.trial["accounting"]
    assert (accounting["offered"], accounting["ok"], accounting["received"], accounting["lost"]) == (60, 60, 60, 0)
    assert (accounting["duplicates"], accounting["malformed"]) == (1, 1)
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
    accounting = finished.trial["accounting"]
    assert accounting["offered"] == 320
    assert accounting["unrecorded"] > 0
    assert accounting["offered"] == accounting["sent"] + accounting["unsent"] + accounting["unrecorded"]
    assert accounting["sent"] == accounting["ok"] + accounting["failed"] + accounting["unknown"]
    assert accounting["ok"] > 200
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
    assert deployment.run(plan("after-time-out", "etcd")).trial["accounting"]["lost"] == 0


def test_what_happened_while_both_watchers_were_dead_is_in_no_latency(deployment: Deployment) -> None:
    """The state machine starts a watcher again within seconds, which would pass for the store's."""
    name = "unwatched"
    before = deployment.inventory()
    patient = plan(name, "etcd", measured=320)
    patient["trials"][0]["drain_limit_s"] = 60
    with deployment.running(patient) as process:
        assert wait_for(lambda: _sends(deployment, name, MEASURED_ATTEMPT, more_than=40), 90)
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
    assert caveat["text"].startswith(f"{accounting['watch_gap']} events were acknowledged while nobody watched etcd")
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


def test_refused_writes_fail_the_verdict_and_not_the_run(deployment: Deployment) -> None:
    """A run that lost some of its writes, the slow ones, is no answer; nobody should have to look for that."""
    name = "refused"
    with deployment.running(plan(name, "postgresql", measured=400)) as process:
        assert wait_for(lambda: MEASURED_ATTEMPT in started_attempts(deployment, name), 120)
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
    (missed,) = summary["thresholds"]
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


def test_a_store_that_stood_still_is_named_with_its_time_and_the_generator_is_not_blamed(
    deployment: Deployment,
) -> None:
    """100 events are due while etcd is stopped: some wait in flight, some for a place, none because of the writer."""
    name, stopped_s = "stalled", 5.0
    etcd = deployment.state.server("etcd")
    assert etcd is not None
    with deployment.running(plan(name, "etcd", measured=300)) as process:
        assert wait_for(lambda: MOMENTS["measured"](deployment, name), 120)
        at = datetime.now(UTC)
        with stopped([psutil.Process(each.pid) for each in etcd.processes]):
            time.sleep(stopped_s)
        finished = finish(process)
    assert finished.code == 0, finished.stderr
    accounting = finished.trial["accounting"]
    assert (accounting["offered"], accounting["ok"], accounting["lost"]) == (300, 300, 0)
    caveats = {caveat["kind"]: caveat["text"] for caveat in finished.trial["caveats"]}
    assert "saturated_generator" not in caveats
    told = re.search(
        r"Phase unloaded: .* between ([\d.]+) s and ([\d.]+) s of the trial \((.*) UTC\)", caveats["store_stalled"]
    )
    assert told is not None, caveats
    assert float(told[2]) - float(told[1]) == pytest.approx(stopped_s, abs=1.5)
    began = datetime.strptime(f"{at:%Y-%m-%d} {told[3]} +0000", "%Y-%m-%d %H:%M:%S %z")
    assert abs(began - at) < timedelta(seconds=3)


def test_an_execution_aborted_from_the_console_is_swept(deployment: Deployment) -> None:
    """An abort runs no Catch and stops no Lambda: the rule's sweeper has to find and end everything."""
    name = "aborted"
    before = deployment.inventory()
    with deployment.running(plan(name, "postgresql", measured=400)) as process:
        assert wait_for(lambda: MEASURED_ATTEMPT in started_attempts(deployment, name), 90)
        deployment.abort()
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


def test_trials_on_a_dead_store_fail_soon_say_why_and_hold_up_no_other(deployment: Deployment) -> None:
    """The first once kept its lease for want of the store, and the second waited ten minutes for that."""
    dead = {
        "experiment": "operations",
        "target": {"store": "redis", "endpoint": "127.0.0.1:1"},
        "workload": {"mix": {"read": 1}, "records": 10},
        "phases": [{"name": "load", "closed": {"clients": 1, "duration_s": 2}}],
    }
    mixed = plan("dead-store", "etcd")
    mixed["trials"] = [{"name": "one", **dead}, {"name": "two", **dead}, *mixed["trials"]]
    before = deployment.inventory()
    finished = deployment.run(mixed)
    assert finished.code == 1
    failures = [trial.get("failure") for trial in finished.summary["trials"]]
    assert [failure and failure["error"] for failure in failures] == ["TargetUnreachableError"] * 2 + [None]
    assert "Redis at 127.0.0.1:1: connect: refused" in failures[0]["cause"]
    assert "did not answer trial 1 of this run" in failures[1]["cause"]
    assert finished.summary["trials"][2]["accounting"]["received"] == 60
    assert deployment.settled_inventory(before) == before


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


WARM_UP_ATTEMPT = layout.attempt_id(0, 0, 0, 0)


def _leased(deployment: Deployment, name: str) -> bool:
    tag = run_tag_of(deployment, name)
    return any(lease.tag == tag for lease in deployment.stack.table.leases())


def _progress(deployment: Deployment, name: str, attempt: str) -> dict[str, Any]:
    tag = run_tag_of(deployment, name)
    beats = deployment.stack.table.beats(tag) if tag else {}
    return beats.get(f"writer#{attempt}", {})


def _sends(deployment: Deployment, name: str, attempt: str, *, more_than: int = 0) -> bool:
    return int(_progress(deployment, name, attempt).get("progress", {}).get("sent", 0)) > more_than


MOMENTS: dict[str, Callable[[Deployment, str], bool]] = {
    "start": lambda deployment, name: run_tag_of(deployment, name) is not None,
    "prepare": _leased,
    "warm-up": lambda deployment, name: _sends(deployment, name, WARM_UP_ATTEMPT),
    "measured": lambda deployment, name: _sends(deployment, name, MEASURED_ATTEMPT),
    "analysis": lambda deployment, name: bool(_progress(deployment, name, MEASURED_ATTEMPT).get("ended")),
}


def _drain(master: int) -> None:
    """Read what a terminal shows; its buffer is small, and a command would wait for the reader."""
    while select.select([master], [], [], 0)[0]:
        os.read(master, 65_536)


def _shown(deployment: Deployment, name: str, master: int) -> bool:
    _drain(master)
    return MOMENTS["measured"](deployment, name)


def test_a_terminal_that_is_closed_stops_the_run_and_leaves_nothing(deployment: Deployment) -> None:
    """Progress can be shown to nobody any more; writers, watchers and targets end all the same."""
    name = "closed-terminal"
    before = deployment.inventory()
    master, slave = os.openpty()
    terminal: dict[str, Any] = {"stdout": None, "stderr": None, "preexec_fn": partial(os.login_tty, slave)}
    with deployment.running(plan(name, "etcd", warm_up=60, measured=200), **terminal) as process:
        os.close(slave)
        assert wait_for(lambda: _shown(deployment, name, master), 90)
        os.close(master)
        assert process.wait(RUN_LIMIT_S) == 1
    assert deployment.settled_inventory(before) == before
    (summary,) = deployment.out.glob(f"{name}-*/summary.json")
    assert json.loads(summary.read_text())["status"] == "stopped"


def test_a_run_whose_messages_have_no_room_goes_through(deployment: Deployment) -> None:
    """The log of a nightly run may fill its disk; the result is what counts."""
    with (
        Path("/dev/full").open("w") as full,
        deployment.running(plan("full-log", "etcd", warm_up=20, measured=20), stderr=full) as process,
    ):
        stdout, _ = process.communicate(timeout=RUN_LIMIT_S)
    assert process.returncode == 0
    assert json.loads(stdout)["status"] == "succeeded"


def test_a_run_whose_data_have_no_room_fails_and_leaves_its_results(deployment: Deployment) -> None:
    """A script would read half a document; the folder has all of it."""
    name = "full-data"
    before = deployment.inventory()
    with (
        Path("/dev/full").open("w") as full,
        deployment.running(plan(name, "etcd", warm_up=20, measured=20), stdout=full) as process,
    ):
        _, stderr = process.communicate(timeout=RUN_LIMIT_S)
    assert process.returncode == 1
    assert "No space left on device" in stderr
    (summary,) = deployment.out.glob(f"{name}-*/summary.json")
    assert json.loads(summary.read_text())["status"] == "succeeded"
    assert deployment.settled_inventory(before) == before


@pytest.mark.parametrize(
    ("moment", "store"),
    [
        ("start", "postgresql"),
        ("prepare", "etcd"),
        ("warm-up", "postgresql"),
        ("measured", "etcd"),
        ("measured", "dynamodb"),
        ("measured", "postgresql"),
        ("measured", "s3"),
        ("analysis", "s3"),
    ],
)
def test_control_c_at_any_moment_leaves_nothing_running_and_nothing_behind(
    deployment: Deployment, moment: str, store: str
) -> None:
    """The user who presses Ctrl-C has no second tool to clean up with."""
    name = f"ctrl-c-{moment}-{store}"
    before = deployment.inventory()
    with deployment.running(plan(name, store, warm_up=60, measured=100)) as process:
        assert wait_for(lambda: MOMENTS[moment](deployment, name), 90)
        process.send_signal(signal.SIGINT)
        finished = finish(process)
    assert finished.code == 1, finished.stderr
    assert deployment.settled_inventory(before) == before
    assert finished.summary["status"] == "stopped"
    if moment == "measured":
        accounting = finished.trial["accounting"]
        assert finished.trial["incomplete"]
        assert accounting["offered"] == 100 == accounting["sent"] + accounting["unsent"] + accounting["unrecorded"]
        assert 0 < accounting["ok"] < 100
        assert (accounting["lost"], accounting["ok"]) == (0, accounting["ok_arrived"] + accounting["cut_off"])
        kinds = {"incomplete", "unsent", "missing_writer", "short_sample", "lost_events"}
        remedies = {caveat["remedy"] for caveat in finished.trial["caveats"] if caveat["kind"] in kinds}
        assert remedies == {"The run was stopped: run it again, to its end."}

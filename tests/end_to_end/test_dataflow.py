"""DAGs through both machines and the one that runs them: every object accounted for, nothing left, whatever is hit."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.end_to_end.deployment import Deployment, Finished, finish, run_tag_of, sandboxes, stopped, wait_for
from tests.integration.drivers.cassandra.conftest import ask
from tests.samples.dags import SMALL, dataflow_trial, stage

from stepbench.contracts.dataflow.dag import MAX_INLINE_TASKS, Dag
from stepbench.contracts.identity import EventId
from stepbench.drivers.cassandra.access import keyspace_of
from stepbench.workload.topology import all_objects, object_key
from stepbench_tools.local.stack import DATAFLOW

if TYPE_CHECKING:
    from collections.abc import Callable

RUN_LIMIT_S = 500
"""Of a run beside other tests' environments; nothing is decided by it but a run that never ends."""
pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(RUN_LIMIT_S + 200)]

WIDE = {
    "name": "wide",
    "stages": [
        stage("split", parameters={"output_bytes": 100}),
        stage("map", ("split", "scatter"), tasks=MAX_INLINE_TASKS + 8),
        stage("all", ("map", "broadcast"), tasks=2),
    ],
}
"""The map is run by a Distributed Map; of its objects each is read twice."""
SERIAL = {"name": "serial", "closed": {"clients": 1, "operations": 2, "duration_s": 120}}
HELD_S = 10
"""How long the stage in the middle takes, in which a test does what it does."""
RESTART_LIMIT_S = 300
"""Of a store that is started anew meanwhile."""
FAULTS = 3
"""Executions of it, one after the other: of the first a task is killed, of the second an object is cut short."""


def _held(timeout_s: int) -> dict[str, Any]:
    pause = {"compute_ms": 1_000 * HELD_S, "compute": "sleep"}
    return {
        "name": "held",
        "stages": [
            stage("before", parameters={"output_bytes": 1_000}),
            stage("held", ("before", "scatter"), parameters=pause, timeout_s=timeout_s),
            stage("after", ("before", "scatter"), ("held", "scatter")),
        ],
    }


HELD = _held(45)


def _trial(store: str, dag: dict[str, Any], *phases: dict[str, Any], **target: Any) -> dict[str, Any]:  # noqa: ANN401
    whole = {"store": store, **target}
    return dataflow_trial(dag, name=f"{store}-{dag['name']}", target=whole, phases=phases, drain_limit_s=90)


@pytest.fixture(scope="module")
def before(deployment: Deployment) -> dict[str, Any]:
    """Return what there was before any of these runs."""
    return deployment.inventory()


@pytest.fixture(scope="module")
def finished(deployment: Deployment, before: dict[str, Any]) -> Finished:
    """Run once: a small DAG on each store, in open and in closed loop; a wide one on one of them."""
    assert before
    # Two seconds for each: a machine that stands still for one must leave none unsent at the end.
    at_once = {"name": "together", "load": [{"rate_per_s": 0.5, "count": 3}], "settle_s": 1}
    trials = [
        _trial("s3", SMALL, SERIAL, at_once),
        _trial("redis", SMALL, SERIAL, at_once),
        _trial("redis", WIDE, SERIAL),
    ]
    with deployment.running({"name": "dags", "trials": trials}) as process:
        return finish(process, RUN_LIMIT_S)


def test_every_execution_and_every_object_is_accounted_for(finished: Finished) -> None:
    """By hand: five executions of 4 objects, read once each; two of 48 + 48 objects, the latter read twice."""
    assert finished.code == 0, finished.stderr
    expected = {"s3-small": (5, 20, 20), "redis-small": (5, 20, 20), "redis-wide": (2, 192, 2 * (48 + 2 * 48))}
    for trial in finished.summary["trials"]:
        accounting, found = trial["accounting"], trial["dataflow"]
        executions, objects, reads = expected[trial["name"]]
        counts = {name: accounting[name] for name in ("offered", "ok", "received", "lost", "duplicates")}
        assert counts == {"offered": executions, "ok": executions, "received": executions, "lost": 0, "duplicates": 0}
        assert (found["executions"]["completed"], found["executions"]["failed_attempts"]) == (executions, 0)
        known = {name: found["objects"][name] for name in ("written", "read", "reads", "deleted", "left", "again")}
        assert known == {
            "written": objects,
            "read": objects,
            "reads": reads,
            "deleted": objects,
            "left": 0,
            "again": 0,
        }


def test_a_client_starts_the_next_execution_when_the_last_has_ended(deployment: Deployment, finished: Finished) -> None:
    """Serial bursts, as published: no two of them run at once."""
    assert finished.code == 0, finished.stderr
    sfn = deployment.stack.aws("stepfunctions")
    listed = sfn.list_executions(stateMachineArn=deployment.stack.outputs[DATAFLOW])["executions"]
    tag = run_tag_of(deployment, "dags")
    assert tag is not None
    serial = sorted(
        (each for each in listed if each["name"].startswith(f"{tag}_00-")), key=lambda each: each["startDate"]
    )
    assert len(serial) == 2
    assert serial[0]["stopDate"] <= serial[1]["startDate"]


def test_nothing_is_left(deployment: Deployment, before: dict[str, Any], finished: Finished) -> None:
    """In no store, and no execution runs."""
    assert finished.code == 0, finished.stderr
    assert deployment.settled_inventory(before) == before


def busy_tasks(deployment: Deployment) -> list[psutil.Process]:
    """Return the sandboxes of tasks; there is one at least."""
    busy = [each for each in sandboxes(deployment, "RunTask") if each.status() != psutil.STATUS_ZOMBIE]
    assert busy
    return busy


class Held:
    """Executions of the DAG that holds in the middle, while they run."""

    def __init__(self, deployment: Deployment, name: str) -> None:
        self.deployment = deployment
        self.name = name
        self.dag = Dag.model_validate(HELD)

    def keys(self, execution: int) -> list[str]:
        """Return the keys of the objects that the first stage writes; that for the last stage comes last."""
        assert wait_for(lambda: run_tag_of(self.deployment, self.name))
        tag = str(run_tag_of(self.deployment, self.name))
        event = EventId(tag, 0, 0, 0, 0, execution).text()
        of_consumer = {each.consumer: each.name for each in all_objects(self.dag) if each.producer == "before"}
        return [object_key(tag, event, of_consumer[consumer]) for consumer in ("held", "after")]

    def when_held(self, execution: int, there: Callable[[str], bool], strike: Callable[[str], object]) -> None:
        """Wait until an execution's first stage has written, and strike at what the last one reads; no task goes on."""
        keys = self.keys(execution)
        assert wait_for(lambda: all(map(there, keys)))
        with stopped(busy_tasks(self.deployment)):  # a slow machine strikes for longer than the stage takes
            strike(keys[-1])


@pytest.fixture(scope="module")
def hit(deployment: Deployment, before: dict[str, Any]) -> Finished:
    """Run once, on S3: each fault between two stages of an execution of its own."""
    assert before
    held, bucket, s3 = (
        Held(deployment, "hit-dags"),
        deployment.stack.outputs["TargetBucketName"],
        deployment.stack.aws("s3"),
    )

    def there(key: str) -> bool:
        return bool(s3.list_objects_v2(Bucket=bucket, Prefix=key).get("Contents"))

    def kill(_key: str) -> None:
        for each in busy_tasks(deployment):
            each.kill()

    def cut_short(key: str) -> None:
        whole = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        s3.put_object(Bucket=bucket, Key=key, Body=whole[: len(whole) // 2])

    phase = {**SERIAL, "closed": {"clients": 1, "operations": FAULTS, "duration_s": 240}}
    with deployment.running({"name": held.name, "trials": [_trial("s3", HELD, phase)]}) as process:
        held.when_held(0, there, kill)
        held.when_held(1, there, cut_short)
        return finish(process, RUN_LIMIT_S)


@pytest.mark.nightly("faults")
def test_a_task_that_is_killed_is_made_again_and_one_that_reads_a_damaged_object_fails_for_good(hit: Finished) -> None:
    """What the killed attempt did left no row; of the damaged object three attempts say so, and the client goes on."""
    trial = hit.trial
    found = trial["dataflow"]
    assert (trial["accounting"]["offered"], trial["accounting"]["ok"]) == (FAULTS, FAULTS), hit.stderr
    assert (found["executions"]["completed"], found["executions"]["failed"]) == (FAULTS - 1, 1)
    assert found["executions"]["causes"] == {"get before-0/after-0: truncated": 1}
    assert found["objects"]["damaged"] == 3
    assert found["objects"]["left"] == 0


@pytest.mark.nightly("faults")
def test_a_store_that_loses_its_blobs_and_one_that_is_full_fail_an_execution_each(
    deployment: Deployment, before: dict[str, Any]
) -> None:
    """What the last stage reads is gone, and all connections, or there is no room; the last execution completes."""
    held, (host, _, port) = Held(deployment, "lost-dags"), deployment.endpoint("redis").partition(":")
    sfn, machine = deployment.stack.aws("stepfunctions"), deployment.stack.outputs[DATAFLOW]

    def ask(*words: str) -> bytes:
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall((" ".join(words) + "\r\n").encode())
            return connection.recv(1_000)

    def there(key: str) -> bool:
        return ask("EXISTS", key) == b":1\r\n"

    def restart(key: str) -> None:
        ask("DEL", key)
        ask("CLIENT", "KILL", "TYPE", "normal")

    def failed(count: int) -> bool:
        tag = run_tag_of(deployment, held.name)
        listed = sfn.list_executions(stateMachineArn=machine, statusFilter="FAILED")["executions"]
        return len([each for each in listed if each["name"].startswith(f"{tag}_00-")]) == count

    phase = {**SERIAL, "closed": {"clients": 1, "operations": FAULTS, "duration_s": 240}}
    with deployment.running({"name": held.name, "trials": [_trial("redis", HELD, phase)]}) as process:
        held.when_held(0, there, restart)
        try:
            held.when_held(1, there, lambda _key: ask("CONFIG", "SET", "maxmemory", "1"))
            assert wait_for(lambda: failed(2))
        finally:
            ask("CONFIG", "SET", "maxmemory", "0")
        finished = finish(process, RUN_LIMIT_S)
    found = finished.trial["dataflow"]
    assert (found["executions"]["completed"], found["executions"]["failed"]) == (1, 2), finished.stderr
    assert found["executions"]["causes"] == {
        "get before-0/after-0: not_found": 1,
        "put held-0/after-0: OOM": 1,
    }
    assert found["objects"]["not_found"] > 0
    assert found["objects"]["left"] == 0
    assert deployment.settled_inventory(before) == before


@pytest.mark.timeout(4 * RUN_LIMIT_S)
@pytest.mark.nightly("cassandra")
def test_a_cassandra_that_is_configured_and_later_starts_anew_keeps_its_blobs(
    deployment: Deployment, before: dict[str, Any]
) -> None:
    """The run starts it, has it configured before its first phase, and a restart between two stages loses nothing."""
    held = Held(deployment, "kept-dags")
    settings = {
        "compaction": "LCS",
        "concurrent_writes": 24,
        "file_cache_mib": 64,
        "memtable_cleanup_threshold": 0.33,
        "concurrent_compactors": 2,
    }
    configured: list[dict[str, Any]] = []

    def control(path: str, body: bytes | None = None) -> dict[str, Any]:
        request = urllib.request.Request(f"{deployment.endpoint('cassandra-control')}{path}", body)  # noqa: S310 -- loopback
        with urllib.request.urlopen(request, timeout=RUN_LIMIT_S) as answer:  # noqa: S310 -- loopback
            return dict(json.load(answer))

    def rows(statement: str) -> list[Any]:
        return list(asyncio.run(ask(deployment.endpoint("cassandra"), statement)))

    def there(key: str) -> bool:
        with suppress(OSError, AssertionError):  # it is configured first, and then has no table yet
            keyspace = keyspace_of(key.partition("/")[0])
            return bool(rows(f"SELECT part FROM {keyspace}.blobs WHERE key = '{key}' AND part = 0"))  # noqa: S608
        return False

    def restart(_key: str) -> None:
        configured.append(control("/")["settings"])
        control("/restart", json.dumps({"settings": configured[0]}).encode())

    phase = {**SERIAL, "closed": {"clients": 1, "operations": 1, "duration_s": RESTART_LIMIT_S}}
    tuned = _trial("cassandra", _held(RESTART_LIMIT_S), phase, tuning={"mode": "static", "settings": settings})
    tuned["drain_limit_s"] = 2 * RESTART_LIMIT_S
    with deployment.running({"name": held.name, "trials": [tuned]}) as process:
        # On a fresh machine it is fetched first.
        assert wait_for(lambda: process.poll() or deployment.runs("cassandra"), RUN_LIMIT_S)
        assert process.poll() is None, finish(process, RUN_LIMIT_S).stderr
        held.when_held(0, there, restart)
        finished = finish(process, RUN_LIMIT_S)
    found = finished.trial["dataflow"]
    assert (found["executions"]["completed"], found["executions"]["failed"]) == (1, 0), finished.stderr
    assert found["objects"]["left"] == 0
    assert configured[0]["concurrent_writes"] == settings["concurrent_writes"]
    assert [
        name for (name,) in rows("SELECT keyspace_name FROM system_schema.keyspaces") if b"system" not in name
    ] == []
    assert deployment.settled_inventory(before) == before


@pytest.mark.nightly("faults")
def test_a_stopped_run_leaves_no_execution_and_no_object(deployment: Deployment, before: dict[str, Any]) -> None:
    """Executions are children of nobody: what clears up stops them, and their tasks look for the trial's flag."""
    name = "stopped-dags"
    load = {"name": "many", "load": [{"rate_per_s": 1, "count": 60}]}
    sfn, machine = deployment.stack.aws("stepfunctions"), deployment.stack.outputs[DATAFLOW]

    def runs() -> bool:
        tag = run_tag_of(deployment, name)
        listed = sfn.list_executions(stateMachineArn=machine, statusFilter="RUNNING")["executions"]
        return any(each["name"].startswith(f"{tag}_00-") for each in listed)

    with deployment.running({"name": name, "trials": [_trial("s3", HELD, load)]}) as process:
        assert wait_for(runs)
        process.send_signal(signal.SIGINT)
        finished = finish(process, RUN_LIMIT_S)
    assert finished.code == 1, finished.stderr
    assert finished.summary["status"] == "stopped"
    assert deployment.settled_inventory(before) == before

"""Trials of operations through both machines: accounting, summary, report, records, and nothing left in the stores."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.chromium import quiet_page
from tests.end_to_end.deployment import Deployment, Finished, finish, run_tag_of, wait_for

pytestmark = pytest.mark.end_to_end

MIX = {"read": 2, "insert": 1, "overwrite": 1, "update": 1}
CLOSED, ALONE, SHARED, INVOKED, INLINE = range(5)
"""The plan's trials."""
KINDS = {"read", "insert", "overwrite", "update"}


def _trial(name: str, target: dict[str, Any], load: dict[str, Any], **fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- JSON
    workload = {"mix": MIX, "record": {"shape": "product"}, "records": 200, **fields.pop("workload", {})}
    trial = {"experiment": "operations", "name": name, "target": target, "workload": workload}
    return {**trial, "phases": [{"name": "steady", **load}], **fields}


def _closed(clients: int, duration_s: float) -> dict[str, Any]:
    return {"closed": {"clients": clients, "duration_s": duration_s, "think_ms": 2}}


@pytest.fixture(scope="module")
def before(deployment: Deployment) -> dict[str, Any]:
    """Return what was there before."""
    return deployment.inventory()


@pytest.fixture(scope="module")
def finished(deployment: Deployment, before: dict[str, Any]) -> Finished:  # noqa: ARG001 -- first, before is looked at
    """Run closed loop, open loop without reuse over TLS, two writers that share the clients, and both kinds of Map."""
    by_a_map = {"writers": 6, "max_concurrency": 2}
    alone = {"load": [{"rate_per_s": 20, "count": 60}]}
    trials = [
        _trial("closed", {"store": "redis"}, _closed(5, 3)),
        _trial("alone", {"store": "postgresql", "tls": True}, alone, workload={"reuse": False}),
        _trial("shared", {"store": "etcd"}, _closed(5, 3), writers=2),
        _trial("invoked", {"store": "postgresql"}, {"invoked": {"operations": 20}}, **by_a_map),
        _trial("inline", {"store": "redis"}, {"invoked": {"operations": 20, "map": "inline"}}, **by_a_map),
    ]
    return deployment.run({"name": "operations", "trials": trials})


@pytest.fixture(scope="module")
def folder(deployment: Deployment, finished: Finished) -> Path:
    """Return the folder of its results."""
    return deployment.folder(finished)


def _records(folder: Path, trial: int) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = pq.read_table(folder / f"trials/{trial:04d}/records.parquet").to_pydict()
    return columns


def test_operations_go_through_both_machines_and_every_one_is_accounted_for(finished: Finished) -> None:
    """A second experiment is no second product: the same promise holds."""
    assert finished.code == 0, finished.stderr
    assert finished.summary["status"] == "succeeded"
    stores = ["redis", "postgresql", "etcd", "postgresql", "redis"]
    assert [trial["store"] for trial in finished.summary["trials"]] == stores
    for trial in finished.summary["trials"]:
        accounting = trial["accounting"]
        assert accounting["offered"] == accounting["sent"] + accounting["unsent"] + accounting["unrecorded"], trial[
            "name"
        ]
        assert accounting["ok"] == accounting["offered"] > 50, trial["name"]
        assert not accounting["awaited"]
        assert not trial["incomplete"]
        assert trial["emulated"] is False, trial["name"]


def test_every_number_that_is_shown_is_what_the_records_say(deployment: Deployment, folder: Path) -> None:
    """Kinds, percentiles with their counts, and the parts of connecting are in the file as well."""
    checked = deployment.recompute(folder)
    assert checked.code == 0, checked.stdout + checked.stderr
    assert checked.stdout.count(" 0 differ") == 4


def test_an_open_loop_sends_what_was_scheduled(finished: Finished) -> None:
    """They are 60 operations at 20/s, each with a connection of its own, none too late."""
    accounting = finished.summary["trials"][ALONE]["accounting"]
    assert (accounting["offered"], accounting["ok"]) == (60, 60)


def test_each_kind_has_its_latencies(finished: Finished) -> None:
    """Reads and writes of one store are different things, and the summary keeps them apart."""
    for trial in finished.summary["trials"]:
        (window,) = trial["windows"]
        operations = window["operations"]
        assert {kind["kind"] for kind in operations["kinds"]} == KINDS
        assert sum(kind["ok"] for kind in operations["kinds"]) == window["n"] > 0
        assert all(kind["service_ms"]["min"] > 0 for kind in operations["kinds"])
        assert operations["clients"] == {"alone": None, "invoked": 2, "inline": 2}.get(trial["name"], 5)


@pytest.mark.parametrize(("trial", "kind"), [(INVOKED, "distributed"), (INLINE, "inline")])
def test_a_map_gets_each_of_its_invocations_done(finished: Finished, trial: int, kind: str) -> None:
    """They are six, two at once, each with a record of its own; the Map was there before and after them."""
    (window,) = finished.summary["trials"][trial]["windows"]
    found = window["operations"]["invocations"]
    assert (found["planned"], found["recorded"], found["map"], found["at_once"]) == (6, 6, kind, 2)
    assert 1 <= found["most_at_once"] <= 2
    assert found["sandboxes"] >= 1
    assert found["map_s"] > found["wall_s"] > 0
    assert window["n"] == window["sent"] == 120


def test_the_parts_of_a_connection_of_its_own_explain_its_service_time(finished: Finished) -> None:
    """Connect, TLS, authentication and operation: a part that nobody counts would be blamed on the store."""
    (window,) = finished.summary["trials"][ALONE]["windows"]
    connecting = window["operations"]["connecting"]
    assert connecting["tls_ms"]["min"] > 0
    assert connecting["connect_ms"]["min"] > 0
    assert abs(connecting["unaccounted_share"]) < 0.02
    assert finished.summary["trials"][CLOSED]["windows"][0]["operations"]["connecting"] is None


def test_records_say_which_client_did_what(folder: Path, finished: Finished) -> None:
    """Somebody will want to compute from the rows what the summary does not have."""
    shared, alone = _records(folder, SHARED), _records(folder, ALONE)
    assert len(shared["kind"]) == finished.summary["trials"][SHARED]["accounting"]["offered"]
    # A sandbox that starts after the phase's end offers nothing.
    assert {(client, client % 2) for client in range(5)} >= set(zip(shared["client"], shared["writer"], strict=True))
    assert len(set(shared["client"])) > 1
    assert set(shared["kind"]) == KINDS == set(alone["kind"])
    assert all(each > 0 for name in ("connect_ns", "tls_ns", "operate_ns") for each in alone[name])
    assert not {"connect_ns", "tls_ns", "authenticate_ns", "operate_ns"} & set(shared)


def test_the_report_has_a_section_of_operations(folder: Path, finished: Finished) -> None:
    """A browser shows the page of a real run."""
    with quiet_page(folder / "report.html") as page:
        text = page.inner_text("#operations")
        kinds = page.locator("#kinds tbody").count()
    assert kinds == len(finished.summary["trials"])
    assert "A connection for each operation" in text


def test_nothing_is_left_in_the_stores(deployment: Deployment, before: dict[str, Any], finished: Finished) -> None:
    """Keys, schemas, tables, connections, leases and executions end with the run."""
    assert finished.code == 0
    assert deployment.inventory() == before


def _sent(deployment: Deployment, name: str) -> list[int]:
    """Return how many operations each of the two writers has sent, once both have said so."""
    tag = run_tag_of(deployment, name)
    beats = deployment.stack.table.beats(tag) if tag else {}
    sent = [beat.get("progress", {}).get("sent", 0) for who, beat in beats.items() if who.startswith("writer#")]
    return sent if len(sent) == 2 else []


@pytest.mark.nightly("faults")
def test_control_c_within_a_closed_loop_leaves_nothing_and_keeps_what_was_measured(
    deployment: Deployment, before: dict[str, Any]
) -> None:
    """Nothing was scheduled, so the accounting is of what was begun."""
    trial = _trial("stopped", {"store": "redis"}, _closed(5, 60), writers=2)
    plan: dict[str, Any] = {"name": "ctrl-c-operations", "trials": [trial]}
    with deployment.running(plan) as process:
        assert wait_for(lambda: min(_sent(deployment, plan["name"]), default=0) > 50)
        process.send_signal(signal.SIGINT)
        stopped = finish(process)
    assert stopped.code == 1, stopped.stderr
    assert stopped.summary["status"] == "stopped"
    assert deployment.settled_inventory(before) == before
    accounting = stopped.trial["accounting"]
    assert stopped.trial["incomplete"]
    assert accounting["offered"] == accounting["sent"] + accounting["unsent"] + accounting["unrecorded"]
    assert accounting["ok"] == accounting["offered"] > 50

from __future__ import annotations

import json
import re
import subprocess
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from tests.chromium import quiet_page
from tests.end_to_end.deployment import ROOT, Deployment, Finished, plan

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import Plan, TrialRef
from stepbench.planning import find_plan, parse_plan
from stepbench.records.formats.t4_items import parse_item
from stepbench.records.storage.run_store import read_t4_lines
from stepbench_tools.local.calibrating import calibrate_plan, with_rate
from stepbench_tools.local.paths import Paths

if TYPE_CHECKING:
    from numpy.typing import NDArray

pytestmark = pytest.mark.end_to_end

STORES = ("s3", "dynamodb", "postgresql", "etcd")


@pytest.fixture(scope="module")
def finished(deployment: Deployment) -> Finished:
    """Run the main job, small: four stores through both machines, the first warmed up; receivers print, too."""
    asked = plan("four", *STORES)
    for trial in asked["trials"]:
        trial["log_t4"] = "all"
    for trial in asked["trials"][1:]:
        trial["phases"] = trial["phases"][1:]  # a warm-up of each takes as long as what is measured
    return deployment.run(asked)


@pytest.fixture(scope="module")
def folder(deployment: Deployment, finished: Finished) -> Path:
    """Return the folder of its results."""
    return deployment.folder(finished)


def test_four_stores_go_through_both_machines_and_every_event_is_accounted_for(finished: Finished) -> None:
    """The first page promises it."""
    assert finished.code == 0, finished.stderr
    assert finished.summary["status"] == "succeeded"
    assert [trial["store"] for trial in finished.summary["trials"]] == list(STORES)
    for trial in finished.summary["trials"]:
        accounting = trial["accounting"]
        assert (accounting["offered"], accounting["sent"], accounting["ok"], accounting["received"]) == (
            60,
            60,
            60,
            60,
        ), trial["name"]
        assert (accounting["lost"], accounting["duplicates"], accounting["malformed"]) == (0, 0, 0), trial["name"]
        assert not trial["incomplete"]


def test_latencies_are_in_the_order_that_physics_asks_for(finished: Finished) -> None:
    """An event cannot reach its receiver before it was sent, nor be late by less than nothing."""
    for trial in finished.summary["trials"]:
        (window,) = trial["windows"]
        assert window["n"] == 60
        assert 0 < window["latency_ms"]["min"] <= window["latency_ms"]["max"] < 10_000
        assert window["service_ms"]["min"] > 0
        assert window["lateness_ms"]["min"] >= 0
        assert window["response_trigger_ms"]["max"] >= window["latency_ms"]["max"]


def test_only_what_the_emulator_plays_is_called_emulated(finished: Finished) -> None:
    """A reader must not take MiniStack's numbers for AWS's."""
    emulated = {trial["store"]: trial["emulated"] for trial in finished.summary["trials"]}
    assert emulated == {"s3": True, "dynamodb": True, "postgresql": True, "etcd": False}
    assert ", with Lambda of MiniStack" in finished.summary["trials"][2]["provider"]
    assert "are emulated: no comparison with another store" in finished.summary["not_compared"]
    assert finished.summary["trials"][3]["provider"].startswith("etcd 3.5")


def test_the_clocks_of_one_machine_agree_within_their_bound(finished: Finished) -> None:
    """Writers, receivers and watchers measured themselves against the loopback reference."""
    for trial in finished.summary["trials"]:
        clock = trial["clock"]
        assert clock["offset_ms"] is not None, trial["name"]
        assert abs(clock["offset_ms"]) <= clock["bound_ms"]


def test_results_land_in_the_run_s_folder(folder: Path, finished: Finished) -> None:
    """The folder holds what `--json` prints."""
    assert json.loads((folder / "summary.json").read_text()) == finished.summary
    assert {"plan.json", "manifest.json", "report.html"} <= {path.name for path in folder.iterdir()}
    for index in range(4):
        assert (folder / "trials" / f"{index:04d}" / "records.parquet").stat().st_size > 0


def test_the_report_of_a_real_run_shows_the_summary_s_numbers(folder: Path, finished: Finished) -> None:
    """The page and the file must not tell different stories."""
    with quiet_page(folder / "report.html") as page:
        text = page.inner_text("body")
    assert all(trial["provider"] in text for trial in finished.summary["trials"])


def test_every_number_that_is_shown_is_what_the_records_say(deployment: Deployment, folder: Path) -> None:
    """By another program, which knows the definitions only."""
    checked = deployment.recompute(folder)
    assert checked.code == 0, checked.stdout + checked.stderr
    compared = dict(re.findall(r"^([\w.]+): (\d+) numbers compared, 0 differ$", checked.stdout, re.MULTILINE))
    assert compared.keys() == {"summary.json", "report.html", "csv", "text"}
    assert min(int(compared[name]) for name in ("summary.json", "report.html", "csv")) > 150
    assert int(compared["text"]) == 6 * len(STORES)


@pytest.mark.parametrize("index", range(len(STORES)), ids=STORES)
def test_arrivals_come_by_the_log_as_well_and_agree(deployment: Deployment, finished: Finished, index: int) -> None:
    """What a receiver and a watcher print comes through CloudWatch Logs, and is what they stored, byte by byte."""
    caveats = finished.summary["trials"][index]["caveats"]
    assert [each["kind"] for each in caveats if each["kind"] == "log_disagreement"] == []
    run_id = str(finished.summary["run_id"])
    ref = TrialRef(run_id=run_id, trial=index, tag=trial_tag(run_id, index))
    lines, damaged = read_t4_lines(ref, deployment.stack.runs)
    items = [item for item in map(parse_item, deployment.stack.table.t4_items(ref.tag)) if item.entries.size]
    assert damaged == ()
    assert {(line.request_id, line.entries) for line in lines} == {
        (item.request_id, item.entries.tobytes()) for item in items
    }
    assert sum(item.entries.size for item in items) >= 60


def test_functions_ran_with_nothing_but_what_the_layers_hold() -> None:
    """An import that is not packaged passes in the project's environment and fails on AWS."""
    python = ROOT / ".stepbench/venvs/lambda/bin/python"
    listed = subprocess.run([python, "-m", "pip", "list", "--format=json"], capture_output=True, check=True, text=True)
    names = {package["name"].lower() for package in json.loads(listed.stdout)}
    assert {"awslambdaric", "boto3"} <= names
    assert not names & {"stepbench", "pydantic", "numpy", "aws-lambda-powertools", "grpcio", "psycopg"}


def test_nothing_is_left_in_the_account_after_a_run(deployment: Deployment, finished: Finished) -> None:
    """Targets, triggers, leases and executions end with the run."""
    assert finished.code == 0
    inventory = deployment.inventory()
    tables = inventory.pop("tables")
    assert sorted(tables) == sorted(deployment.stack.outputs[name] for name in ("ResultsTableName", "RunsTableName"))
    schemas = [inventory.pop(name) for name in ("schemas", "schemas with TLS")]
    assert {name: left for name, left in inventory.items() if left} == {}
    assert schemas == [["public"], ["public"]]


def test_nothing_that_the_run_asked_for_was_refused(deployment: Deployment, finished: Finished) -> None:
    """The emulator judges each call of a role by its policies; test_permissions.py takes every path there is."""
    assert finished.code == 0
    whole = deployment.decisions.read_text().rpartition("\n")[0]  # the last line may be half written
    decisions = [json.loads(line) for line in whole.splitlines()]
    assert [each for each in decisions if each["decision"] != "Allow"] == []
    functions = {each["session"].removeprefix(f"{deployment.state.stack}-") for each in decisions}
    assert functions >= {"PrepareTarget", "RunWriter", "ReceiveEvents", "WatchChanges", "TearDownTarget"}


RATE_PER_S = 50


@pytest.fixture(scope="module")
def ended(deployment: Deployment) -> Finished:
    """Run a phase that ends when it is sure, and one that follows its warm-up without a gap, as trials of one run."""
    load = [{"rate_per_s": RATE_PER_S, "duration_s": 5}]
    until = {"metric": "p50", "relative_width": 2, "max_events": 100 * RATE_PER_S}
    gapless = [
        {"name": "warm-up", "measured": False, "load": load},
        {"name": "step", "gapless": True, "load": [*load, {"rate_per_s": 2 * RATE_PER_S, "duration_s": 5}]},
    ]
    common = {"target": {"store": "etcd"}, "writers": 2, "drain_limit_s": 10}
    phases = ([{"name": "steady", "load": load, "until": until}], gapless)
    finished = deployment.run({"name": "ends", "trials": [{**common, "phases": each} for each in phases]})
    assert finished.code == 0, finished.stderr
    return finished


def _t0_ns(deployment: Deployment, finished: Finished, trial: int) -> NDArray[np.int64]:
    records = pq.read_table(deployment.folder(finished) / f"trials/{trial:04d}/records.parquet")
    t0_ns: NDArray[np.int64] = records["t0_ns"].to_numpy()
    return t0_ns


@pytest.mark.nightly("runs")
def test_a_phase_ends_when_it_is_sure_and_the_report_says_why(deployment: Deployment, ended: Finished) -> None:
    """
    Both branches of the state machine are taken; there is no gap before the end, balanced accounting.

    On a busy machine a writer that begins late leaves events unsent; one that sees the end late sends some beyond it.
    """
    trial = ended.summary["trials"][0]
    (stopped,), (window,), accounting = trial["stopped"], trial["windows"], trial["accounting"]
    assert (stopped["reason"], stopped["metric"]) == ("sure", "p50")
    assert stopped["stopped_at_s"] < 100
    assert accounting["offered"] == accounting["ok"] + accounting["unsent"] < 100 * RATE_PER_S, accounting
    assert window["n"] <= accounting["ok"] == accounting["received"], accounting
    t0_ns = _t0_ns(deployment, ended, 0)
    assert t0_ns.size == accounting["offered"]
    due_ns = t0_ns[t0_ns < t0_ns[0] + stopped["stopped_at_s"] * 1e9]
    assert due_ns.size == pytest.approx(stopped["stopped_at_s"] * RATE_PER_S, abs=1)
    assert (np.diff(due_ns) == 10**9 // RATE_PER_S).all()
    assert stopped["text"] in (deployment.folder(ended) / "report.html").read_text()


@pytest.mark.nightly("runs")
def test_what_is_measured_follows_its_warm_up_without_a_gap(deployment: Deployment, ended: Finished) -> None:
    """One Map offers both phases, which are accounted for apart; the state machine passes over the second's turn."""
    trial = ended.summary["trials"][1]
    both = warm_up, accounting = trial["warm_up"], trial["accounting"]
    assert (warm_up["offered"], accounting["offered"]) == (5 * RATE_PER_S, 15 * RATE_PER_S)
    assert [each["ok"] + each["unsent"] for each in both] == [5 * RATE_PER_S, 15 * RATE_PER_S]
    assert [each["ok"] for each in both] == [each["received"] for each in both]
    t0_ns = _t0_ns(deployment, ended, 1)
    assert set(np.diff(t0_ns[: 10 * RATE_PER_S]).tolist()) == {10**9 // RATE_PER_S}


@pytest.mark.emulator
@pytest.mark.stores
@pytest.mark.nightly("calibration")
def test_counts_are_exact_through_the_state_machines(deployment: Deployment) -> None:
    """Writer, watcher and store are processes of their own; latencies are judged by `stepbench calibrate`, not here."""
    whole = with_rate(parse_plan(find_plan("calibrate")), 200)
    plan = Plan(name="calibrate-e2e", trials=whole.trials[-1:], budget_usd=1)
    people = Console(file=StringIO(), width=200)
    report = calibrate_plan(Paths(ROOT, deployment.home), plan, deployment.out, people)
    (trial,) = report.trials
    assert trial.exact, trial.failures()
    found = {count.metric: count.measured for count in trial.counts}
    assert found["acknowledged"] == 2_000
    assert min(found["lost"], found["duplicates"], found["out_of_order"]) > 0
    (folder,) = deployment.out.glob(f"{report.run_id}")
    assert json.loads((folder / "calibration.json").read_text())["run_id"] == report.run_id
    assert (folder / "trials/0000/truth.jsonl").read_text().count('"write"') > 2_000

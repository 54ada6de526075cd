from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.chromium import chromium
from tests.end_to_end.deployment import ROOT, Deployment, Finished, plan

pytestmark = pytest.mark.end_to_end

STORES = ("s3", "dynamodb", "postgresql", "etcd")


@pytest.fixture(scope="module")
def finished(deployment: Deployment) -> Finished:
    """The main job, small: all four stores through both machines."""
    return deployment.run(plan("four", *STORES))


@pytest.fixture(scope="module")
def folder(deployment: Deployment, finished: Finished) -> Path:
    """Where its results are."""
    return deployment.out / str(finished.summary["run_id"])


def test_four_stores_go_through_both_machines_and_every_event_is_accounted_for(finished: Finished) -> None:
    """The promise of the first page."""
    assert finished.code == 0, finished.stderr
    assert finished.summary["status"] == "succeeded"
    assert [trial["store"] for trial in finished.summary["trials"]] == list(STORES)
    for trial in finished.summary["trials"]:
        books = trial["accounting"]
        assert (books["offered"], books["sent"], books["ok"], books["received"]) == (60, 60, 60, 60), trial["name"]
        assert (books["lost"], books["duplicates"], books["malformed"]) == (0, 0, 0), trial["name"]
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
    assert emulated == {"s3": True, "dynamodb": True, "postgresql": False, "etcd": False}
    assert finished.summary["trials"][3]["provider"].startswith("etcd 3.5")


def test_the_clocks_of_one_machine_agree_within_their_bound(finished: Finished) -> None:
    """Writers, receivers and watchers measured themselves against the loopback reference."""
    for trial in finished.summary["trials"]:
        clock = trial["clock"]
        assert clock["offset_ms"] is not None, trial["name"]
        assert abs(clock["offset_ms"]) <= clock["bound_ms"]


def test_results_land_in_the_run_s_folder(folder: Path, finished: Finished) -> None:
    """What `--json` prints is what the folder keeps."""
    assert json.loads((folder / "summary.json").read_text()) == finished.summary
    assert {"plan.json", "manifest.json", "report.html"} <= {path.name for path in folder.iterdir()}
    for index in range(4):
        assert (folder / "trials" / f"{index:04d}" / "records.parquet").stat().st_size > 0


def test_the_report_of_a_real_run_shows_the_summary_s_numbers(folder: Path, finished: Finished) -> None:
    """The page and the file must not tell different stories."""
    errors: list[str] = []
    with chromium() as browser:
        page = browser.new_page()
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto((folder / "report.html").as_uri())
        text = page.inner_text("body")
    assert errors == []
    assert all(trial["provider"] in text for trial in finished.summary["trials"])


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
    assert tables == [deployment.stack.outputs["ResultsTableName"]]
    schemas = [inventory.pop(name) for name in ("schemas", "schemas with TLS")]
    assert {name: left for name, left in inventory.items() if left} == {}
    assert schemas == [["public"], ["public"]]

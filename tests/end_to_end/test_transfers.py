"""Transfers through both machines, on Lambda and as tasks: every read accounted for, cold, whole, in a dataset."""

from __future__ import annotations

import gzip
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from tests.end_to_end.deployment import RUN_LIMIT_S, Deployment, Finished, finish, tasks, wait_for

from stepbench.contracts.transfer.rows import TransferRow
from stepbench.records.storage import layout
from stepbench_tools.local.stack import Upstream

if TYPE_CHECKING:
    from tests.end_to_end.api_client import ApiClient

pytestmark = pytest.mark.end_to_end

SIZES_MIB = (1, 3)
TRIAL = {
    "experiment": "transfer",
    "platforms": ["lambda", "fargate"],
    "file_sizes_mib": list(SIZES_MIB),
    "choice": "each",
    "transfers": 3,
    "dataset": "end-to-end",
}
READS = 3 * 2 * 2
"""Transfers, platforms, sources."""


@pytest.fixture(scope="module")
def finished(deployment: Deployment) -> Finished:
    """Run once."""
    return deployment.run({"name": "transfers", "trials": [TRIAL]})


@pytest.fixture(scope="module")
def folder(deployment: Deployment, finished: Finished) -> Path:
    """Return the folder of its results."""
    return deployment.folder(finished)


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[TransferRow]:
    """Return its rows, as NDJSON has them."""
    lines = (folder / "trials/0000/transfers.ndjson").read_text().splitlines()
    return [TransferRow.model_validate_json(line) for line in lines]


def test_every_read_is_accounted_for(finished: Finished) -> None:
    """A third experiment, and the same promise."""
    assert finished.code == 0, finished.stderr
    accounting = finished.trial["accounting"]
    assert (accounting["offered"], accounting["sent"], accounting["ok"]) == (READS, READS, READS), finished.stderr
    assert not accounting["awaited"]
    assert {caveat["kind"] for caveat in finished.trial["caveats"]} == {"emulated"}


def test_each_process_is_new_and_reads_whole_files(rows: list[TransferRow]) -> None:
    """The function was changed before each of its transfers, and each task is a process of its own."""
    assert len(rows) == READS
    assert len({row.sandbox for row in rows}) == READS // 2
    assert all(row.cold and row.digest_ok for row in rows)
    assert {(row.platform, row.source) for row in rows} == {
        (platform, source) for platform in ("lambda", "fargate") for source in ("efs", "s3")
    }
    assert all(row.received_bytes == row.file_bytes for row in rows)
    assert all(len(row.mib_ns) == row.file_bytes // 2**20 for row in rows)


def test_the_files_hold_the_same_rows(folder: Path, rows: list[TransferRow]) -> None:
    """Parquet for analyses, NDJSON for whatever reads lines."""
    table = pq.read_table(folder / "trials/0000/records.parquet").to_pylist()
    assert [TransferRow.model_validate(each) for each in table] == rows


def test_the_run_is_in_its_dataset(deployment: Deployment, folder: Path) -> None:
    """The next run adds to it; the report of a span is made from there."""
    keys = list(deployment.stack.runs.keys(layout.dataset_prefix("end-to-end")))
    assert any(folder.name in key and layout.dataset_day(key) for key in keys)


def test_the_api_answers_with_the_report_of_a_span(deployment: Deployment, api: ApiClient, finished: Finished) -> None:
    """Over the emulator's gateway, from the function that has the libraries; behind the local dashboard, too."""
    assert finished.code == 0, finished.stderr
    assert "end-to-end" in api.call("GET", "/datasets").body["datasets"]
    found = api.call("GET", "/datasets/end-to-end/summary")
    assert (found.status, found.body["n"], len(found.body["cells"])) == (200, READS, 2 * 2 * len(SIZES_MIB)), found
    page = api.call("GET", "/datasets/end-to-end/report")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert f"{READS} reads".encode() in page.body
    compressed = api.call("GET", "/datasets/end-to-end/report", headers={"Accept-Encoding": "gzip"})
    assert compressed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(compressed.body) == page.body
    assert Upstream(deployment.stack).send("GET", "/datasets/end-to-end/report", {}, b"").body == page.body
    later = f"{datetime.now(UTC) + timedelta(days=2):%Y-%m-%d}"
    assert api.call("GET", f"/datasets/end-to-end/summary?from={later}").status == 422
    assert api.call("GET", "/datasets/nobodys/report").status == 404


def test_a_team_s_rows_are_its_own(api: ApiClient, other_team: ApiClient, finished: Finished) -> None:
    """Two teams add to datasets of one name, and to one of their own; each sees its own rows and the default team's."""
    assert finished.code == 0, finished.stderr
    small = {**TRIAL, "platforms": ["lambda"], "sources": ["s3"], "file_sizes_mib": [1], "transfers": 1, "cold": "no"}
    trials = [small, {**small, "dataset": "payments"}]
    run_id = other_team.call("POST", "/runs", {"plan": {"name": "theirs", "trials": trials}}).body["run_id"]
    assert wait_for(lambda: other_team.call("GET", f"/runs/{run_id}").body["state"] == "succeeded", RUN_LIMIT_S)
    assert api.call("GET", "/datasets/end-to-end/summary").body["n"] == READS
    assert other_team.call("GET", "/datasets/end-to-end/summary").body["n"] == READS + 1
    assert "payments" not in api.call("GET", "/datasets").body["datasets"]
    assert "payments" in other_team.call("GET", "/datasets").body["datasets"]
    assert api.call("GET", "/datasets/payments/report").status == 404
    assert other_team.call("GET", "/datasets/payments/report").status == 200


def test_the_page_shows_transfers_and_no_latencies(folder: Path) -> None:
    """Sections of windows that there are none of would be noise."""
    page = (folder / "report.html").read_text()
    assert "How long does a file take?" in page
    assert "No operations were measured" not in page


@pytest.mark.nightly("faults")
def test_a_stopped_run_leaves_no_process_behind(deployment: Deployment) -> None:
    """Stopping an execution stops its tasks; a function's process looks for its trial's flag."""
    trial = {**TRIAL, "transfers": 60, "concurrency": 2, "cold": "no", "file_sizes_mib": [25], "dataset": None}
    before = deployment.inventory()
    with deployment.running({"name": "stopped-transfers", "trials": [trial]}) as process:
        assert wait_for(lambda: tasks(deployment))
        process.send_signal(signal.SIGINT)
        stopped = finish(process)
    assert stopped.code == 1, stopped.stderr
    assert stopped.summary["status"] == "stopped"
    assert wait_for(lambda: not tasks(deployment), 30)
    assert deployment.settled_inventory(before) == before

"""Transfers through both machines, on Lambda and as tasks: every read accounted for, cold, whole, in a dataset."""

from __future__ import annotations

import signal
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.end_to_end.deployment import Deployment, Finished, finish, tasks, wait_for

from stepbench.contracts.transfer_rows import TransferRow
from stepbench.records.storage import layout

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


def test_the_page_shows_transfers_and_no_latencies(folder: Path) -> None:
    """Sections of windows that there are none of would be noise."""
    page = (folder / "report.html").read_text()
    assert "How long does a file take?" in page
    assert "No operations were measured" not in page


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

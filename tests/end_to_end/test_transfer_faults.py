"""Transfers that are hit on the way: each read is a row or is missed by name, and the next run reads the same files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.end_to_end.deployment import ROOT, TASKS, Deployment, Finished, finish, tasks, wait_for
from tests.support.fault_proxy import Cut, FaultProxy, Limit, Rule, fault_proxy, http1

from stepbench.contracts.transfer.plan import FILES_SEED
from stepbench.contracts.transfer.rows import TransferRow
from stepbench.experiments.transfer.program.progress import MIB
from stepbench.experiments.transfer.staging import file_path
from stepbench_tools.local.paths import Paths

pytestmark = [pytest.mark.end_to_end, pytest.mark.nightly("faults")]

CUT, HELD, SHORT, WHOLE = SIZES_MIB = (1, 2, 3, 4)
"""What happens to the reads of a file of this size, from S3 first, then from EFS; in this order, in Lambda first."""
HOLD = Limit(65_536)
"""Such a read would take half a minute: the test does what it does meanwhile."""
SHORTER = 1_000
"""Bytes of what is put in the place of a file."""
TRIAL = {
    "experiment": "transfer",
    "platforms": ["lambda", "fargate"],
    "sources": ["s3", "efs"],
    "choice": "each",
    "cold": "no",
}
READS = len(SIZES_MIB) * 2 * 2


class Files(NamedTuple):
    """The files of a deployment."""

    deployment: Deployment

    def match(self, size_mib: int) -> bytes:
        """Return how the request for one of them begins."""
        return f"GET /{self._bucket}/{file_path(FILES_SEED, size_mib)}".encode()

    def shorten(self, size_mib: int) -> None:
        """Put less in its place, in the bucket and in the folder."""
        key = file_path(FILES_SEED, size_mib)
        self.deployment.stack.aws("s3").put_object(Bucket=self._bucket, Key=key, Body=bytes(SHORTER))
        os.truncate(self._folder / key, SHORTER)

    def unmount(self) -> None:
        """Take the folder away that stands for EFS."""
        self._folder.rename(self._folder.with_name("elsewhere"))

    def mount(self) -> None:
        """Put it back, if it is away."""
        away = self._folder.with_name("elsewhere")
        if away.exists():
            away.rename(self._folder)

    @property
    def _bucket(self) -> str:
        return self.deployment.stack.outputs["FilesBucketName"]

    @property
    def _folder(self) -> Path:
        return Paths(ROOT, self.deployment.home).data / "files"


class Hit(NamedTuple):
    """A run whose reads were hit: what there was before it, and what it has left."""

    before: dict[str, object]
    finished: Finished
    rows: list[TransferRow]
    page: str


@pytest.fixture(scope="module")
def hit(deployment: Deployment) -> Hit:
    """Run once; all faults are in one trial, since none of them may disturb another one's reads."""
    files, before = Files(deployment), deployment.inventory()
    try:
        with fault_proxy(deployment.endpoint("emulator"), http1) as proxy:
            trial = {**TRIAL, "file_sizes_mib": list(SIZES_MIB), "transfers": len(SIZES_MIB)}
            trial["target"] = {"store": "files", "endpoint": proxy.url}
            proxy.follow(
                Rule(Cut("in-answer", after_bytes=MIB // 2), files.match(CUT), times=1),
                Rule(Cut("in-answer", "fin", after_bytes=MIB // 2), files.match(CUT), times=1),
                Rule(HOLD, files.match(HELD)),
                Rule(HOLD, files.match(WHOLE), from_nth=2, times=1),
            )
            with deployment.running({"name": "hit-transfers", "trials": [trial]}) as process:
                _strike(deployment, files, proxy)
                finished = finish(process)
    finally:
        files.mount()
    folder = deployment.folder(finished)
    lines = (folder / "trials/0000/transfers.ndjson").read_text().splitlines()
    rows = [TransferRow.model_validate_json(line) for line in lines]
    return Hit(before, finished, rows, (folder / "report.html").read_text())


def _strike(deployment: Deployment, files: Files, proxy: FaultProxy) -> None:
    """Do what is to be done while reads are held, in their order."""
    assert wait_for(lambda: _held(proxy) == 1)  # in Lambda
    files.shorten(SHORT)
    files.unmount()
    proxy.cut()
    for held in (2, 3, 4, 5):  # three attempts at one task, and the first one at another
        assert wait_for(lambda held=held: _held(proxy) == held)  # type: ignore[misc]
        files.mount()
        for task in tasks(deployment):
            task.kill()


def _held(proxy: FaultProxy) -> int:
    return proxy.stats().faults.get(HOLD.name, 0)


def test_every_read_is_accounted_for(hit: Hit) -> None:
    """Of what failed, of what left no row, and of what nobody touched."""
    accounting = hit.finished.trial["accounting"]
    counts = {name: accounting[name] for name in ("offered", "ok", "failed", "unknown", "unrecorded", "unsent")}
    assert counts == {"offered": READS, "ok": 6, "failed": 8, "unknown": 0, "unrecorded": 2, "unsent": 0}
    assert hit.finished.code == 3, hit.finished.stderr


def test_each_fault_is_a_row_with_its_error(hit: Hit) -> None:
    """And whatever was read beside it has its rate: a fault of one source is none of the other."""
    shorter = f"wrong-length: {SHORTER} bytes in place of {SHORT * MIB}"
    assert [(row.number, row.source, row.error) for row in hit.rows] == [
        (0, "s3", "connection-reset"),
        (0, "efs", ""),
        (1, "s3", "connection-closed"),
        (1, "efs", ""),
        (2, "s3", "connection-reset"),
        (2, "efs", "mount-gone"),
        *((number, source, shorter) for number in (4, 5) for source in ("s3", "efs")),
        *((number, source, "") for number in (6, 7) for source in ("s3", "efs")),
    ]
    assert all((row.outcome == "failed") == bool(row.error) == (row.transfer_ns is None) for row in hit.rows)
    assert all(row.received_bytes < row.file_bytes for row in hit.rows if row.error)
    assert 0 < hit.rows[2].received_bytes <= MIB // 2  # in the middle; after a reset what was not read yet is lost


def test_a_killed_task_is_missed_by_name_and_a_later_attempt_takes_its_place(hit: Hit) -> None:
    """Its rows died with it, so that only the state machine knows what has become of it."""
    texts = {caveat["kind"]: caveat["text"] for caveat in hit.finished.trial["caveats"]}
    assert set(texts) == {"emulated", "failed_outcomes", "missing_writer", "unrecorded"}
    said = "2 left no row (States.TaskFailed: Essential container exited; exit code 137)"
    assert said in texts["missing_writer"]
    assert texts["unrecorded"].startswith("1 attempt ended without rows")
    assert {row.number: row.attempt for row in hit.rows if row.attempt} == {7: 1}


def test_nothing_is_left_of_it(deployment: Deployment, hit: Hit) -> None:
    """Neither a lease nor a process."""
    assert deployment.settled_inventory(hit.before) == hit.before
    assert tasks(deployment) == []


def test_the_page_says_what_failed(hit: Hit) -> None:
    """Whoever looks at it only sees that eight reads have no rate."""
    for error in ("connection-reset", "connection-closed", "mount-gone", "wrong-length: 1000 bytes", "exit code 137"):
        assert error in hit.page


def test_a_task_without_room_is_told_and_the_files_are_whole_again(deployment: Deployment, hit: Hit) -> None:
    """What was put in their place has been made anew; nobody waits for room for ever."""
    before = deployment.inventory()
    trial = {**TRIAL, "file_sizes_mib": [SHORT], "transfers": 1}
    with _no_room(deployment):
        finished = deployment.run({"name": "no-room", "trials": [trial]})
    accounting = finished.trial["accounting"]
    counts = {name: accounting[name] for name in ("offered", "ok", "failed", "unknown", "unrecorded", "unsent")}
    assert counts == {"offered": 4, "ok": 2, "failed": 0, "unknown": 0, "unrecorded": 0, "unsent": 2}, finished.stderr
    (text,) = [caveat["text"] for caveat in finished.trial["caveats"] if caveat["kind"] == "missing_writer"]
    assert text.startswith("2 reads never began, and 0 left no row (AmazonECS.Unknown: Capacity is unavailable at this")
    assert deployment.settled_inventory(before) == before == hit.before


@contextmanager
def _no_room(deployment: Deployment) -> Iterator[None]:
    """Have tasks that sleep take all the room there is."""
    stack = deployment.stack
    ecs, sleeping = stack.aws("ecs"), {"name": "transfer", "command": ["import time; time.sleep(600)"]}
    asked = {"cluster": stack.name, "taskDefinition": f"{stack.name}-RunTransferTask"}
    started = [ecs.run_task(**asked, overrides={"containerOverrides": [sleeping]})["tasks"] for _ in range(TASKS)]
    try:
        yield
    finally:
        for (task,) in started:
            ecs.stop_task(cluster=stack.name, task=task["taskArn"])

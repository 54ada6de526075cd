"""Transfers that are hit on the way: each read is a row or is missed by name, and the next run reads the same files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.end_to_end.deployment import ROOT, TASKS, Deployment, Finished, finish, tasks, wait_for

from stepbench.contracts.transfer import FILES_SEED
from stepbench.contracts.transfer_rows import TransferRow
from stepbench.local.paths import Paths
from stepbench.testing.fault_proxy import Cut, FaultProxy, Limit, Rule, fault_proxy, http1
from stepbench.transfer.digest import MIB
from stepbench.transfer.files import file_path

pytestmark = pytest.mark.end_to_end

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
def hit(deployment: Deployment) -> Iterator[Hit]:
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
    yield Hit(before, finished, rows, (folder / "report.html").read_text())


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

"""
What `stepbench calibrate --transfers` does: the program of `transfer` reads from the reference bucket, twice.

First jitter is planted, then nothing is. Transfers are made in a drawn order, so that what the machine does for a
while falls onto all simulated hours and days alike.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from stepbench.contracts.findings import SlowSpells
from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.transfer.plan import FILES_SEED
from stepbench.contracts.transfer.rows import FileRead, RunTransferInput, TransferItem, TransferRows
from stepbench.errors import LocalEnvironmentError
from stepbench.experiments.transfer.program.contents import digest_of, pieces
from stepbench.load.machine_speed import check_cores
from stepbench.load.process import gc_paused
from stepbench_tools.calibration.reference_bucket import FILES, reference_bucket
from stepbench_tools.calibration.report import CalibrationReport, judge
from stepbench_tools.calibration.transfers import FILE_BYTES, FILE_MIB, NOTHING, PLANTED, calibrate_transfers, moment_ns
from stepbench_tools.local.processes import await_end, has_ended, log_tail, spawn, terminate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TextIO

    from stepbench.contracts.transfer.rows import TransferRow
    from stepbench_tools.calibration.instrument import Calibration
    from stepbench_tools.calibration.reference_bucket import ReferenceBucket
    from stepbench_tools.calibration.transfers import Jitter, TrueTransfer

SEED = 7
"""The seed of fates and of the order: every run has the same ones, with nothing in them that is not planted."""
AT_ONCE = 3
"""Processes that read, which two cores leave time for."""
RECORDS = "calibrate-transfers.jsonl"
LIMIT_S = 60.0
"""The slowest transfer takes some three seconds."""
STALLED_S = 3 * LIMIT_S
NOTIFY_EVERY_S = 5.0
_RUNS = {"planted": PLANTED, "nothing planted": NOTHING}


def calibrate_transfers_here(transfers: int, out: Path, notify: Callable[[str], None]) -> CalibrationReport:
    """
    Make so many transfers with what is planted, and as many with nothing; compare both with what the bucket did.

    Truth and rows are put into `calibrate-transfers.jsonl` in `out`, a line each.

    Raises:
        LocalEnvironmentError: a process that reads was ended from outside.
    """
    before = check_cores()
    with (out / RECORDS).open("w", encoding="utf-8") as records:
        trials = [_run(name, jitter, transfers, records, notify) for name, jitter in _RUNS.items()]
    return judge("transfers", tuple(trials), SlowSpells.merged((before, check_cores())))


def _run(name: str, jitter: Jitter, transfers: int, records: TextIO, notify: Callable[[str], None]) -> Calibration:
    truth, rows = transfer_all(jitter, transfers, lambda text: notify(f"{name}: {text}"))
    records.writelines(f'{{"run": "{name}", "truth": {each.line()}}}\n' for each in truth)
    records.writelines(f'{{"run": "{name}", "row": {row.model_dump_json()}}}\n' for row in rows)
    return calibrate_transfers(name, jitter, truth, rows)


def transfer_all(
    jitter: Jitter, transfers: int, notify: Callable[[str], None] = lambda _: None, *, stalled_s: float = STALLED_S
) -> tuple[list[TrueTransfer], list[TransferRow]]:
    """
    Make so many transfers from a bucket of their own, each in a sandbox of its own.

    Returns:
        What the bucket did, and the rows that it was given to store.

    Raises:
        LocalEnvironmentError: a process that reads was ended from outside, or none has read anything for `stalled_s`.
    """
    numbers = list(range(transfers))
    random.Random(SEED).shuffle(numbers)  # noqa: S311 -- no secret
    digest = digest_of(FILES_SEED, FILE_MIB)
    tasks = [_task(number, digest) for number in numbers]
    with (
        tempfile.TemporaryDirectory(prefix="stepbench-calibrate-") as folder,
        reference_bucket(b"".join(pieces(FILES_SEED, FILE_MIB)), jitter, SEED) as bucket,
        gc_paused(),
    ):
        readers: list[psutil.Process] = []
        try:
            for place in range(AT_ONCE):
                pid = _start_reader(Path(folder) / f"reader-{place}", tasks[place::AT_ONCE], bucket)
                readers.append(psutil.Process(pid))
            _await_rows(readers, bucket, transfers, notify, stalled_s=stalled_s)
            if left := transfers - len(bucket.stored):
                logs = "".join(map(log_tail, sorted(Path(folder).glob("*.log"))))
                message = f"{left} transfers have left no row, since a process that reads was ended{logs}"
                raise LocalEnvironmentError(message)
        finally:
            terminate(each.pid for each in readers if not has_ended(each))
    return bucket.truth, [row for body in bucket.stored.values() for row in TransferRows.model_validate_json(body).rows]


def _await_rows(
    readers: Sequence[psutil.Process],
    bucket: ReferenceBucket,
    transfers: int,
    notify: Callable[[str], None],
    *,
    stalled_s: float,
) -> None:
    """Wait until all readers have ended. Raises LocalEnvironmentError where no row has come for `stalled_s`."""
    rows, came_s = 0, time.monotonic()
    while await_end(readers, min(NOTIFY_EVERY_S, stalled_s)):
        if len(bucket.stored) > rows:
            rows, came_s = len(bucket.stored), time.monotonic()
        elif time.monotonic() - came_s > stalled_s:
            message = f"no transfer has ended for {stalled_s:g} s ({rows} of {transfers} had); is a process suspended?"
            raise LocalEnvironmentError(message)
        notify(f"{rows} of {transfers} transfers")


def _start_reader(path: Path, tasks: Sequence[str], bucket: ReferenceBucket) -> int:
    """Start a process that makes some transfers, one after the other; what ends it early is in its log."""
    path.write_text("".join(f"{task}\n" for task in tasks), encoding="utf-8")
    command = (sys.executable, "-m", "stepbench_tools.calibration.reference_bucket", path)
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "ECS_"))}
    return spawn(command, log=path.with_suffix(".log"), env={**ours, **bucket.environ})


def _task(number: int, digest: str) -> str:
    """Return the item of one transfer; it is due at its simulated moment, which its row keeps."""
    due_ns, run_id = moment_ns(number), "calibrate"
    item = TransferItem(
        ref=TrialRef(run_id=run_id, trial=0, tag=trial_tag(run_id, 0)),
        writer=number,
        platform="lambda",
        reads=(FileRead(source="s3", path=f"transfers/{number}", file_bytes=FILE_BYTES, digest=digest),),
        bucket=FILES,
        connections=1,
        block_bytes=2**20,
        refresh=False,
        limit_s=LIMIT_S,
        due_ns=due_ns,
        wait_until=datetime.fromtimestamp(due_ns / 1e9, UTC),
    )
    return RunTransferInput(item=item, attempt=0).model_dump_json()

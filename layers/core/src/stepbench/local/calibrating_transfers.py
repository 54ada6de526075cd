"""
What `stepbench calibrate --transfers` does: the program of `transfer` reads from the reference bucket, twice.

Once jitter is planted, and once nothing is. Transfers are made in a drawn order, so that what the machine does for a
while falls onto all simulated hours and days alike.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from concurrent.futures import ProcessPoolExecutor, as_completed
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stepbench.calibration.reference_bucket.jitter import FILE_BYTES, FILE_MIB, NOTHING, PLANTED, moment_ns
from stepbench.calibration.reference_bucket.server import FILES, ReferenceBucket, reference_bucket
from stepbench.calibration.report import CalibrationReport, judge_transfers
from stepbench.calibration.transfers import calibrate_transfers
from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.transfer import FILES_SEED
from stepbench.contracts.transfer_rows import FileRead, RunTransferInput, TransferItem, TransferRows
from stepbench.load.process import gc_paused
from stepbench.transfer.__main__ import main as run_program
from stepbench.transfer.contents import digest_of, pieces

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.calibration.reference_bucket.jitter import Jitter
    from stepbench.contracts.transfer_rows import TransferRow

SEED = 7
"""Of fates and of the order: every run has the same, in which nothing is that is not planted."""
AT_ONCE = 3
LIMIT_S = 60.0
_NOTIFY_EVERY = 100
_RUNS = {"planted": PLANTED, "nothing planted": NOTHING}


def calibrate_transfers_here(transfers: int, notify: Callable[[str], None]) -> CalibrationReport:
    """Make so many transfers with what is planted, and as many with nothing; compare both with what the bucket did."""
    trials = []
    for name, jitter in _RUNS.items():
        bucket, rows = transfer_all(name, jitter, transfers, notify)
        trials.append(calibrate_transfers(name, jitter, bucket.truth, rows))
    return judge_transfers(tuple(trials))


def transfer_all(
    name: str, jitter: Jitter, transfers: int, notify: Callable[[str], None]
) -> tuple[ReferenceBucket, list[TransferRow]]:
    """
    Make so many transfers from a bucket of their own.

    Returns:
        The bucket, with its truth, and the rows that it was given to store.
    """
    numbers = list(range(transfers))
    random.Random(SEED).shuffle(numbers)  # noqa: S311 -- no secret
    digest = digest_of(FILES_SEED, FILE_MIB)
    context = multiprocessing.get_context("spawn")  # forked, they would have the bucket's threads' locks
    with (
        reference_bucket(b"".join(pieces(FILES_SEED, FILE_MIB)), jitter, SEED) as bucket,
        ProcessPoolExecutor(AT_ONCE, context, _begin_worker) as pool,
        gc_paused(),
    ):
        try:
            tasks = (_task(number, digest) for number in numbers)
            made = [pool.submit(run_program, {**bucket.environ, "TRANSFER_TASK": task}) for task in tasks]
            for done, each in enumerate(as_completed(made), 1):
                each.result()
                if done % _NOTIFY_EVERY == 0 or done == transfers:
                    notify(f"{name}: {done} of {transfers} transfers")
        finally:
            pool.shutdown(cancel_futures=True)
    return bucket, [row for body in bucket.stored.values() for row in TransferRows.model_validate_json(body).rows]


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


def _begin_worker() -> None:
    """Keep the rows' lines, which the program prints, off our own output; an interrupt is the parent's business."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

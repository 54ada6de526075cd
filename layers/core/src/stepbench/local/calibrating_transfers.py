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
from concurrent.futures.process import BrokenProcessPool
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stepbench.calibration.reference_bucket.jitter import FILE_BYTES, FILE_MIB, NOTHING, PLANTED, moment_ns
from stepbench.calibration.reference_bucket.server import FILES, reference_bucket
from stepbench.calibration.report import CalibrationReport, judge_transfers
from stepbench.calibration.transfers import calibrate_transfers
from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.transfer import FILES_SEED
from stepbench.contracts.transfer_rows import FileRead, RunTransferInput, TransferItem, TransferRows
from stepbench.errors import LocalEnvironmentError
from stepbench.load.process import gc_paused
from stepbench.transfer.__main__ import main as run_program
from stepbench.transfer.contents import digest_of, pieces

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TextIO

    from stepbench.calibration.instrument import Calibration
    from stepbench.calibration.reference_bucket.jitter import Jitter, TrueTransfer
    from stepbench.contracts.transfer_rows import TransferRow

SEED = 7
"""Of fates and of the order: every run has the same, in which nothing is that is not planted."""
AT_ONCE = 3
"""Processes that read, which two cores leave time for."""
RECORDS = "calibrate-transfers.jsonl"
LIMIT_S = 60.0
_NOTIFY_EVERY = 100
_RUNS = {"planted": PLANTED, "nothing planted": NOTHING}


def calibrate_transfers_here(transfers: int, out: Path, notify: Callable[[str], None]) -> CalibrationReport:
    """
    Make so many transfers with what is planted, and as many with nothing; compare both with what the bucket did.

    Truth and rows are put into `calibrate-transfers.jsonl` in `out`, a line each.

    Raises:
        LocalEnvironmentError: a process that reads was ended from outside.
    """
    with (out / RECORDS).open("w", encoding="utf-8") as records:
        trials = [_run(name, jitter, transfers, records, notify) for name, jitter in _RUNS.items()]
    return judge_transfers(tuple(trials))


def _run(name: str, jitter: Jitter, transfers: int, records: TextIO, notify: Callable[[str], None]) -> Calibration:
    truth, rows = transfer_all(jitter, transfers, lambda text: notify(f"{name}: {text}"))
    records.writelines(f'{{"run": "{name}", "truth": {each.line()}}}\n' for each in truth)
    records.writelines(f'{{"run": "{name}", "row": {row.model_dump_json()}}}\n' for row in rows)
    return calibrate_transfers(name, jitter, truth, rows)


def transfer_all(
    jitter: Jitter, transfers: int, notify: Callable[[str], None] = lambda _: None
) -> tuple[list[TrueTransfer], list[TransferRow]]:
    """
    Make so many transfers from a bucket of their own, each in a sandbox of its own.

    Returns:
        What the bucket did, and the rows that it was given to store.

    Raises:
        LocalEnvironmentError: a process that reads was ended from outside.
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
                    notify(f"{done} of {transfers} transfers")
        except BrokenProcessPool as error:
            message = "a process that reads was ended; is there memory left? Run the calibration again"
            raise LocalEnvironmentError(message) from error
        finally:
            pool.shutdown(cancel_futures=True)
    return bucket.truth, [row for body in bucket.stored.values() for row in TransferRows.model_validate_json(body).rows]


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

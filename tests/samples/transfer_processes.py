"""Files of some MiB, and processes that read them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.samples.records import REF
from tests.samples.transfer_server import BUCKET

from stepbench.contracts.plan import TrialSpec
from stepbench.contracts.transfer.plan import TransferTrial
from stepbench.contracts.transfer.rows import FileRead, RunTransferInput, TransferItem
from stepbench.experiments.transfer.program.progress import MibDigests, file_digest

if TYPE_CHECKING:
    from stepbench.contracts.transfer.plan import Source

DUE_NS = 1_767_225_600_000_000_000


def digest(body: bytes) -> str:
    """Return a file's digest."""
    digests = MibDigests()
    digests.add(memoryview(body))
    return file_digest(digests.finish())


def file_read(body: bytes, source: Source = "s3", path: str = "files/7/2.bin") -> FileRead:
    """Return the read of a file with these contents."""
    return FileRead(source=source, path=path, file_bytes=len(body), digest=digest(body))


def transfer_task(
    *reads: FileRead, limit_s: float = 30.0, connections: int = 1, block_bytes: int = 2**16, endpoint: str = ""
) -> RunTransferInput:
    """Return the first attempt at process 5 of a trial."""
    item = TransferItem(
        ref=REF,
        writer=5,
        platform="lambda",
        reads=reads,
        bucket=BUCKET,
        endpoint=endpoint,
        connections=connections,
        block_bytes=block_bytes,
        refresh=False,
        limit_s=limit_s,
        due_ns=DUE_NS,
        wait_until=datetime(2026, 1, 1, tzinfo=UTC),
    )
    return RunTransferInput(item=item, attempt=0)


def transfer_spec(**plan: Any) -> TrialSpec:  # noqa: ANN401 -- a plan's fields
    """Return a trial of one transfer."""
    fields: dict[str, Any] = {"experiment": "transfer", "transfers": 1, **plan}
    return TrialSpec(
        run_id=REF.run_id,
        index=REF.trial,
        name="files",
        tag=REF.tag,
        plan=TransferTrial.model_validate(fields),
        estimate_usd=0,
    )

"""
Task `RunTransfer`: one attempt at one process's reads, in Lambda. Fargate runs `experiments.transfer.program`.

Its sandbox is opened in the init phase, and stands in the place of services: it has neither boto3 nor an event loop, so
that what is measured is the transfer.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from stepbench.contracts.transfer.rows import RunTransferOutput
from stepbench.experiments.transfer.program.process import Invocation, Process, Sandbox

if TYPE_CHECKING:
    from stepbench.contracts.transfer.rows import RunTransferInput


def run_transfer(task: RunTransferInput, sandbox: Sandbox, request_id: str, left_ms: int) -> RunTransferOutput:
    """
    Read all files, and store a row for each.

    Args:
        task: what to read.
        sandbox: that of the process.
        request_id: of this invocation.
        left_ms: what the function has left of its time.

    Raises:
        RecordsLostError: the rows could not be stored.
    """
    process = Process(task, Invocation(sandbox, request_id, time.monotonic() + left_ms / 1e3))
    rows = process.run().rows
    counts = process.progress()
    return RunTransferOutput(ok=counts["ok"], failed=counts["failed"], unknown=counts["unknown"], cold=rows[0].cold)

"""Task `RunTransfer`: reads files whole, and times them. On the measured path: nothing decorates it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.transfer.rows import RunTransferInput
from stepbench.experiments.transfer.program.process import Sandbox
from stepbench.stages.run_transfer import run_transfer

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

SANDBOX = Sandbox(os.environ)
"""Made in the init phase: its id is the proof of a cold start."""


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Parse, run, dump."""
    task, left_ms = RunTransferInput.model_validate(event), context.get_remaining_time_in_millis()
    return run_transfer(task, SANDBOX, context.aws_request_id, left_ms).model_dump(mode="json")

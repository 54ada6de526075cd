"""Task `RunWriter`: one attempt at one slice of a writer's load. On the measured path: nothing decorates it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.tasks import RunWriterInput
from stepbench.stages.run_writer import run_writer
from stepbench.stages.services import connect

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Parse, call the stage, dump."""
    task = RunWriterInput.model_validate(event)
    return run_writer(task, connect(os.environ)).model_dump(mode="json")

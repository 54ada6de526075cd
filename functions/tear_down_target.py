"""Task `TearDownTarget`: remove what the trial made; at the end release the lease."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.tasks import TearDownTargetInput
from stepbench.observability import observed
from stepbench.stages.services import connect
from stepbench.stages.tear_down_target import tear_down_target

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Parse, call the stage, dump."""
    task = TearDownTargetInput.model_validate(event)
    return tear_down_target(task, connect(os.environ)).model_dump(mode="json")

"""Task `ScaleTarget`: bring the store to a phase's capacity."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.tasks import ScaleTargetInput
from stepbench.observability import observed
from stepbench.stages.scale_target import scale_target
from stepbench.stages.services import connect

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Parse, call the stage, dump."""
    task = ScaleTargetInput.model_validate(event)
    return scale_target(task, connect(os.environ)).model_dump(mode="json")

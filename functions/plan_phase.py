"""Task `PlanPhase`: fix a phase's start and write the items of its Map."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.tasks import PlanPhaseInput
from stepbench.observability import observed
from stepbench.stages.plan_phase import plan_phase
from stepbench.stages.services import connect

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Parse, call the stage, dump."""
    task = PlanPhaseInput.model_validate(event)
    return plan_phase(task, connect(os.environ)).model_dump(mode="json")

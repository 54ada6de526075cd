"""Task `ValidatePlan`: a user's plan in, stored and priced trials out, or a refusal."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.tasks import ValidatePlanInput
from stepbench.observability import observed
from stepbench.stages.services import connect
from stepbench.stages.validate_plan import validate_plan

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Parse, call the stage, dump."""
    task = ValidatePlanInput.model_validate(event)
    return validate_plan(task, connect(os.environ)).model_dump(mode="json")

"""Task `PrepareTarget`: take the target's lease and make the store ready."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.tasks import PrepareTargetInput
from stepbench.observability import observed
from stepbench.stages.prepare_target import prepare_target
from stepbench.stages.services import connect

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Parse, call the stage, dump."""
    task = PrepareTargetInput.model_validate(event)
    return prepare_target(task, connect(os.environ)).model_dump(mode="json")

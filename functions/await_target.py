"""Task `AwaitTarget`: send canaries until the trigger is proved to deliver."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.tasks import AwaitTargetInput
from stepbench.observability import observed
from stepbench.stages.await_target import await_target
from stepbench.stages.services import connect

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Parse, call the stage, dump."""
    task = AwaitTargetInput.model_validate(event)
    return await_target(task, connect(os.environ)).model_dump(mode="json")

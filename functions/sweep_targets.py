"""Entry point `SweepTargets`: finish what an execution could not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.tasks import SweepTargetsInput
from stepbench.observability import observed
from stepbench.stages.services import connect
from stepbench.stages.sweep_targets import sweep_targets

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Parse, call the stage, dump."""
    task = SweepTargetsInput.model_validate(event)
    return sweep_targets(task, connect(os.environ)).model_dump(mode="json")

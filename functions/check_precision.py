"""Task `CheckPrecision`: whether a phase with `until` may end."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.tasks import CheckPrecisionInput
from stepbench.observability import observed
from stepbench.stages.check_precision import check_precision
from stepbench.stages.services import connect

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Parse, call the stage, dump."""
    task = CheckPrecisionInput.model_validate(event)
    return check_precision(task, connect(os.environ)).model_dump(mode="json")

"""Task `CollectLogs`: one page of what the functions' logs say."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.tasks import CollectLogsInput
from stepbench.observability import observed
from stepbench.stages.collect_logs import collect_logs
from stepbench.stages.services import connect

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Parse, call the stage, dump."""
    task = CollectLogsInput.model_validate(event)
    return collect_logs(task, connect(os.environ)).model_dump(mode="json")

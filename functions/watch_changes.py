"""Task `WatchChanges`: one lane's turn at holding a pull trigger. On the measured path: nothing decorates it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.tasks import WatchChangesInput
from stepbench.stages.services import connect
from stepbench.stages.watch_changes import watch_changes

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Parse, call the stage, dump."""
    task = WatchChangesInput.model_validate(event)
    return watch_changes(task, connect(os.environ)).model_dump(mode="json")

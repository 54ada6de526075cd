"""Task `AwaitArrivals`: whether everything acknowledged has arrived."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.tasks import AwaitArrivalsInput
from stepbench.observability import observed
from stepbench.stages.await_arrivals import await_arrivals
from stepbench.stages.services import connect

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Parse, call the stage, dump."""
    task = AwaitArrivalsInput.model_validate(event)
    return await_arrivals(task, connect(os.environ)).model_dump(mode="json")

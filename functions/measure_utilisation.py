"""Task `MeasureUtilisation`: how busy the store was during a phase."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.tasks import MeasureUtilisationInput
from stepbench.observability import observed
from stepbench.stages.measure_utilisation import measure_utilisation
from stepbench.stages.services import connect

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Parse, call the stage, dump."""
    task = MeasureUtilisationInput.model_validate(event)
    return measure_utilisation(task, connect(os.environ)).model_dump(mode="json")

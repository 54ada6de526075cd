"""Task `AnalyseTrial`: stored records in, one result out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.tasks import AnalyseTrialInput
from stepbench.observability import observed
from stepbench.stages.analyse_trial import analyse_trial
from stepbench.stages.services import connect

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Parse, call the stage, dump."""
    task = AnalyseTrialInput.model_validate(event)
    return analyse_trial(task, connect(os.environ)).model_dump(mode="json")

"""Task `RenderReport`: all trials' outcomes in, report and summary in the bucket out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.tasks import RenderReportInput
from stepbench.observability import observed
from stepbench.stages.render_report import render_report
from stepbench.stages.services import connect

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Parse, call the stage, dump."""
    task = RenderReportInput.model_validate(event)
    return render_report(task, connect(os.environ)).model_dump(mode="json")

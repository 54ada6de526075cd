"""Task `ExportRecords`: the trial's records as one Parquet file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.tasks import ExportRecordsInput
from stepbench.observability import observed
from stepbench.stages.export_records import export_records
from stepbench.stages.services import connect

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Parse, call the stage, dump."""
    task = ExportRecordsInput.model_validate(event)
    return export_records(task, connect(os.environ)).model_dump(mode="json")

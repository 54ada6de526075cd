"""Entry point `BootstrapDsql`: custom resources of the stack's clusters of Aurora DSQL."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.custom_resource import BootstrapDsqlInput
from stepbench.observability import observed
from stepbench.stages.bootstrap_dsql import bootstrap_dsql
from stepbench.stages.services import connect

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext


@observed
def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Parse, call the stage, dump."""
    task = BootstrapDsqlInput.model_validate(event)
    return bootstrap_dsql(task, connect(os.environ)).model_dump(mode="json")

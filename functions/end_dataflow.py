"""Task `EndDataflow`: the end of an execution of a DAG, stamped before anything else is done with it."""

from __future__ import annotations

from time import time_ns

IMPORTED_NS = time_ns()
"""Before the imports that make a cold start."""

# ruff: noqa: E402
import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.dataflow.rows import EndDataflowInput
from stepbench.stages.end_dataflow import end_dataflow, open_end_sandbox

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

SANDBOX = open_end_sandbox(os.environ, IMPORTED_NS)
"""Made in the init phase, so that no invocation pays for it."""


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Stamp t4, then parse, record and clear up. Nothing decorates this function: the stamp has to come first."""
    t4_ns = time_ns()
    task = EndDataflowInput.model_validate(event)
    return end_dataflow(task, SANDBOX, t4_ns, context.aws_request_id).model_dump(mode="json")

"""
Tasks `RunTask`, `RunVideoTask`, `RunLearningTask`: one attempt at one task of a DAG.

On the measured path: nothing decorates it.
"""

from __future__ import annotations

from time import time_ns

IMPORTED_NS = time_ns()
"""Before the imports that make a cold start."""

# ruff: noqa: E402
import os
from typing import TYPE_CHECKING, Any

from stepbench.contracts.dataflow.rows import RunTaskInput
from stepbench.stages.run_task import open_task_sandbox, run_task

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

SANDBOX = open_task_sandbox(os.environ, IMPORTED_NS)
"""Made in the init phase, so that no task pays for it."""


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Stamp the beginning, parse, run, dump."""
    began_ns = time_ns()
    task = RunTaskInput.model_validate(event)
    return run_task(task, SANDBOX, began_ns, context.aws_request_id).model_dump(mode="json")

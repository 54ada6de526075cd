"""Entry point `CheckClock`: one sandbox that writes and receives. On the measured path: nothing decorates it."""

from __future__ import annotations

from time import time_ns

IMPORTED_NS = time_ns()
"""Before the imports that make a cold start."""

# ruff: noqa: E402
import os
from typing import TYPE_CHECKING, Any

from stepbench.stages.check_clock import check_clock, open_checker

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

CHECKER = open_checker(os.environ, IMPORTED_NS)
"""Made in the init phase, so that no invocation pays for it."""


def handler(event: Any, context: LambdaContext) -> dict[str, Any]:  # noqa: ANN401 -- a delivery, or a write
    """Stamp t4, then see what it is."""
    t4_ns = time_ns()
    return check_clock(event, t4_ns, context.aws_request_id, CHECKER)

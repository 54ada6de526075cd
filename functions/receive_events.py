"""Entry point `ReceiveEvents`: whatever a store delivers, stamped before anything else is done with it."""

from __future__ import annotations

from time import time_ns

IMPORTED_NS = time_ns()
"""Before the imports that make a cold start."""

# ruff: noqa: E402
import os
from typing import TYPE_CHECKING, Any

from stepbench.stages.receive_events import open_receiver, receive_events

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

RECEIVER = open_receiver(os.environ, IMPORTED_NS)
"""Made in the init phase, so that no invocation pays for it."""


def handler(event: Any, context: LambdaContext) -> dict[str, Any]:  # noqa: ANN401 -- whatever a store sends
    """Stamp t4, then record. Nothing decorates this function: the stamp has to come first."""
    t4_ns = time_ns()
    return dict(receive_events(event, t4_ns, context.aws_request_id, RECEIVER))

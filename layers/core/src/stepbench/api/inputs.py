"""What routes take, beside their queries: names in paths, and bodies."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Annotated

from aws_lambda_powertools.event_handler.openapi.params import Path

from stepbench.errors import PlanError, Problem

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes.common import BaseProxyEvent

RunIdPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=80)]
PlanNamePath = Annotated[str, Path(max_length=60)]


def read_body(event: BaseProxyEvent) -> str:
    """Return a request's body, "" without one; raises PlanError where it is no text."""
    body = event.body or ""
    try:
        return base64.b64decode(body, validate=True).decode() if event.is_base64_encoded else body
    except ValueError as error:
        problem = Problem("body", "bytes", "is not UTF-8 text", "Send it as UTF-8.")
        raise PlanError([problem]) from error

"""What routes take, beside their queries: names in paths, and bodies."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Annotated
from urllib.parse import parse_qs

from aws_lambda_powertools.event_handler.openapi.params import Path

from stepbench.api.problems import ApiError, ErrorKind
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


def read_form(event: BaseProxyEvent) -> dict[str, str]:
    """Return a form's fields, as browsers send them; raises ApiError where the body is none."""
    try:
        found = parse_qs(read_body(event), keep_blank_values=True, max_num_fields=50, errors="strict")
    except ValueError as error:
        message = "the body is no form (application/x-www-form-urlencoded)"
        raise ApiError(ErrorKind.BAD_REQUEST, message) from error
    return {name: values[-1] for name, values in found.items()}

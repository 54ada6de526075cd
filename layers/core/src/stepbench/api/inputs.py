"""What routes take: names in paths, spans of days, encodings, and bodies."""

from __future__ import annotations

import base64
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated
from urllib.parse import parse_qs

from aws_lambda_powertools.event_handler.openapi.params import Path, Query

from stepbench.api.resolver import ApiError, ErrorKind
from stepbench.errors import PlanError, Problem
from stepbench.planning.problems import shown
from stepbench.records.storage.transfers import Span

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes.common import BaseProxyEvent

_DAY = {"format": "date"}
RunIdPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=80)]
PlanNamePath = Annotated[str, Path(max_length=60)]
DatasetNamePath = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=60)]
FirstDay = Annotated[str | None, Query(alias="from", description="First day, UTC.", json_schema_extra=_DAY)]
EndDay = Annotated[str | None, Query(alias="to", description="The first day after it.", json_schema_extra=_DAY)]


def read_body(event: BaseProxyEvent) -> str:
    """Return a request's body, "" without one; raises PlanError where it is no text."""
    body = event.body or ""
    try:
        return base64.b64decode(body, validate=True).decode() if event.is_base64_encoded else body
    except ValueError as error:
        problem = Problem("body", "bytes", "is not UTF-8 text", "Send it as UTF-8.")
        raise PlanError([problem]) from error


def read_span(first: str | None, end: str | None) -> Span:
    """Return the days from the first to before the last, None: as far as there are any; raises ApiError."""
    found = []
    for name, text in (("from", first), ("to", end)):
        try:
            found.append(None if text is None else _day(text))
        except ValueError as error:
            problem = Problem(name, shown(text), "is no day", "Give one such as 2025-06-01, in UTC.")
            raise ApiError(ErrorKind.BAD_REQUEST, "a parameter is wrong", [problem]) from error
    span = Span(*found)
    if span.first and span.end and span.first >= span.end:
        problem = Problem("to", shown(end), f"is not after from, {first}", "Name the first day that is left out.")
        raise ApiError(ErrorKind.BAD_REQUEST, "a parameter is wrong", [problem])
    return span


def _day(text: str) -> date:
    """Return a day; raise ValueError for what is one in another form of ISO 8601, such as a week's."""
    return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()


def accepts_gzip(event: BaseProxyEvent) -> bool:
    """Return whether who asks takes an answer that is compressed by gzip; a weight of 0 is a no."""
    entries = event.headers.get("accept-encoding", "").replace(" ", "").split(",")
    weights = [entry.partition(";q=")[2] or "1" for entry in entries if entry.partition(";")[0] == "gzip"]
    return any(weight.strip("0.") for weight in weights)


def read_form(event: BaseProxyEvent) -> dict[str, str]:
    """Return a form's fields, as browsers send them; raises ApiError where the body is none."""
    try:
        found = parse_qs(read_body(event), keep_blank_values=True, max_num_fields=50, errors="strict")
    except ValueError as error:
        message = "the body is no form (application/x-www-form-urlencoded)"
        raise ApiError(ErrorKind.BAD_REQUEST, message) from error
    return {name: values[-1] for name, values in found.items()}

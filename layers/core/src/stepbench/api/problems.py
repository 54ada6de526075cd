"""Errors as RFC 9457 problem details: what is wrong, where, and what to do."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from aws_lambda_powertools.event_handler import Response

from stepbench.contracts.api import ProblemDetails, ProblemItem
from stepbench.errors import listed, printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepbench.errors import Problem

CONTENT_TYPE = "application/problem+json"


class ErrorKind(Enum):
    """The kinds of errors: a name that does not change, the status, and a title that is the same each time."""

    BAD_REQUEST = "bad-request", 400, "The request cannot be read"
    NOT_SIGNED = "not-signed", 401, "The request does not say who sends it"
    NOT_PERMITTED = "not-permitted", 403, "You may not do that"
    NOT_FOUND = "not-found", 404, "There is no such thing"
    CONFLICT = "conflict", 409, "Another request was here first"
    REFUSED = "refused", 422, "The request is refused"
    UNAVAILABLE = "unavailable", 503, "Stepbench cannot do that now"
    MISTAKE = "mistake", 500, "Stepbench made a mistake"


class ApiError(Exception):
    """A request that is answered with problem details."""

    def __init__(self, kind: ErrorKind, detail: str, problems: Iterable[Problem] = ()) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.problems = kind, printable(detail), listed(tuple(problems))


def problem_details(error: ApiError, request_id: str) -> ProblemDetails:
    """Return the details of an error."""
    name, status, title = error.kind.value
    return ProblemDetails(
        type=f"urn:stepbench:problem:{name}",
        title=title,
        status=status,
        detail=error.detail,
        instance=request_id,
        problems=tuple(ProblemItem.model_validate(problem._asdict()) for problem in error.problems),
    )


def problem_response(error: ApiError, request_id: str) -> Response[str]:
    """Return the response that reports an error."""
    details = problem_details(error, request_id)
    return Response(status_code=details.status, content_type=CONTENT_TYPE, body=details.model_dump_json())

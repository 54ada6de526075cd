"""
What the functions of the API have in common: who asks and for what, what is answered, and what becomes of errors.

Errors are RFC 9457 problem details: what is wrong, where, and what to do. Who calls, and for which team, is read from
the request's authorisation, which API Gateway has checked.
"""

from __future__ import annotations

import base64
import json
import os
import re
from enum import Enum
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from aws_lambda_powertools.event_handler.openapi.params import Path
from botocore.exceptions import BotoCoreError, ClientError
from pydantic import TypeAdapter, ValidationError

from stepbench.contracts.api import ProblemDetails, ProblemItem
from stepbench.contracts.runs import DEFAULT_TEAM, TeamName
from stepbench.errors import PlanError, Problem, RecordsUnavailableError, listed, printable
from stepbench.observability import logger
from stepbench.planning.problems import shown
from stepbench.services import PROMPT, connect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from aws_lambda_powertools.utilities.data_classes.common import BaseProxyEvent
    from aws_lambda_powertools.utilities.typing import LambdaContext
    from pydantic import BaseModel

    from stepbench.contracts.runs import RunRecord
    from stepbench.services import Services
    from stepbench.settings import Settings

    ShowPage = Callable[[str, "ApiError"], Response[str] | None]


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


_ASSUMED = re.compile(r"arn:[\w-]+:sts::(?P<account>\d+):assumed-(?P<kind>role)/(?P<name>[^/]+)/.*")
_ENTITY = re.compile(
    r"arn:[\w-]+:(?:iam|sts)::(?P<account>\d+):(?P<kind>role|user|federated-user)/(?:.*/)?(?P<name>[^/]+)"
)
_ROOT = re.compile(r"arn:[\w-]+:iam::\d+:root")
_TEAM: TypeAdapter[str] = TypeAdapter(TeamName)
_OWN = ("role/", "user/", "federated-user/")
"""So begin the teams of those that are given none."""


class Caller(NamedTuple):
    """The caller has an ARN, or a JWT's subject, and belongs to a team."""

    identity: str
    team: str

    @property
    def teams(self) -> frozenset[str]:
        """Return the teams whose runs, and what they have added to datasets, are the caller's to see."""
        return frozenset({self.team, DEFAULT_TEAM})

    def may_read(self, run: RunRecord) -> bool:
        """Return whether a run is the caller's to see: its team's, or one that nobody has asked for by name."""
        return run.team in self.teams

    def may_change(self, run: RunRecord) -> bool:
        """Return whether a run is the caller's to stop, or to acknowledge."""
        return run.team == self.team


def find_caller(event: Mapping[str, Any], settings: Settings) -> Caller | None:
    """
    Return who sent a request of API Gateway's format 2.0; None where it carries no authorisation.

    By IAM, the team is what the map `teams` has for the role's ARN, else `role/` or `user/` and its name, which no team
    of the map has; the account itself is the default team. By JWT, it is the claim that the stack's parameter names.

    Raises:
        ApiError: what is to be the team's name is none, so that nobody falls into another's team by the spelling.
    """
    authorizer = event.get("requestContext", {}).get("authorizer") or {}
    if "jwt" in authorizer:
        claims = authorizer["jwt"].get("claims") or {}
        team = claims.get(settings.team_claim)
        source = f"the token's claim {settings.team_claim}"
        return Caller(str(claims.get("sub", "")), _given(str(team), source)) if team else None
    arn = str((authorizer.get("iam") or {}).get("userArn") or "")
    return Caller(arn, _team_of(arn, settings)) if arn else None


def require_caller(event: Mapping[str, Any], settings: Settings) -> Caller:
    """Return who sent a request, of which the log's lines then name the team; raises ApiError where nobody is named."""
    caller = find_caller(event, settings)
    if caller is None:
        message = f"the request is neither signed nor has it a token with the claim {settings.team_claim}"
        raise ApiError(ErrorKind.NOT_SIGNED, message)
    logger.append_keys(team=caller.team)
    return caller


def _team_of(arn: str, settings: Settings) -> str:
    """Return the team of an IAM identity; an assumed role's ARN has lost the role's path, so roles go by name."""
    if _ROOT.fullmatch(arn):
        return DEFAULT_TEAM
    found = _ASSUMED.fullmatch(arn) or _ENTITY.fullmatch(arn)
    if found is None:
        message = f"{arn} is neither a role, nor a user, nor the account itself"
        raise ApiError(ErrorKind.NOT_SIGNED, message)
    for known, team in json.loads(settings.teams or "{}").items():
        role = _ENTITY.fullmatch(known)
        if role and role.group("account", "kind", "name") == found.group("account", "kind", "name"):
            return _given(str(team), f"the parameter Teams, for {known},")
    return _named(f"{found['kind']}/{found['name']}", arn)


def _given(team: str, source: str) -> str:
    """Return the name of a team that is given to somebody; raise ApiError where it is none that can be given."""
    if team == DEFAULT_TEAM or team.startswith(_OWN):
        message = f"{source} has {shown(team)}, which is the account's own, or a role's or user's without a team"
        raise ApiError(ErrorKind.NOT_SIGNED, message)
    return _named(team, source)


def _named(team: str, source: str) -> str:
    try:
        return _TEAM.validate_python(team)
    except ValidationError as error:
        message = f"{source} has {shown(team)}, which is no team's name: {error.errors()[0]['msg']}"
        raise ApiError(ErrorKind.NOT_SIGNED, message) from error


RunIdPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=80)]
PlanNamePath = Annotated[str, Path(max_length=60)]
JSON = "application/json"
FRESH = {"Cache-Control": "no-store"}


def new_resolver(show_page: ShowPage = lambda _path, _error: None) -> APIGatewayHttpResolver:
    """Return a resolver whose errors are answered by problem details, or by what `show_page` has for their path."""
    app = APIGatewayHttpResolver(enable_validation=True)

    def answer_with(api_error_of: Callable[[Any, BaseProxyEvent], ApiError]) -> Callable[[Exception], Response[str]]:
        def answer(error: Exception) -> Response[str]:
            event = app.current_event
            reported = api_error_of(error, event)
            if page := show_page(event.path, reported):
                return page
            details = problem_details(reported, str(event.raw_event.get("requestContext", {}).get("requestId", "")))
            return Response(details.status, CONTENT_TYPE, details.model_dump_json())

        return answer

    for kind, api_error_of in _REPORTED_AS.items():
        app.exception_handler(kind)(answer_with(api_error_of))
    return app


def resolve(
    app: APIGatewayHttpResolver, event: dict[str, Any], context: LambdaContext, services: Services | None
) -> dict[str, Any]:
    """Answer a request with these services, or those that the environment names."""
    app.context["services"] = services or connect(os.environ, PROMPT)
    return app.resolve(event, context)


def asked_by(app: APIGatewayHttpResolver) -> tuple[Caller, Services]:
    """Return who sent the current request, and the services with which it is answered; raises ApiError."""
    services: Services = app.context["services"]
    return require_caller(app.current_event.raw_event, services.settings), services


def read_body(event: BaseProxyEvent) -> str:
    """Return a request's body, "" without one; raises PlanError where it is no text."""
    try:
        return read_bytes(event).decode()
    except ValueError as error:
        problem = Problem("body", "bytes", "is not UTF-8 text", "Send it as UTF-8.")
        raise PlanError([problem]) from error


def read_bytes(event: BaseProxyEvent) -> bytes:
    """Return a request's body as it was sent; raises ValueError where it cannot be decoded."""
    body = event.body or ""
    return base64.b64decode(body, validate=True) if event.is_base64_encoded else body.encode(errors="surrogatepass")


def answer_json(model: BaseModel, status: HTTPStatus = HTTPStatus.OK) -> Response[Any]:
    """Return the answer that a model is."""
    return Response(status, JSON, model, headers=dict(FRESH))


def _bad_parameter(error: RequestValidationError, _event: BaseProxyEvent) -> ApiError:
    problems = [
        Problem(
            path=".".join(str(step) for step in detail["loc"][1:] if step != "wanted") or str(detail["loc"][0]),
            value=shown(detail.get("input")),
            message=str(detail["msg"]),
            remedy="See the API's description.",
        )
        for detail in error.errors()
    ]
    return ApiError(ErrorKind.BAD_REQUEST, "a parameter is wrong", problems)


def _unavailable(error: Exception, _event: BaseProxyEvent) -> ApiError:
    logger.exception("a service that the API needs does not answer", exc_info=error)
    return ApiError(ErrorKind.UNAVAILABLE, "try again in a minute")


def _mistake(error: Exception, _event: BaseProxyEvent) -> ApiError:
    logger.exception("unexpected", exc_info=error)
    return ApiError(ErrorKind.MISTAKE, "its log has more, under this id")


_REPORTED_AS: Mapping[type[Exception], Callable[[Any, BaseProxyEvent], ApiError]] = {
    ApiError: lambda error, _event: error,
    PlanError: lambda error, _event: ApiError(ErrorKind.REFUSED, "nothing was created", error.problems),
    RequestValidationError: _bad_parameter,
    NotFoundError: lambda _error, event: ApiError(ErrorKind.NOT_FOUND, f"{event.http_method} {event.path} is no route"),
    RecordsUnavailableError: _unavailable,
    ClientError: _unavailable,
    BotoCoreError: _unavailable,
    Exception: _mistake,
}

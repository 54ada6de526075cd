"""What the functions of the API have in common: who asks, what is answered, and what becomes of errors."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from botocore.exceptions import BotoCoreError, ClientError

from stepbench.api.callers import require_caller
from stepbench.api.problems import ApiError, ErrorKind, problem_response
from stepbench.errors import PlanError, Problem, RecordsUnavailableError
from stepbench.observability import logger
from stepbench.planning.problems import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aws_lambda_powertools.utilities.data_classes.common import BaseProxyEvent
    from pydantic import BaseModel

    from stepbench.api.callers import Caller
    from stepbench.services import Services

    ShowPage = Callable[[str, ApiError], Response[str] | None]

JSON = "application/json"
FRESH = {"Cache-Control": "no-store"}


def new_resolver(show_page: ShowPage = lambda _path, _error: None) -> APIGatewayHttpResolver:
    """Return a resolver whose errors are answered by problem details, or by what `show_page` has for their path."""
    app = APIGatewayHttpResolver(enable_validation=True)

    def answer_with(api_error_of: Callable[[Any, BaseProxyEvent], ApiError]) -> Callable[[Exception], Response[str]]:
        def answer(error: Exception) -> Response[str]:
            event = app.current_event
            reported = api_error_of(error, event)
            request_id = str(event.raw_event.get("requestContext", {}).get("requestId", ""))
            return show_page(event.path, reported) or problem_response(reported, request_id)

        return answer

    for kind, api_error_of in _REPORTED_AS.items():
        app.exception_handler(kind)(answer_with(api_error_of))
    return app


def services_of(app: APIGatewayHttpResolver) -> Services:
    """Return the services with which the current request is answered."""
    services: Services = app.context["services"]
    return services


def caller_of(app: APIGatewayHttpResolver) -> Caller:
    """Return who sent the current request; raises ApiError where nobody is named."""
    return require_caller(app.current_event.raw_event, services_of(app).settings)


def answer_json(model: BaseModel, status: HTTPStatus = HTTPStatus.OK) -> Response[Any]:
    """Return the answer that a model is."""
    return Response(status, JSON, model, headers=dict(FRESH))


def _plan_error(error: PlanError, _event: BaseProxyEvent) -> ApiError:
    return ApiError(ErrorKind.REFUSED, "nothing was created", error.problems)


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


def _unknown_path(_error: NotFoundError, event: BaseProxyEvent) -> ApiError:
    return ApiError(ErrorKind.NOT_FOUND, f"{event.http_method} {event.path} is no route")


_REPORTED_AS: Mapping[type[Exception], Callable[[Any, BaseProxyEvent], ApiError]] = {
    ApiError: lambda error, _event: error,
    PlanError: _plan_error,
    RequestValidationError: _bad_parameter,
    NotFoundError: _unknown_path,
    RecordsUnavailableError: _unavailable,
    ClientError: _unavailable,
    BotoCoreError: _unavailable,
    Exception: _mistake,
}

"""The routes: each parses, calls one function of its resource, and dumps."""

from __future__ import annotations

import os
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Literal

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError
from aws_lambda_powertools.event_handler.openapi.params import Header, Query
from botocore.exceptions import BotoCoreError, ClientError

from stepbench.api import dashboard, plans, runs
from stepbench.api.callers import require_caller
from stepbench.api.inputs import PlanNamePath, RunIdPath, read_body
from stepbench.api.problems import ApiError, ErrorKind, problem_response
from stepbench.contracts.api import Acknowledgement, Download, PlanList, RunFilter, RunList, RunView, Validation
from stepbench.contracts.verdict import RunComparison
from stepbench.errors import PlanError, Problem, RecordsUnavailableError
from stepbench.observability import logger
from stepbench.planning import plan_schema
from stepbench.planning.problems import shown
from stepbench.planning.requests import parse_body, parse_submission
from stepbench.stages.services import PROMPT, connect

if TYPE_CHECKING:
    from collections.abc import Callable

    from aws_lambda_powertools.utilities.typing import LambdaContext
    from pydantic import BaseModel

    from stepbench.api.callers import Caller
    from stepbench.contracts.runs import RunRequest
    from stepbench.stages.services import Services

app = APIGatewayHttpResolver(enable_validation=True)
app.include_router(dashboard.router)
RunIdQuery = Annotated[str, Query(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=80)]
_JSON = "application/json"


@app.post("/runs", status_code=202, summary="Start a run")
def submit_run(
    idempotency_key: Annotated[str, Header(alias="Idempotency-Key", max_length=255)] = "",
) -> Response[RunView]:
    """Start a run; with a key, a repeated request is the same run."""
    request, services = _request(), _services()
    return _answer(runs.submit(request, idempotency_key, _caller(services), services), HTTPStatus.ACCEPTED)


@app.get("/runs", summary="List runs, newest first")
def list_runs(wanted: Annotated[RunFilter, Query()]) -> Response[RunList]:
    """Return a page of runs."""
    services = _services()
    caller = _caller(services)
    return _answer(runs.list_runs(runs.asked_for(wanted, caller), caller, services))


@app.get("/runs/<run_id>", summary="Look at a run")
def get_run(run_id: RunIdPath) -> Response[RunView]:
    """Return a run with its progress, its place in the queue, or its headline numbers."""
    services = _services()
    caller = _caller(services)
    return _answer(runs.view(runs.find(run_id, caller, services), caller, services))


@app.delete("/runs/<run_id>", status_code=202, summary="Stop a run, and tear down what it has made")
def stop_run(run_id: RunIdPath) -> Response[RunView]:
    """Stop a run; one that is over stays as it is."""
    services = _services()
    return _answer(runs.stop(run_id, _caller(services), services), HTTPStatus.ACCEPTED)


@app.put("/runs/<run_id>/acknowledgement", summary="Accept the level that begins with a run")
def acknowledge_run(run_id: RunIdPath) -> Response[RunView]:
    """Make a run the first of a new baseline; saying so again changes the reason."""
    services = _services()
    caller = _caller(services)
    why = parse_body(Acknowledgement, read_body(app.current_event)).why
    return _answer(runs.acknowledge(run_id, why, caller, services))


@app.get("/runs/<run_id>/report", status_code=303, summary="The report's page")
def get_report(run_id: RunIdPath) -> Response[Download]:
    """Redirect to the page, by a link that is good for five minutes."""
    return _redirect(run_id, "report")


@app.get("/runs/<run_id>/summary", status_code=303, summary="summary.json")
def get_summary(run_id: RunIdPath) -> Response[Download]:
    """Redirect to the results, by a link that is good for five minutes."""
    return _redirect(run_id, "summary")


@app.get("/runs/<run_id>/records", status_code=303, summary="A trial's records, as Parquet")
def get_records(run_id: RunIdPath, trial: Annotated[int, Query(ge=0, le=9999)] = 0) -> Response[Download]:
    """Redirect to a trial's records, by a link that is good for five minutes."""
    return _redirect(run_id, "records", trial)


@app.get("/plans", summary="List the presets")
def list_plans() -> Response[PlanList]:
    """Return all presets, by question."""
    services = _services()
    _caller(services)
    return _answer(plans.list_presets(emulated=bool(services.settings.emulator)))


@app.get("/plans/<name>", summary="A preset")
def get_plan(name: PlanNamePath) -> Response[dict[str, Any]]:
    """Return a preset as its author wrote it."""
    _caller(_services())
    try:
        return Response(HTTPStatus.OK, _JSON, plans.preset(name))
    except PlanError as error:
        message = f"there is no preset {shown(name)}"
        raise ApiError(ErrorKind.NOT_FOUND, message, error.problems) from error


@app.post("/plans/validate", summary="Check a plan without running it")
def validate_plan() -> Response[Validation]:
    """Return what a plan would do, how long it would take, and what it would cost."""
    services = _services()
    _caller(services)
    return _answer(plans.validate(_request(), services.settings))


@app.get("/schema", summary="JSON Schema of a plan")
def get_schema() -> Response[dict[str, Any]]:
    """Return the schema that plans are checked against."""
    _caller(_services())
    return Response(HTTPStatus.OK, _JSON, plan_schema())


@app.get("/compare", summary="Compare run b with run a")
def compare_runs(
    a: RunIdQuery, b: RunIdQuery, tolerance: Annotated[float, Query(gt=0, le=1)] = 0.05
) -> Response[RunComparison]:
    """Return a verdict for each window that both have."""
    from stepbench.api import comparison  # noqa: PLC0415 -- with all of the analysis, for this route alone

    services = _services()
    return _answer(comparison.compare(a, b, tolerance, _caller(services), services))


def handle(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer a request of API Gateway's format 2.0."""
    return answer(event, context, connect(os.environ, PROMPT))


def answer(event: dict[str, Any], context: LambdaContext, services: Services) -> dict[str, Any]:
    """Answer a request with these services."""
    app.context["services"] = services
    return app.resolve(event, context)


def _answer_api_error(error: ApiError) -> Response[str]:
    """Return problem details, or on the dashboard a page that tells them."""
    if dashboard.is_page(app.current_event.path):
        return dashboard.problem_page(error)
    return problem_response(error, _request_id())


def _answer_plan_error(error: PlanError) -> Response[str]:
    return _answer_api_error(ApiError(ErrorKind.REFUSED, "nothing was created", error.problems))


def _answer_bad_parameter(error: RequestValidationError) -> Response[str]:
    problems = [
        Problem(
            path=".".join(str(step) for step in detail["loc"][1:] if step != "wanted") or str(detail["loc"][0]),
            value=shown(detail.get("input")),
            message=str(detail["msg"]),
            remedy="See the API's description.",
        )
        for detail in error.errors()
    ]
    return _answer_api_error(ApiError(ErrorKind.BAD_REQUEST, "a parameter is wrong", problems))


def _answer_unavailable(error: Exception) -> Response[str]:
    logger.exception("a service that the API needs does not answer", exc_info=error)
    return _answer_api_error(ApiError(ErrorKind.UNAVAILABLE, "try again in a minute"))


def _answer_mistake(error: Exception) -> Response[str]:
    logger.exception("unexpected", exc_info=error)
    return _answer_api_error(ApiError(ErrorKind.MISTAKE, "its log has more, under this id"))


def _answer_unknown_path(_error: NotFoundError) -> Response[str]:
    event = app.current_event
    return _answer_api_error(ApiError(ErrorKind.NOT_FOUND, f"{event.http_method} {event.path} is no route"))


_ANSWERS: dict[type[Exception], Callable[[Any], Response[str]]] = {
    ApiError: _answer_api_error,
    PlanError: _answer_plan_error,
    RequestValidationError: _answer_bad_parameter,
    NotFoundError: _answer_unknown_path,
    RecordsUnavailableError: _answer_unavailable,
    ClientError: _answer_unavailable,
    BotoCoreError: _answer_unavailable,
    Exception: _answer_mistake,
}
for _kind, _answer_error in _ANSWERS.items():
    app.exception_handler(_kind)(_answer_error)


def _services() -> Services:
    services: Services = app.context["services"]
    return services


def _caller(services: Services) -> Caller:
    return require_caller(app.current_event.raw_event, services.settings)


def _request() -> RunRequest:
    """Return the run that a request's body asks for; what only the API itself may say is refused."""
    return parse_submission(read_body(app.current_event))


def _redirect(run_id: str, document: Literal["report", "summary", "records"], trial: int = 0) -> Response[Download]:
    services = _services()
    run = runs.find(run_id, _caller(services), services)
    link = runs.download(run, document, trial, services)
    return Response(HTTPStatus.SEE_OTHER, _JSON, link, headers={"Location": link.url, "Cache-Control": "no-store"})


def _answer(model: BaseModel, status: HTTPStatus = HTTPStatus.OK) -> Response[Any]:
    return Response(status, _JSON, model, headers={"Cache-Control": "no-store"})


def _request_id() -> str:
    return str(app.current_event.raw_event.get("requestContext", {}).get("requestId", ""))

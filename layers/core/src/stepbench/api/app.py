"""The routes: each parses, calls one function of its resource, and dumps."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Literal

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Header, Query

from stepbench.api import dashboard, plans, rows, runs
from stepbench.api.resolver import (
    FRESH,
    JSON,
    ApiError,
    ErrorKind,
    PlanNamePath,
    RunIdPath,
    answer_json,
    asked_by,
    new_resolver,
    read_body,
    resolve,
)
from stepbench.contracts.across_trials import RunComparison
from stepbench.contracts.api import (
    Acknowledgement,
    DatasetList,
    Download,
    PlanList,
    RowsFile,
    RunFilter,
    RunList,
    RunView,
    StoreList,
    Upload,
    Validation,
)
from stepbench.errors import PlanError
from stepbench.experiments.trigger.catalogue import store_catalogue
from stepbench.planning import plan_schema
from stepbench.planning.problems import shown
from stepbench.planning.requests import parse_body, parse_submission
from stepbench.records.storage.transfers import dataset_names

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.typing import LambdaContext

    from stepbench.contracts.runs import RunRequest
    from stepbench.services import Services

app = new_resolver(lambda path, error: dashboard.problem_page(error) if dashboard.is_page(path) else None)
app.include_router(dashboard.router)
RunIdQuery = Annotated[str, Query(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=80)]


@app.post("/runs", status_code=202, summary="Start a run")
def submit_run(
    idempotency_key: Annotated[str, Header(alias="Idempotency-Key", max_length=255)] = "",
) -> Response[RunView]:
    """Start a run; with a key, a repeated request is the same run."""
    request = _request()
    return answer_json(runs.submit(request, idempotency_key, *asked_by(app)), HTTPStatus.ACCEPTED)


@app.get("/runs", summary="List runs, newest first")
def list_runs(wanted: Annotated[RunFilter, Query()]) -> Response[RunList]:
    """Return a page of runs."""
    caller, services = asked_by(app)
    return answer_json(runs.list_runs(runs.asked_for(wanted, caller), caller, services))


@app.get("/runs/<run_id>", summary="Look at a run")
def get_run(run_id: RunIdPath) -> Response[RunView]:
    """Return a run with its progress, its place in the queue, or its headline numbers."""
    caller, services = asked_by(app)
    return answer_json(runs.view(runs.find(run_id, caller, services), caller, services))


@app.delete("/runs/<run_id>", status_code=202, summary="Stop a run, and tear down what it has made")
def stop_run(run_id: RunIdPath) -> Response[RunView]:
    """Stop a run; one that is over stays as it is."""
    return answer_json(runs.stop(run_id, *asked_by(app)), HTTPStatus.ACCEPTED)


@app.put("/runs/<run_id>/acknowledgement", summary="Accept the level that begins with a run")
def acknowledge_run(run_id: RunIdPath) -> Response[RunView]:
    """Make a run the first of a new baseline; saying so again changes the reason."""
    caller, services = asked_by(app)
    why = parse_body(Acknowledgement, read_body(app.current_event)).why
    return answer_json(runs.acknowledge(run_id, why, caller, services))


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
    _, services = asked_by(app)
    return answer_json(plans.list_presets(services.settings))


@app.get("/plans/<name>", summary="A preset")
def get_plan(name: PlanNamePath) -> Response[dict[str, Any]]:
    """Return a preset as its author wrote it."""
    asked_by(app)
    try:
        return Response(HTTPStatus.OK, JSON, plans.preset(name))
    except PlanError as error:
        message = f"there is no preset {shown(name)}"
        raise ApiError(ErrorKind.NOT_FOUND, message, error.problems) from error


@app.get("/stores", summary="List the stores, and what their triggers can do")
def list_stores() -> Response[StoreList]:
    """Return all stores that a plan may name, with a source for each fact, and prices of this region."""
    _, services = asked_by(app)
    return answer_json(StoreList(stores=store_catalogue(services.settings.aws_region)))


@app.post("/plans/validate", summary="Check a plan without running it")
def validate_plan() -> Response[Validation]:
    """Return what a plan would do, how long it would take, and what it would cost."""
    _, services = asked_by(app)
    return answer_json(plans.validate(_request(), services))


@app.post("/values", summary="Upload a file of rows")
def upload_rows() -> Response[Upload]:
    """Return where the file is to be put, by a link that is good for five minutes, and the key that plans name."""
    _, services = asked_by(app)
    return answer_json(rows.offer_upload(parse_body(RowsFile, read_body(app.current_event)), services))


@app.get("/schema", summary="JSON Schema of a plan")
def get_schema() -> Response[dict[str, Any]]:
    """Return the schema that plans are checked against."""
    asked_by(app)
    return Response(HTTPStatus.OK, JSON, plan_schema())


@app.get("/compare", summary="Compare run b with run a")
def compare_runs(
    a: RunIdQuery,
    b: RunIdQuery,
    tolerance: Annotated[float, Query(gt=0, le=1)] = 0.05,
    studied: Annotated[str, Query(max_length=200)] = "",
) -> Response[RunComparison]:
    """Return a verdict for each window that both have; `studied` names the one thing that may differ."""
    from stepbench.api import comparison  # noqa: PLC0415 -- with all of the analysis, for this route alone

    return answer_json(comparison.compare(a, b, tolerance, *asked_by(app), studied))


@app.get("/datasets", summary="List datasets of transfers")
def list_datasets() -> Response[DatasetList]:
    """Return the names of those to which runs of the caller's team, or of the default team, have added rows."""
    caller, services = asked_by(app)
    return answer_json(DatasetList(datasets=dataset_names(services.runs, caller.teams)))


def handle(event: dict[str, Any], context: LambdaContext, services: Services | None = None) -> dict[str, Any]:
    """Answer a request of API Gateway's format 2.0, with these services or those that the environment names."""
    return resolve(app, event, context, services)


def _request() -> RunRequest:
    """Return the run that a request's body asks for; what only the API itself may say is refused."""
    return parse_submission(read_body(app.current_event))


def _redirect(run_id: str, document: Literal["report", "summary", "records"], trial: int = 0) -> Response[Download]:
    caller, services = asked_by(app)
    link = runs.download(runs.find(run_id, caller, services), document, trial, services)
    return Response(HTTPStatus.SEE_OTHER, JSON, link, headers={**FRESH, "Location": link.url})

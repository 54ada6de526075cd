"""
The dashboard's routes: the pages of `stepbench.dashboard` about what the API answers.

Forms are sent as browsers send them, and answered by a redirect. Whoever asks without any authorisation, which API
Gateway lets happen only where callers have tokens, gets a page without data that asks for the token.
"""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.api_gateway import Router
from pydantic import ValidationError

from stepbench.api import plans, rows, runs
from stepbench.api.forms import read_form
from stepbench.api.resolver import (
    ApiError,
    ErrorKind,
    PlanNamePath,
    RunIdPath,
    find_caller,
    problem_details,
    require_caller,
)
from stepbench.contracts.api import Acknowledgement, CheckedForm, Download, ProblemItem, RunFilter, StartForm
from stepbench.contracts.runs import RunRequest
from stepbench.errors import HIDDEN, PlanError, Problem, raise_problems
from stepbench.planning.changes import CHANGE_FORM, parse_change
from stepbench.planning.problems import shown
from stepbench.planning.reading import read_json
from stepbench.planning.requests import field_problems, parse_body
from stepbench.records.storage import layout
from stepbench.records.storage.run_register import RunQuery

if TYPE_CHECKING:
    from stepbench.api.resolver import Caller
    from stepbench.contracts.api import PlanTrend, RunList
    from stepbench.services import Services

router: Router = Router()  # type: ignore[no-untyped-call] # it has no types
_ROOT = "/dashboard"
_RUNS_SHOWN, _RUNS_OFFERED = 12, 50
_KEY_BYTES = 16
_OWN = "your-function"
"""The preset that stands in the form for a plan of one's own."""
_HTML = "text/html; charset=utf-8"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",  # none at all would make forms come from "null"
    "X-Content-Type-Options": "nosniff",
}


class _Visit(NamedTuple):
    """Who asks, and for what."""

    caller: Caller
    services: Services
    query: dict[str, str]


def is_page(path: str) -> bool:
    """Return whether a path is one of the dashboard's, whose errors are shown on a page."""
    return path == "/" or f"{path}/".startswith(f"{_ROOT}/")


def problem_page(error: ApiError) -> Response[str]:
    """Return the page that shows an error."""
    details = problem_details(error, "")
    return _html(_pages().render_problem(details), HTTPStatus(details.status))


@router.get("/", include_in_schema=False)
def start_page() -> Response[str]:
    """Return the first page, or the one that asks for a token."""
    if find_caller(router.current_event.raw_event, _services().settings) is None:
        return _html(_pages().render_shell())
    return show_runs()


@router.get(f"{_ROOT}/assets/<name>", include_in_schema=False)
def get_asset(name: str) -> Response[str]:
    """Return the style sheet or the script."""
    found = _pages().find_asset(name)
    if found is None:
        message = f"there is no {shown(name)}"
        raise ApiError(ErrorKind.NOT_FOUND, message)
    return Response(HTTPStatus.OK, found[0], found[1], headers={**HEADERS, "Cache-Control": "max-age=300"})


@router.get(_ROOT, include_in_schema=False)
def show_runs() -> Response[str]:
    """Return the page of runs, of the queue, and of the form that starts one."""
    return _runs_page(_visit())


@router.post(f"{_ROOT}/runs", include_in_schema=False)
def start_run() -> Response[str]:
    """
    Start the run that a form asks for, and lead to its page; or check it, and show the form again.

    A file of rows is stored either way, and the plan that is shown names it: nobody has to choose it once more.
    """
    visit, (fields, files) = _visit(), read_form(router.current_event)
    try:
        form = StartForm(**{name: fields.get(name, "").replace("\r\n", "\n") for name in StartForm.model_fields})
    except ValidationError as error:
        raise ApiError(ErrorKind.BAD_REQUEST, "a field of the form is too long", field_problems(error)) from error
    try:
        plan = read_json(form.document) if form.document.strip() else form.plan
        if isinstance(plan, dict) and "rows" in files:
            plan = rows.with_file(plan, files["rows"], visit.services)
            form = form.model_copy(update={"document": _text(plan)})
        request = _request(form, plan)
        if fields.get("action") not in {"check", "outcome"}:
            started = runs.submit(request, form.key, visit.caller, visit.services)
            return _see(f"{_ROOT}/runs/{started.run_id}")
        found = CheckedForm(form=form, checked=plans.validate(request, visit.services))
    except PlanError as error:
        items = tuple(ProblemItem.model_validate(problem._asdict()) for problem in error.problems)
        found = CheckedForm(form=form, problems=items)
    status = HTTPStatus.UNPROCESSABLE_ENTITY if found.problems else HTTPStatus.OK
    if fields.get("action") == "outcome":  # of the script
        return _html(_pages().render_outcome(found), status)
    return (
        _plan_page(form.plan, visit, found, status) if form.plan and form.document else _runs_page(visit, found, status)
    )


@router.get(f"{_ROOT}/runs/<run_id>", include_in_schema=False)
def show_run(run_id: RunIdPath) -> Response[str]:
    """Return the page of a run."""
    visit = _visit()
    record = runs.find(run_id, visit.caller, visit.services)
    view = runs.view(record, visit.caller, visit.services)
    others = _ended(visit, record.plan, record.team) if record.ended and record.plan else None
    return _html(_pages().render_run(view, others, may_change=visit.caller.may_change(record)))


@router.post(f"{_ROOT}/runs/<run_id>/stop", include_in_schema=False)
def stop_run(run_id: RunIdPath) -> Response[str]:
    """Stop a run, and lead back to its page."""
    visit = _visit()
    return _see(f"{_ROOT}/runs/{runs.stop(run_id, visit.caller, visit.services).run_id}")


@router.post(f"{_ROOT}/runs/<run_id>/acknowledge", include_in_schema=False)
def acknowledge_run(run_id: RunIdPath) -> Response[str]:
    """Accept the level that begins with a run, and lead back to its page."""
    visit = _visit()
    try:
        given = Acknowledgement(why=read_form(router.current_event).fields.get("why", "").strip())
    except ValidationError as error:
        raise ApiError(ErrorKind.BAD_REQUEST, "a reason is missing, or too long", field_problems(error)) from error
    return _see(f"{_ROOT}/runs/{runs.acknowledge(run_id, given.why, visit.caller, visit.services).run_id}")


@router.get(f"{_ROOT}/runs/<run_id>/links/<document>", include_in_schema=False)
def get_link(run_id: RunIdPath, document: Literal["report", "summary", "records"]) -> Response[Download]:
    """Return a link, for a script that cannot see where a redirect leads."""
    visit = _visit()
    found = runs.download(runs.find(run_id, visit.caller, visit.services), document, 0, visit.services)
    return Response(HTTPStatus.OK, "application/json", found, headers=dict(HEADERS))


@router.get(f"{_ROOT}/plans/<name>", include_in_schema=False)
def show_plan(name: PlanNamePath) -> Response[str]:
    """Return the page of a plan: its runs over time, and the form that starts it changed."""
    return _plan_page(name, _visit())


@router.get(f"{_ROOT}/compare", include_in_schema=False)
def compare() -> Response[str]:
    """Return the page that compares two runs, or lets one choose them."""
    visit = _visit()
    a, b = visit.query.get("a", ""), visit.query.get("b", "")
    offered = _offered(visit, (a, b))
    if not a or not b:
        return _html(_pages().render_comparison(offered, a, b))
    from stepbench.api.comparison import compare  # noqa: PLC0415 -- with all of the analysis, for this route alone

    studied = visit.query.get("studied", "")[:200]
    try:
        tolerance = _tolerance(visit.query.get("tolerance", ""))
        found = compare(a, b, tolerance, visit.caller, visit.services, studied)
    except ApiError as error:
        details = problem_details(error, "")
        page = _pages().render_comparison(offered, a, b, studied=studied, problem=details)
        return _html(page, HTTPStatus(details.status))
    return _html(_pages().render_comparison(offered, a, b, found, studied=studied))


def _runs_page(visit: _Visit, sent: CheckedForm | None = None, status: HTTPStatus = HTTPStatus.OK) -> Response[str]:
    """Return the first page; of its two forms, one has what was sent, and the other is as it is at first."""
    form = CheckedForm(form=StartForm(key=_new_key()))
    plan = {name: value for name, value in plans.preset(_OWN).items() if name != "description"}  # the page has its own
    own = CheckedForm(form=StartForm(key=_new_key(), document=_text(plan)))
    if sent is not None:
        form, own = (form, sent) if sent.form.document else (sent, own)
    known = {name: value for name, value in visit.query.items() if name in {"plan", "team", "since", "until", "page"}}
    try:
        states = [visit.query["state"]] if visit.query.get("state") else []
        wanted = RunFilter.model_validate({**known, "state": states, "limit": _RUNS_SHOWN})
    except ValidationError as error:
        raise ApiError(ErrorKind.BAD_REQUEST, "a parameter is wrong", field_problems(error)) from error
    page = _pages().render_runs(
        runs.list_runs(runs.asked_for(wanted, visit.caller), visit.caller, visit.services),
        runs.list_queue(visit.caller, visit.services),
        plans.list_presets(visit.services.settings),
        wanted,
        (form, own),
        visit.caller.team,
    )
    return _html(page, status)


def _plan_page(
    name: str, visit: _Visit, form: CheckedForm | None = None, status: HTTPStatus = HTTPStatus.OK
) -> Response[str]:
    from stepbench.api.comparison import read_trend  # noqa: PLC0415 -- with the analysis, for this page alone

    team = visit.query.get("team") or visit.caller.team
    runs.check_team(team, visit.caller)
    trend = read_trend(name, team, visit.services)
    if form is None:
        document = _document(name, trend, visit.services)
        if document is None:
            message = f"there is no preset {shown(name)}, and team {team} has no finished run of a plan of that name"
            raise ApiError(ErrorKind.NOT_FOUND, message)
        form = CheckedForm(form=StartForm(plan=name, document=_text(document), key=_new_key()))
    return _html(_pages().render_plan(name, trend, form), status)


def _document(name: str, trend: PlanTrend | None, services: Services) -> object:
    """Return the plan of that name: a preset as its author wrote it, else as the newest run had it; None without."""
    try:
        return plans.preset(name)
    except PlanError:
        newest = trend.series.runs[-1] if trend else None
        return services.runs.find_json(layout.run_key(newest.run_id, "plan.json")) if newest else None


def _text(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def _ended(visit: _Visit, plan: str, team: str) -> RunList:
    """Return the newest runs that can be compared."""
    query = RunQuery(team=team, plan=plan, states=("succeeded", "failed"), limit=_RUNS_OFFERED)
    return runs.list_runs(query, visit.caller, visit.services)


def _offered(visit: _Visit, chosen: tuple[str, str]) -> RunList:
    """Return the newest runs that can be compared, and those that are chosen, so that each has its name and time."""
    newest = _ended(visit, "", visit.caller.team)
    others = set(chosen) - {"", *(run.run_id for run in newest.runs)}
    for run_id in sorted(others):
        with suppress(ApiError):
            record = runs.find(run_id, visit.caller, visit.services)
            view = runs.view(record, visit.caller, visit.services)
            newest = newest.model_copy(update={"runs": (*newest.runs, view)})
    return newest


def _request(form: StartForm, plan: object) -> RunRequest:
    """
    Return the run that a form asks for, of a plan or a preset's name.

    Raises:
        PlanError: a line is no change, or there are too many.
    """
    changes: dict[str, Any] = {}
    problems = []
    for number, line in enumerate(form.changes.splitlines(), 1):
        try:
            changes.update([parse_change(line)] if line.strip() else [])
        except ValueError:
            problems.append(Problem(f"changes, line {number}", HIDDEN, "is no PATH=VALUE", CHANGE_FORM))
    raise_problems(problems)
    return parse_body(RunRequest, {"plan": plan, "set": changes})


def _tolerance(text: str) -> float:
    """Return the share that a number of per cent is; 5 % if there is none."""
    try:
        share = float(text or 5) / 100
    except ValueError:
        share = 0
    if not 0 < share <= 1:
        problem = Problem("tolerance", shown(text), "is no number of per cent", "Give one above 0, up to 100.")
        raise ApiError(ErrorKind.BAD_REQUEST, "a parameter is wrong", [problem])
    return share


def _visit() -> _Visit:
    services = _services()
    event = router.current_event
    return _Visit(require_caller(event.raw_event, services.settings), services, event.query_string_parameters or {})


def _services() -> Services:
    services: Services = router.context["services"]
    return services


def _pages() -> Any:  # noqa: ANN401 -- a module
    """Import the pages with Jinja now: the API's other callers do not wait for it."""
    from stepbench import dashboard as pages  # noqa: PLC0415 -- see above

    return pages


def _new_key() -> str:
    return secrets.token_hex(_KEY_BYTES)


def _html(page: str, status: HTTPStatus = HTTPStatus.OK) -> Response[str]:
    return Response(status, _HTML, page, headers=dict(HEADERS))


def _see(path: str) -> Response[str]:
    return Response(HTTPStatus.SEE_OTHER, _HTML, "", headers={**HEADERS, "Location": path})

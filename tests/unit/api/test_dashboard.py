"""The dashboard's routes, asked as API Gateway asks them."""

from __future__ import annotations

import html
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.samples.results import sample_results, sample_summary
from tests.samples.services import NOT_ALLOWED, MemoryServices

from stepbench.api import app, dashboard, resolver
from stepbench.contracts.runs import QueueEntry, RunRecord
from stepbench.contracts.values import content_key
from stepbench.records.storage import layout
from stepbench.records.storage.run_register import RunQuery

EVENT = json.loads((Path(__file__).parents[3] / "events/tasks/http_api.json").read_text())
START = datetime(2026, 1, 1, tzinfo=UTC)
CONTEXT = SimpleNamespace(function_name="f", memory_limit_in_mb=1, invoked_function_arn="arn", aws_request_id="r")
PAGE = "text/html; charset=utf-8"
MAX_PAGE_BYTES = 52_000


class Machine:
    """Step Functions, as far as it is asked: it notes what is started and stopped."""

    def __init__(self) -> None:
        self.started: list[dict[str, Any]] = []
        self.stopped: list[str] = []

    def start_execution(self, **asked: Any) -> None:  # noqa: ANN401 -- boto3's
        """Note it."""
        self.started.append(asked)

    def stop_execution(self, **asked: Any) -> None:  # noqa: ANN401 -- boto3's
        """Note it."""
        self.stopped.append(asked["executionArn"])


@pytest.fixture
def machine() -> Machine:
    """Return what runs executions."""
    return Machine()


@pytest.fixture
def memory(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> MemoryServices:
    """Return the services that the routes are given."""
    memory = MemoryServices(
        aws={"stepfunctions": machine}, benchmark_arn="arn:aws:states:us-east-1:000000000000:stateMachine:b"
    )
    monkeypatch.setattr(resolver, "connect", lambda *_: memory.services)
    return memory


def _ask(  # noqa: PLR0913, PLR0917 -- a request
    method: str,
    path: str,
    query: str = "",
    body: str = "",
    arn: str | None = "arn:aws:iam::000000000000:root",
    content_type: str = "application/x-www-form-urlencoded",
) -> dict[str, Any]:
    context = {**EVENT["requestContext"], "http": {**EVENT["requestContext"]["http"], "method": method, "path": path}}
    context["authorizer"] = {"iam": {"userArn": arn}} if arn else {}
    parameters = dict(each.split("=", 1) for each in query.split("&")) if query else {}
    event = {**EVENT, "rawPath": path, "rawQueryString": query, "queryStringParameters": parameters, "body": body}
    event["headers"] = {**EVENT["headers"], "content-type": content_type}
    return app.handle({**event, "requestContext": context}, CONTEXT)  # type: ignore[arg-type] # Lambda's own


def _form(**fields: str) -> str:
    return urlencode(fields)


def _add(memory: MemoryServices, run_id: str, day: int = 0, **fields: Any) -> RunRecord:  # noqa: ANN401 -- a run's
    known = {
        "team": "default",
        "plan": "quick-unloaded",
        "state": "succeeded",
        "submitted_at": START + timedelta(days=day),
    }
    record = RunRecord.model_validate({"run_id": run_id, **known, **fields})
    memory.services.register.add(record)
    return record


def test_the_first_page_lists_runs_queue_and_presets(memory: MemoryServices) -> None:
    """And its policy allows nothing that it does not carry itself."""
    _add(memory, "r-1")
    entry = QueueEntry(run_id="r-2", team="other", plan="secret", targets=("s3",), arrived_at=START, execution_arn="a")
    _add(memory, "r-2", team="other", plan="secret", state="submitted")
    assert memory.services.register.join(entry, "a-token", START)
    answer = _ask("GET", "/")
    assert (answer["statusCode"], answer["headers"]["Content-Type"]) == (200, PAGE)
    assert answer["headers"]["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
    assert 'href="/dashboard/runs/r-1"' in answer["body"]
    assert "another team" in answer["body"]
    assert "secret" not in answer["body"]
    assert '<option value="quick-unloaded-s3">' in answer["body"]
    assert '<option value="paper-dsql-reuse">' not in answer["body"]
    assert "and this stack has no server of dsql" in answer["body"]


def test_the_queue_names_no_store_that_is_another_teams_alone(memory: MemoryServices) -> None:
    """An endpoint is a target's name; a store that both need explains why one waits for the other."""
    runs = (("r-1", "bert", ("etcd on shared", "payments-prod")), ("r-2", "anna", ("etcd on shared", "annas-own")))
    for run_id, team, targets in runs:
        _add(memory, run_id, team=f"role/{team}", state="queued")
        entry = {"run_id": run_id, "team": f"role/{team}", "plan": "p", "targets": targets, "execution_arn": "a"}
        assert memory.services.register.join(QueueEntry.model_validate({**entry, "arrived_at": START}), "token", START)
    anna, other = (_ask("GET", "/", arn=f"arn:aws:sts::1:assumed-role/{team}/s")["body"] for team in ("anna", "eve"))
    assert "annas-own, etcd on shared" in anna
    assert anna.count("etcd on shared") == 2
    assert "payments-prod" not in anna
    assert "etcd on shared" not in other


def test_who_shows_nothing_gets_a_page_without_data(memory: MemoryServices) -> None:
    """Its script takes a token; API Gateway lets nobody so far where requests are signed."""
    _add(memory, "r-1")
    answer = _ask("GET", "/", arn=None)
    assert answer["statusCode"] == 200
    assert "data-shell" in answer["body"]
    assert "r-1" not in answer["body"]
    assert _ask("GET", "/dashboard", arn=None)["statusCode"] == 401


def test_a_form_starts_one_run_however_often_it_is_sent(memory: MemoryServices, machine: Machine) -> None:
    """A second click is no second run."""
    body = _form(plan="quick-unloaded-s3", changes="trials[0].phases[1].load[0].count=20", key="k1", action="")
    answers = [_ask("POST", "/dashboard/runs", body=body) for _ in range(2)]
    assert [answer["statusCode"] for answer in answers] == [303, 303]
    assert len({answer["headers"]["Location"] for answer in answers}) == 1
    assert {each["name"] for each in machine.started} == {answers[0]["headers"]["Location"].rpartition("/")[2]}
    assert json.loads(machine.started[0]["input"])["set"] == {"trials[0].phases[1].load[0].count": 20}
    assert len(memory.services.register.page(RunQuery(team="default")).runs) == 1


@pytest.mark.usefixtures("memory")
def test_an_edited_plan_is_started(machine: Machine) -> None:
    """Its text, not the preset that it was made from."""
    plan = json.loads(_ask("GET", "/plans/quick-unloaded-s3")["body"])
    body = _form(plan="quick-unloaded-s3", document=json.dumps({**plan, "name": "mine"}), key="")
    assert _ask("POST", "/dashboard/runs", body=body)["statusCode"] == 303
    assert json.loads(machine.started[0]["input"])["plan"]["name"] == "mine"


def _send(document: str, file: str = "", rows: str = "", **fields: str) -> dict[str, Any]:
    """Send the form for a plan of one's own, as a browser does."""
    parts = {"document": document, "key": "k", **fields}
    body = "".join(f'--B\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{parts[name]}\r\n' for name in parts)
    body += f'--B\r\nContent-Disposition: form-data; name="rows"; filename="{file}"\r\n\r\n{rows}\r\n--B--\r\n'
    return _ask("POST", "/dashboard/runs", body=body, content_type="multipart/form-data; boundary=B")


def _shown(page: str) -> str:
    """Return the plan that stands in the form for one's own."""
    (text,) = re.findall(r'<textarea name="document"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    return html.unescape(text)


def test_a_plan_of_ones_own_is_checked_with_its_rows_and_then_started(memory: MemoryServices, machine: Machine) -> None:
    """The file is stored at the check, so that nobody has to choose it again; no rows stand in an input."""
    document = json.loads(_shown(_ask("GET", "/")["body"]))
    document["trials"][0]["target"]["function"]["name"] = "orders"
    rows = '{"total": 9.5}\n{"total": 12}\n'
    checked = _send(json.dumps(document), "Orders of May.JSONL", rows, action="check")
    assert (checked["statusCode"], machine.started) == (200, [])
    assert "Valid: 1 trial, 400 events" in checked["body"]
    assert "A copy of orders is invoked" in checked["body"]
    key = content_key(rows.encode(), "jsonl")
    assert memory.services.runs.find_bytes(key) == rows.encode()
    plan = _shown(checked["body"])
    assert json.loads(plan)["trials"][0]["record"] == {"values": {"key": key}}
    assert _send(plan.replace("\n", "\r\n"))["statusCode"] == 303
    assert json.loads(machine.started[0]["input"])["plan"] == json.loads(plan)


@pytest.mark.parametrize(
    ("change", "file", "rows", "said"),
    [
        ({}, "", "", "trials[0].target.function.name"),
        ({"name": NOT_ALLOWED}, "", "", "MeasuredFunctions"),
        ({"name": "orders"}, "orders.xlsx", "x", "has no format of rows"),
        ({"name": "orders"}, "orders.jsonl", "x" * 4_194_305, "has more than 4,194,304 bytes"),
        ({"name": "orders"}, "orders.jsonl", '{"a": 1}\n{"a": private}', "row 2: is not JSON at column 7"),
        ({"name": "orders"}, "orders.csv", "pk,a\nprivate,1", "is the name of the key"),
    ],
)
def test_what_is_wrong_with_ones_own_plan_or_file_is_shown_and_nothing_started(  # noqa: PLR0913, PLR0917 -- of pytest
    memory: MemoryServices, machine: Machine, change: dict[str, str], file: str, rows: str, said: str
) -> None:
    """With path and remedy, and without anything of a row."""
    document = json.loads(_shown(_ask("GET", "/")["body"]))
    document["trials"][0]["target"]["function"].update(change)
    answer = _send(json.dumps(document), file, rows)
    assert (answer["statusCode"], machine.started) == (422, [])
    assert said in answer["body"]
    assert "private" not in answer["body"]
    assert memory.services.register.page(RunQuery(team="default")).runs == ()


def test_the_script_is_answered_with_what_became_of_a_form_and_no_list(memory: MemoryServices) -> None:
    """It asks at each pause of who types."""
    memory.register.page = None  # type: ignore[assignment,method-assign]
    answer = _send('{"trials": []}', action="outcome")
    assert answer["statusCode"] == 422
    assert "<code>trials</code> is empty" in answer["body"]
    assert _shown(answer["body"]) == '{"trials": []}'


def test_a_file_beside_a_text_that_is_no_plan_is_not_stored(memory: MemoryServices) -> None:
    """It has no place; the text stays as it was typed, and the preset's form as it was."""
    answer = _send('{"trials": [private}', "orders.jsonl", '{"a": 1}')
    assert answer["statusCode"] == 422
    assert "line 1, column 13" in answer["body"]
    assert _shown(answer["body"]) == '{"trials": [private}'
    assert list(memory.services.runs.keys("values/")) == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"plan": "quick-unloaded-s3", "changes": "trials[0].nothing=1"}, "trials[0].nothing"),
        ({"plan": "quick-unloaded-s3", "changes": "\nnot a change"}, "changes, line 2"),
        ({"plan": "<b>none"}, "&lt;b&gt;none"),
        ({"plan": "x", "document": "{"}, "plan"),
        ({"plan": "quick-unloaded-s3", "changes": "trials[0].seed=" + "[" * 10_000}, "trials[0].seed"),
        ({"plan": "quick-unloaded-s3", "changes": "trials[0].seed=" + "[" * 400 + "]" * 400}, "nested deeper"),
        ({"plan": "x", "changes": "\n".join(f"trials[{number}].seed=1" for number in range(101))}, "at most 100"),
        ({}, "plan"),
    ],
)
def test_a_form_that_is_refused_is_shown_again(
    memory: MemoryServices, machine: Machine, fields: dict[str, str], said: str
) -> None:
    """With what is wrong; nothing is created."""
    answer = _ask("POST", "/dashboard/runs", body=_form(**fields))
    assert answer["statusCode"] == 422
    assert "nothing was started" in answer["body"]
    assert said in answer["body"]
    assert machine.started == []
    assert memory.services.register.page(RunQuery(team="default")).runs == ()


@pytest.mark.parametrize("field", [{"key": "x" * 256}, {"changes": "\n" * 20_001}, {"document": "x" * 400_001}])
def test_a_form_with_too_long_a_field_is_refused(memory: MemoryServices, field: dict[str, str]) -> None:
    """No page of ours sends one; whoever does has made the mistake."""
    answer = _ask("POST", "/dashboard/runs", body=_form(**{"plan": "quick-unloaded-s3", **field}))
    assert (answer["statusCode"], next(iter(field)) in answer["body"]) == (400, True)
    assert memory.services.register.page(RunQuery(team="default")).runs == ()


@pytest.mark.parametrize("path", [f"/dashboard/plans/{'x' * 5_000}", f"/dashboard/runs/{'x' * 5_000}"])
def test_a_name_that_is_too_long_for_any_is_told_without_asking_the_register(memory: MemoryServices, path: str) -> None:
    """DynamoDB takes no key of that length, which would look as if it did not answer."""
    memory.register.find = memory.register.page = None  # type: ignore[assignment,method-assign]
    assert _ask("GET", path)["statusCode"] == 400


def test_checking_starts_nothing(memory: MemoryServices, machine: Machine) -> None:
    """The other button of the form."""
    answer = _ask("POST", "/dashboard/runs", body=_form(plan="quick-unloaded-s3", action="check"))
    assert answer["statusCode"] == 200
    assert "Valid: 1 trial, 400 events" in answer["body"]
    assert machine.started == []
    assert memory.services.register.page(RunQuery(team="default")).runs == ()


def test_a_run_is_stopped(memory: MemoryServices, machine: Machine) -> None:
    """And its page is shown."""
    _add(memory, "r-1", state="running")
    answer = _ask("POST", "/dashboard/runs/r-1/stop")
    assert (answer["statusCode"], answer["headers"]["Location"]) == (303, "/dashboard/runs/r-1")
    assert machine.stopped == ["arn:aws:states:us-east-1:000000000000:execution:b:r-1"]


def test_a_level_is_accepted(memory: MemoryServices) -> None:
    """With a reason, which stands on the run's page from then on."""
    _add(memory, "r-1")
    assert "Accept the level" in _ask("GET", "/dashboard/runs/r-1")["body"]
    assert _ask("POST", "/dashboard/runs/r-1/acknowledge", body=_form(why=" "))["statusCode"] == 400
    answer = _ask("POST", "/dashboard/runs/r-1/acknowledge", body=_form(why="larger <records>"))
    assert (answer["statusCode"], answer["headers"]["Location"]) == (303, "/dashboard/runs/r-1")
    assert "is accepted: larger &lt;records&gt;" in _ask("GET", "/dashboard/runs/r-1")["body"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/dashboard/runs/r-1"), ("POST", "/dashboard/runs/r-1/stop"), ("GET", "/dashboard/runs/r-1/links/report")],
)
def test_another_teams_run_is_none(memory: MemoryServices, machine: Machine, method: str, path: str) -> None:
    """It is told on a page, as everything here."""
    _add(memory, "r-1", team="other", state="running")
    answer = _ask(method, path)
    assert (answer["statusCode"], answer["headers"]["Content-Type"]) == (404, PAGE)
    assert machine.stopped == []


def test_another_teams_trend_is_refused(memory: MemoryServices) -> None:
    """As its list is."""
    _add(memory, "r-1", team="other")
    assert _ask("GET", "/dashboard/plans/quick-unloaded", "team=other")["statusCode"] == 403
    assert _ask("GET", "/", "team=other")["statusCode"] == 403


def test_a_plan_shows_its_runs_in_order(memory: MemoryServices) -> None:
    """Runs without a result are left out."""
    for day in (1, 2):
        _add(memory, f"r-{day}", day)
        summary = sample_summary(sample_results()).model_copy(update={"run_id": f"r-{day}"})
        memory.services.runs.put_model(layout.run_key(f"r-{day}", "summary.json"), summary)
    _add(memory, "r-3", 3, state="failed")
    page = _ask("GET", "/dashboard/plans/quick-unloaded")["body"]
    assert "2 finished runs" in page
    assert page.index('data-run="r-1"') < page.index('data-run="r-2"')
    assert 'data-run="r-3"' not in page
    assert "&#34;name&#34;: &#34;quick-unloaded&#34;" in page


def test_a_plan_of_ones_own_is_as_its_newest_run_had_it(memory: MemoryServices) -> None:
    """There is no preset to edit."""
    _add(memory, "r-1", plan="mine")
    summary = sample_summary(sample_results()).model_copy(update={"run_id": "r-1"})
    memory.services.runs.put_model(layout.run_key("r-1", "summary.json"), summary)
    memory.services.runs.put_json(layout.run_key("r-1", "plan.json"), {"name": "mine", "trials": ["as stored"]})
    assert "as stored" in _ask("GET", "/dashboard/plans/mine")["body"]
    assert _ask("GET", "/dashboard/plans/nobodys")["statusCode"] == 404


def test_runs_are_compared_or_it_is_told_why_not(memory: MemoryServices) -> None:
    """The form stands below either way."""
    for run in ("r-1", "r-2"):
        _add(memory, run)
        summary = sample_summary(sample_results()).model_copy(update={"run_id": run})
        memory.services.runs.put_model(layout.run_key(run, "summary.json"), summary)
    _add(memory, "r-3", state="running")
    found = _ask("GET", "/dashboard/compare", "a=r-1&b=r-2")
    assert (found["statusCode"], "No regression beyond 5 % shown" in found["body"]) == (200, True)
    unfinished = _ask("GET", "/dashboard/compare", "a=r-1&b=r-3")
    assert (unfinished["statusCode"], "has no result yet" in unfinished["body"]) == (422, True)
    assert '<option value="r-1" selected>' in unfinished["body"]
    itself = _ask("GET", "/dashboard/compare", "a=r-1&b=r-1")
    assert (itself["statusCode"], "the same run, r-1; choose two runs" in itself["body"]) == (422, True)
    assert _ask("GET", "/dashboard/compare", "a=r-1&b=r-2&tolerance=0")["statusCode"] == 400
    assert _ask("GET", "/dashboard/compare")["statusCode"] == 200


@pytest.mark.parametrize("name", ["dashboard.css", "dashboard.js"])
def test_what_pages_refer_to_is_open_to_all(memory: MemoryServices, name: str) -> None:
    """It has to be, before a token is given."""
    assert memory
    assert _ask("GET", f"/dashboard/assets/{name}", arn=None)["statusCode"] == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [("/dashboard/assets/app.py", 404), ("/dashboard/nothing", 404), ("/dashboard/runs/..%2f", 400)],
)
def test_what_is_no_page_is_told_on_one(memory: MemoryServices, path: str, status: int) -> None:
    """With a way back."""
    assert memory
    answer = _ask("GET", path)
    assert (answer["statusCode"], answer["headers"]["Content-Type"]) == (status, PAGE)


def test_the_first_page_is_light(memory: MemoryServices) -> None:
    """With as many runs as it shows, all presets, its style and its script."""
    for day in range(40):
        headline = (
            "s3 at 50/s: n 1,800, p50 8.53 ms [8.41, 8.70], p90 12.1 ms [11.8, 12.6], p99 21.2 ms, lost 0, emulated",
        )
        _add(memory, f"quick-unloaded-20260101T000000-{day:08x}", day, headline=headline)
    page = _ask("GET", "/")["body"]
    assets = [_ask("GET", f"/dashboard/assets/dashboard.{name}")["body"] for name in ("css", "js")]
    assert page.count("<tr data-run") == 12
    assert sum(len(each.encode()) for each in (page, *assets)) <= MAX_PAGE_BYTES


def test_a_wrong_filter_is_told(memory: MemoryServices) -> None:
    """With the parameter's name."""
    assert memory
    answer = _ask("GET", "/", "state=lost")
    assert answer["statusCode"] == 400
    assert "state[0]" in answer["body"]


def test_pages_are_no_part_of_the_apis_description() -> None:
    """They are for people."""
    described = app.app.get_openapi_schema().model_dump(by_alias=True)["paths"]
    assert described.keys() & {"/runs", "/plans"}
    assert not [path for path in described if dashboard.is_page(path)]

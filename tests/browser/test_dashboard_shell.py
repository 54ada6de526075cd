"""Where callers have tokens: the page that holds one, in Chromium, before the API's own routes on loopback."""

from __future__ import annotations

import base64
import json
import re
import threading
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
from playwright.sync_api import FilePayload, expect
from tests.chromium import chromium, new_context
from tests.samples.services import MemoryServices

from stepbench.api import app, resolver
from stepbench.contracts.api import Progress
from stepbench.contracts.runs import RunRecord
from stepbench.records.storage.run_register import RunQuery

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
EVENT = json.loads((Path(__file__).parents[2] / "events/tasks/http_api.json").read_text())
CONTEXT = SimpleNamespace(function_name="f", memory_limit_in_mb=1, invoked_function_arn="arn", aws_request_id="r")
TOKEN = "a.good.token"  # noqa: S105 -- of this test
OPEN = ("/", "/dashboard/assets/dashboard.css", "/dashboard/assets/dashboard.js", "/favicon.ico")
START = datetime(2026, 1, 1, tzinfo=UTC)
LIMIT_S = 120
ONE_EVENT = threading.Lock()
"""A sandbox has one event at a time; of two at once, Powertools gave the script's request the style sheet."""
MARKUP = "<main id=main><form action=/dashboard/runs method=post><button>Look</button></form></main>"
JSON_PATH = "/dashboard/as-json"
VIOLATIONS = "async () => (await axe.run(document, {resultTypes: ['violations']})).violations.map((each) => each.id)"


class Gateway(BaseHTTPRequestHandler):
    """API Gateway with ApiAuthorization=jwt, as far as a browser sees it."""

    def do_GET(self) -> None:
        """Let the function answer, as the template's routes have it."""
        parts = urlsplit(self.path)
        known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if not known and parts.path not in OPEN:
            self._reply(401, {"Content-Type": "application/json"}, b'{"message":"Unauthorized"}')
            return
        if parts.path == JSON_PATH:
            self._reply(502, {"Content-Type": "application/json"}, json.dumps({"message": MARKUP}).encode())
            return
        context = {**EVENT["requestContext"], "http": {**EVENT["requestContext"]["http"], "method": self.command}}
        context["authorizer"] = {"jwt": {"claims": {"sub": "me", "team": "shop"}}} if known else {}
        body = base64.b64encode(self.rfile.read(int(self.headers.get("Content-Length", 0)))).decode()
        event = {**EVENT, "rawPath": parts.path, "rawQueryString": parts.query, "requestContext": context}
        event |= {"body": body, "isBase64Encoded": True}
        event["headers"] = {**EVENT["headers"], "content-type": self.headers.get("Content-Type", "")}
        context["http"]["path"] = parts.path
        event["queryStringParameters"] = dict(parse_qsl(parts.query))
        with ONE_EVENT:
            answer = app.handle(event, CONTEXT)  # type: ignore[arg-type] # Lambda's own
        self._reply(answer["statusCode"], answer["headers"], answer["body"].encode())

    do_POST = do_GET  # noqa: N815 -- http.server's name

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class Machine:
    """Step Functions, which takes everything."""

    def start_execution(self, **_: Any) -> None:  # noqa: ANN401 -- boto3's
        """Take it."""


@pytest.fixture(scope="module")
def memory() -> MemoryServices:
    """Return the services of a stack that has one run of the team's, and one of another's."""
    memory = MemoryServices(
        aws={"stepfunctions": Machine()}, benchmark_arn="arn:aws:states:us-east-1:000000000000:stateMachine:b"
    )
    for team, run_id in (("shop", "ours-1"), ("other", "theirs-1")):
        run = RunRecord(
            run_id=run_id, team=team, plan="quick-unloaded-s3", state="succeeded", submitted_at=START, trials=1
        )
        memory.services.register.add(run)
    return memory


@pytest.fixture(scope="module")
def page(memory: MemoryServices) -> Iterator[Page]:
    """Return the page of somebody who has just opened the API's address."""
    with pytest.MonkeyPatch.context() as patch, ThreadingHTTPServer(("127.0.0.1", 0), Gateway) as server:
        patch.setattr(resolver, "connect", lambda *_: memory.services)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with chromium() as browser:
                page = new_context(browser).new_page()
                page.goto(f"http://127.0.0.1:{server.server_port}/")
                yield page
        finally:
            server.shutdown()
            thread.join(LIMIT_S)


def test_the_shell_is_accessible(page: Page) -> None:
    """It is the first that a user sees."""
    page.evaluate(AXE.read_text("utf-8"))
    assert page.evaluate(VIOLATIONS) == []


def test_without_its_script_the_page_takes_no_token(page: Page) -> None:
    """The browser alone would send it as a part of the address, which histories and logs keep."""
    other = page.context.new_page()
    try:
        other.route("**/dashboard.js", lambda route: route.abort())
        other.goto(page.url)
        other.get_by_label("Access token").fill("a.good.token")
        other.get_by_role("button", name="Show the dashboard").click()
        assert other.url == page.url
    finally:
        other.close()


def test_a_token_that_is_refused_is_asked_for_again(page: Page) -> None:
    """And is not kept."""
    page.get_by_label("Access token").fill("guessed")
    page.get_by_role("button", name="Show the dashboard").click()
    page.get_by_text("The token was refused").wait_for()
    assert page.evaluate("sessionStorage.length") == 0


def test_with_a_token_the_same_pages_are_shown(page: Page) -> None:
    """Of the team that the token names; a reload keeps the page, another tab has no token."""
    page.get_by_label("Access token").fill(TOKEN)
    page.get_by_role("button", name="Show the dashboard").click()
    page.get_by_role("link", name="ours-1").click()
    page.locator("main[data-run=ours-1]").wait_for()
    assert page.url.endswith("#/dashboard/runs/ours-1")
    page.reload()
    page.locator("main[data-run=ours-1]").wait_for()
    page.goto(page.url.replace("ours-1", "theirs-1"))
    page.get_by_role("heading", name="There is no such thing").wait_for()
    assert page.context.cookies() == []


def test_a_form_is_sent_with_the_token(page: Page, memory: MemoryServices) -> None:
    """It leads to the page of the run that it has started."""
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_label("Preset").select_option("quick-unloaded-s3")
    page.locator("[data-outcome] .kept").wait_for()
    page.locator("#start").get_by_role("button", name="Start", exact=True).click()
    page.locator("main[data-state=submitted]").wait_for()
    started = page.locator("main").get_attribute("data-run")
    assert started in {run.run_id for run in memory.services.register.page(RunQuery(team="shop")).runs}
    assert page.url.endswith(f"#/dashboard/runs/{started}")


def test_the_filter_goes_with_the_address(page: Page) -> None:
    """A form that asks is a place to go back to."""
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_label("State").select_option("succeeded")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**state=succeeded**")
    page.locator("#runs tr[data-run=ours-1]").wait_for()
    page.locator("#runs tr[data-state=submitted]").wait_for(state="detached")
    page.go_back()
    page.locator("#runs tr[data-state=submitted]").wait_for()


def test_ones_own_function_is_measured_from_the_first_page(page: Page, memory: MemoryServices) -> None:
    """The name is asked for; rows are stored when their file is chosen, and what the copy does is said before."""
    page.get_by_role("link", name="Your function").click()
    form = page.locator("#own-form")
    plan, outcome = form.get_by_label("The plan, as JSON"), form.locator("[data-outcome]")
    plan.press_sequentially(" ")
    outcome.get_by_text("is to be replaced by the name of your own function").wait_for()
    plan.fill(plan.input_value().replace("YOUR-FUNCTION", "orders"))
    outcome.get_by_text("A copy of orders is invoked").wait_for()
    rows = FilePayload(name="orders.csv", mimeType="text/csv", buffer=b"order,total\n1,9.5\n")
    form.get_by_label("Rows of your own").set_input_files([rows])
    expect(plan).to_have_value(re.compile('"key": "values/'))
    key = json.loads(plan.input_value())["trials"][0]["record"]["values"]["key"]
    assert memory.services.runs.find_bytes(key) == rows["buffer"]
    outcome.locator(".kept").wait_for()
    form.get_by_role("button", name="Start", exact=True).click()
    page.locator("main[data-state=submitted]").wait_for()
    started = page.locator("main").get_attribute("data-run")
    assert {run.plan for run in memory.services.register.page(RunQuery(team="shop")).runs if run.run_id == started} == {
        "your-function"
    }


def test_a_file_of_rows_that_is_wrong_is_told_and_stays_chosen(page: Page) -> None:
    """By row and column; a larger one is not sent at all, since API Gateway's own refusal would say nothing."""
    page.get_by_role("link", name="Your function").click()
    form = page.locator("#own-form")
    for name, content, said in (
        ("orders.txt", b"1", "has no format of rows"),
        ("orders.jsonl", b"x" * (4 * 1024 * 1024 + 1), "The file is larger than 4 MB"),
    ):
        file = FilePayload(name=name, mimeType="text/plain", buffer=content)
        form.get_by_label("Rows of your own").set_input_files([file])
        form.locator("[data-outcome]").get_by_text(said).wait_for()


@pytest.mark.parametrize("path", ["/runs", "/dashboard/../runs", "//x/../runs", "/x/%2e%2e/runs", "runs", "\\runs"])
def test_a_link_to_another_path_of_the_api_leads_to_the_runs(page: Page, path: str) -> None:
    """Its errors quote what was asked for: as markup, a click on it would be one on the user's own page."""
    page.goto(page.url.partition("#")[0] + "#/dashboard/compare")
    page.locator("main[data-page=compare]").wait_for()
    page.goto(f"{page.url.partition('#')[0]}#{path}?state={quote(MARKUP)}")
    page.locator("main[data-page=runs]").wait_for()
    assert page.get_by_role("button", name="Look").count() == 0


def test_what_is_no_page_is_shown_as_none(page: Page) -> None:
    """API Gateway answers in JSON by itself, too."""
    page.goto(f"{page.url.partition('#')[0]}#{JSON_PATH}")
    page.get_by_text("No page came, but status 502.").wait_for()
    assert page.get_by_role("button", name="Look").count() == 0


def test_rates_are_drawn_by_time_and_end_with_the_writers(page: Page, memory: MemoryServices) -> None:
    """The last rate stood there through drain and analysis, and a tab in the background squeezed twenty seconds."""
    memory.services.register.add(
        RunRecord(run_id="live-1", team="shop", plan="p", state="running", submitted_at=START, started_at=START)
    )
    told = [(0, 0), (2, 100), (12, 300)]
    page.route(
        lambda url: urlsplit(url).path == "/runs/live-1",
        lambda route: route.fulfill(json=_running(*(told.pop(0) if told[1:] else told[0]))),
    )
    page.clock.install()
    page.goto(f"{page.url.partition('#')[0]}#/dashboard/runs/live-1")
    rate = page.locator("[data-field=sent_per_s]")
    page.locator("[data-field=sent]", has_text="0 of 400").wait_for()
    assert not page.locator("#rates").is_visible()  # nothing is known yet that could be drawn
    for shown in ("50", "20"):
        page.clock.run_for(2_000)
        rate.get_by_text(shown, exact=True).wait_for()
    assert str(page.locator("#rates .line").first.get_attribute("d")).startswith(f"M{4 + 472 * 2 / 12:.1f} ")
    assert page.locator("#rate-rows tr").count() == 3
    assert page.locator("#rates").is_visible()
    page.clock.run_for(10_000)
    rate.get_by_text("\N{EN DASH}", exact=True).wait_for()
    assert page.locator("[data-field=lag]").inner_text() == "7 events"


def _running(after_s: int, sent: int) -> dict[str, Any]:
    at = START + timedelta(seconds=after_s)
    progress = Progress(
        activity="phase load",
        share=0.5,
        left_s=9,
        trial=0,
        trials=1,
        planned=400,
        sent=sent,
        received=sent,
        lag=7,
        at=at,
    )
    return {"state": "running", "progress": progress.model_dump(mode="json")}

"""The dashboard in Chromium, on the deployed stack: runs are started, followed, read, compared, and stopped."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import pytest
from tests.chromium import chromium, new_context

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page
    from tests.end_to_end.deployment import Deployment

pytestmark = [pytest.mark.end_to_end, pytest.mark.browser, pytest.mark.nightly("browser")]
AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
PRESET = "quick-unloaded-s3"
SHORT = "trials[0].phases[0].load[0].count=10\ntrials[0].phases[1].load[0].count=60"
RUN_LIMIT_MS = 400_000
WIDER = """
() => [...document.querySelectorAll("main :is(p, li, dd, td, th, h1, h2, label, button, svg)")]
  .filter((each) => each.checkVisibility() && !each.closest(".scroll"))
  .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
  .map((each) => `${each.tagName} ${each.textContent.trim().slice(0, 40)}`)
"""
VIOLATIONS = """
async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
  .map((each) => [each.id, each.nodes[0].html])
"""

RECORD = """
() => {
  window.offered = [];
  window.opened = {};
  document.querySelector("#stop details").open = true;
  setInterval(() => {
    const stop = document.querySelector("#stop details");
    if (stop) window.opened[document.querySelector("main").dataset.state] = stop.open;
    const place = document.querySelector("[data-field=sent]");
    if (place && window.offered.at(-1) !== place.textContent) window.offered.push(place.textContent);
  }, 50);
}
"""
"""Notes each number of offered events that the page shows, and in which states what was opened once is open; a reload
would end it."""


class Followed(NamedTuple):
    """What was seen of three runs: two that went through, one that was stopped while it waited."""

    page: Page
    console: list[str]
    base: str
    a: str
    b: str
    stopped: str
    checked: str
    refused: str
    offered: list[str]
    opened: dict[str, bool]
    waited: str


@pytest.fixture(scope="module")
def followed(deployment: Deployment) -> Iterator[Followed]:
    """Start three runs by the form, watch the first to its end without reloading, and stop the third in the queue."""
    address = deployment.command("up").stdout.split("dashboard")[1].split()[0]
    with chromium() as browser:
        context = new_context(browser, viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
        page, console = context.new_page(), list[str]()
        page.on("console", lambda message: console.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: console.append(str(error)))
        page.goto(address)
        base = page.url.rstrip("/")
        refused = _type(page, "trials[0].phases[0].nothing=1", ".missed")
        checked = _type(page, SHORT, ".kept")
        page.locator("#start").get_by_role("button", name="Start", exact=True).click()
        a = _run_id(page)
        page.evaluate(RECORD)
        other = context.new_page()
        b = _start(other, base)
        other.locator("main[data-state=queued]").wait_for(timeout=RUN_LIMIT_MS)
        waited = other.locator("main").inner_text()
        waiting = context.new_page()
        waiting.goto(f"{base}/dashboard/runs/{b}")
        waiting.evaluate(RECORD)
        stopped = _start(other, base)
        other.get_by_text("Stop this run").click()
        other.get_by_role("button", name="Stop it and tear down").click()
        other.locator("main[data-state=stopped]").wait_for(timeout=RUN_LIMIT_MS)
        other.close()
        page.locator("main[data-state=succeeded]").wait_for(timeout=RUN_LIMIT_MS)
        offered = list(page.evaluate("window.offered"))
        page.goto(f"{base}/dashboard/runs/{b}")
        page.locator("main[data-state=succeeded]").wait_for(timeout=RUN_LIMIT_MS)
        opened = dict(waiting.evaluate("window.opened"))
        waiting.close()
        yield Followed(page, console, base, a, b, stopped, checked, refused, offered, opened, waited)
        context.close()


def _type(page: Page, changes: str, outcome: str) -> str:
    page.get_by_label("Preset").select_option(PRESET)
    page.get_by_label(re.compile("^Changes")).fill(changes)
    page.locator(f"#start [data-outcome] {outcome}").wait_for()
    return page.locator("#start [data-outcome]").inner_text()


def _start(page: Page, base: str) -> str:
    page.goto(f"{base}/")
    _type(page, SHORT, ".kept")
    page.locator("#start").get_by_role("button", name="Start", exact=True).click()
    return _run_id(page)


def _run_id(page: Page) -> str:
    page.wait_for_url("**/dashboard/runs/*")
    return str(page.locator("main").get_attribute("data-run"))


def test_a_plan_is_checked_as_it_is_typed(followed: Followed) -> None:
    """What is wrong is told with its path before anything is started."""
    assert "trials[0].phases[0].nothing" in followed.refused
    assert "1 trial, 70 events" in followed.checked


def test_a_run_is_followed_without_a_reload(followed: Followed) -> None:
    """What notes the counter outlived the change from running to succeeded; and the counter was seen to move."""
    counted = [int(text.split()[0].replace(",", "")) for text in followed.offered if text[:1].isdigit()]
    assert max(counted) > 0


def test_what_was_opened_stays_open_as_the_run_goes_on(followed: Followed) -> None:
    """Who is about to confirm a stop is not made to begin again by the next state; this run began in the queue."""
    assert len(followed.opened) > 1, followed.opened
    assert all(followed.opened.values()), followed.opened


def test_who_waits_sees_for_whom(followed: Followed) -> None:
    """The second run waits for the first, which its page names."""
    assert "Waiting for its turn" in followed.waited
    assert followed.a in followed.waited


def test_the_report_opens(followed: Followed) -> None:
    """By a link that is made when it is followed."""
    page = followed.page
    page.goto(f"{followed.base}/dashboard/runs/{followed.a}")
    page.get_by_role("link", name="Report", exact=True).click()
    page.get_by_text("Stepbench report").wait_for()
    assert page.title() == f"{PRESET} · Stepbench"
    assert page.locator("body").get_attribute("data-run") == followed.a


def test_two_runs_are_compared(followed: Followed) -> None:
    """From the page of one of them, by its form."""
    page = followed.page
    page.goto(f"{followed.base}/dashboard/runs/{followed.b}")
    page.get_by_label("This run against").select_option(followed.a)
    page.get_by_role("button", name="Compare").click()
    page.locator("#outcome").wait_for()
    assert f"a={followed.a}&b={followed.b}" in page.url
    assert page.locator("#verdicts > .scroll > table > tbody > tr").count() == 1


def test_a_plan_shows_its_runs_over_time(followed: Followed) -> None:
    """Both runs are in the figure and in its table; the one that was stopped has no numbers."""
    page = followed.page
    page.goto(f"{followed.base}/dashboard/plans/{PRESET}")
    points = page.locator("#trend svg").first.locator("circle, path.beyond")  # an arrow where the machine was busy
    assert points.count() >= 2
    rows = page.locator("#trend figure tbody").first.locator("tr")
    assert [row.get_attribute("data-run") for row in rows.all()][-2:] == [followed.a, followed.b]


def test_the_list_says_how_each_ended(followed: Followed) -> None:
    """And the queue is empty again."""
    followed.page.goto(f"{followed.base}/")
    states = {
        row.get_attribute("data-run"): row.get_attribute("data-state")
        for row in followed.page.locator("#runs tbody tr").all()
    }
    assert [states[run] for run in (followed.a, followed.b, followed.stopped)] == ["succeeded", "succeeded", "stopped"]
    assert "Nobody" in followed.page.locator("#queue").inner_text()


def _paths(followed: Followed) -> dict[str, str]:
    return {
        "runs": "/",
        "run": f"/dashboard/runs/{followed.a}",
        "stopped": f"/dashboard/runs/{followed.stopped}",
        "plan": f"/dashboard/plans/{PRESET}",
        "compare": f"/dashboard/compare?a={followed.a}&b={followed.b}",
        "choose": "/dashboard/compare",
    }


@pytest.mark.parametrize("name", ["runs", "run", "stopped", "plan", "compare", "choose"])
def test_a_page_is_accessible_and_fits(name: str, followed: Followed) -> None:
    """By axe, wide and light, narrow and dark; on a phone and on paper nothing is cut off."""
    page = followed.page
    page.goto(f"{followed.base}{_paths(followed)[name]}")
    page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    page.evaluate(AXE.read_text("utf-8"))
    for width, scheme in ((1280, "light"), (390, "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type] # a literal
        assert page.evaluate(VIOLATIONS) == [], scheme
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(WIDER) == []
    page.set_viewport_size({"width": 718, "height": 900})  # A4 between its margins
    page.emulate_media(media="print", color_scheme="light")
    assert page.evaluate(WIDER) == []
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 1280, "height": 900})


def test_it_is_whole_without_a_script(followed: Followed) -> None:
    """A form is checked and sent by the browser alone, and leads to the run's page."""
    cookies = followed.page.context.cookies()
    browser = followed.page.context.browser
    assert browser is not None
    context = new_context(browser, java_script_enabled=False)
    try:
        context.add_cookies([{**cookie} for cookie in cookies])  # type: ignore[typeddict-item] # playwright's own
        page = context.new_page()
        page.goto(f"{followed.base}/")
        page.get_by_label("Preset").select_option(PRESET)
        page.get_by_label(re.compile("^Changes")).fill(SHORT)
        page.locator("#start").get_by_role("button", name="Check only").click()
        assert "1 trial, 70 events" in page.locator("#start [data-outcome]").inner_text()
        page.locator("#start").get_by_role("button", name="Start", exact=True).click()
        run = _run_id(page)
        page.get_by_text("Stop this run").click()
        page.get_by_role("button", name="Stop it and tear down").click()
        assert page.url.endswith(run)
    finally:
        context.close()


def test_nothing_was_refused_or_broke(followed: Followed) -> None:
    """The pages' own policy forbids any script and style that is not theirs; the browser would say so."""
    assert urlsplit(followed.base).hostname == "127.0.0.1"
    assert [each for each in followed.console if "status of 422" not in each] == []  # a plan that was refused

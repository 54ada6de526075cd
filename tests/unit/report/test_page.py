from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from stepbench.contracts.result import Caveat, Failure
from stepbench.report.page import render_page
from stepbench.report.runtime import javascript
from stepbench.report.summary import Store, missing_result, summarise
from stepbench.testing.sample_results import sample_manifest

if TYPE_CHECKING:
    from stepbench.contracts.result import RunSummary, TrialResult
    from stepbench.report.summary import RunFacts

MAX_BYTES = 1_500_000
EVIL = "</script><img src=x onerror=\"document.title='pwned'\">&amp;"
ALLOWED_ADDRESSES = re.compile(
    r"https?://(www\.w3\.org/(2000/svg|1999/xlink|2000/xmlns/)"  # namespaces
    r"|vega\.github\.io/(schema/|editor/)"  # names of schemas; the editor's menu entry is switched off
    r"|github\.com/vega/vega-lite/issues/)"  # text of a warning
)


class Elements(HTMLParser):
    """What a browser would find: elements with their attributes, and the text of each script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """HTMLParser's."""
        self.found.append((tag, dict(attrs)))
        self._in_script = tag == "script"
        if self._in_script:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        """HTMLParser's."""
        self._in_script = self._in_script and tag != "script"

    def handle_data(self, data: str) -> None:
        """HTMLParser's."""
        if self._in_script:
            self.scripts[-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of all elements of a kind."""
        return [attributes for name, attributes in self.found if name == tag]


def without_script_bodies(page: str) -> str:
    """The page less nine tenths of its bytes."""
    return re.sub(r"(<script[^>]*>).*?(</script>)", r"\1\2", page, flags=re.DOTALL)


def test_the_page_is_small_enough_to_mail(page: str) -> None:
    """Target: 1.5 MB, runtime included."""
    assert len(page.encode()) < MAX_BYTES


def test_nothing_refers_outside_of_the_page(page: str) -> None:
    """It opens on a plane, and tells nobody that it was opened."""
    for name, attributes in Elements(page).found:
        for attribute in ("src", "href", "srcset", "action", "data", "poster"):
            reference = attributes.get(attribute)
            assert reference is None or reference.startswith(("#", "data:,")), (name, reference)
    assert "@import" not in page.split("</style>", maxsplit=1)[0]
    assert "url(" not in page.split("</style>", maxsplit=1)[0]
    addresses = {found.group() for found in re.finditer(r"https?://[^\s\"'`)<\\]+", page)}
    assert {address for address in addresses if not ALLOWED_ADDRESSES.match(address)} == set()


def test_the_policy_admits_the_pages_own_scripts_and_no_connection(page: str) -> None:
    """A second line of defence behind escaping: a script that is not ours does not run."""
    elements = Elements(page)
    policy = next(each["content"] for each in elements.all("meta") if "http-equiv" in each)
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "connect-src" not in policy
    executable = [
        body for body, each in zip(elements.scripts, elements.all("script"), strict=True) if "type" not in each
    ]
    assert len(executable) == 2
    for body in executable:
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_the_runtime_is_inlined_once(page: str) -> None:
    """It is nine tenths of the page."""
    assert page.count(javascript()) == 1


def attribute(page: str, metric: str, name: str, row: str) -> str | None:
    """A raw value off the cell of a metric, in the row whose tag begins so."""
    cells = page.split(f"<tr {row}")[1].split("</tr>", maxsplit=1)[0]
    found = re.search(rf'<td[^>]*data-metric="{re.escape(metric)}"[^>]*?data-{name}="([^"]*)"', cells)
    return found[1] if found else None


def test_cells_carry_the_raw_numbers(page: str, summary: RunSummary) -> None:
    """Scripts read the page as exactly as they would read summary.json."""
    p50 = summary.trials[1].windows[0].latency_ms.p50
    row = 'data-trial="1" data-name="dynamodb"'
    found = [attribute(page, "latency_ms.p50", name, row) for name in ("value", "low", "high", "unit")]
    assert found == [str(p50.value), str(p50.low), str(p50.high), "ms"]
    assert attribute(page, "latency_ms.p99", "reason", row) == "n=200 &lt; 368"
    assert attribute(page, "accounting.lost", "value", row) == "3"


def test_tables_are_tables(page: str) -> None:
    """A screen reader announces caption, row and column; a table without them is a heap of numbers."""
    tables = re.findall(r"<table.*?</table>", without_script_bodies(page), flags=re.DOTALL)
    assert len(tables) == 6
    for table in tables:
        assert "<caption" in table
        assert 'scope="col"' in table
        assert 'scope="row"' in table


def test_every_region_that_scrolls_can_be_reached_by_keyboard(page: str) -> None:
    """Without a tab stop, a wide table's right half is for the mouse alone."""
    scrolling = [each for each in Elements(page).all("div") if each.get("class") == "scroll"]
    identifiers = {each["id"] for _, each in Elements(page).found if each.get("id")}
    assert scrolling
    for each in scrolling:
        assert (each["role"], each["tabindex"]) == ("region", "0")
        assert each["aria-labelledby"] in identifiers


def test_ids_are_unique_and_links_lead_somewhere(page: str) -> None:
    """Caveat links beside the numbers lead to their remedies."""
    elements = Elements(page)
    identifiers = [each["id"] for _, each in elements.found if each.get("id")]
    assert len(set(identifiers)) == len(identifiers)
    targets = {str(each["href"])[1:] for each in elements.all("a")}
    assert targets <= set(identifiers)


def test_problems_stand_before_the_answer(page: str) -> None:
    """Who reads only the first lines must not miss that a trial ended early."""
    problems, answer = page.index('id="problems"'), page.index('id="answer"')
    assert problems < page.index("WriterMissing") < answer
    assert "1 of 4 trials did not complete" in page


def test_emulated_stores_are_labelled_wherever_their_numbers_are(page: str) -> None:
    """A latency of an emulator quoted as AWS's would be worse than none."""
    body = without_script_bodies(page)
    for section in ("answer", "time", "times", "invocations"):
        assert 'badge emulated">emulated' in body.split(f'<section id="{section}"')[1].split("</section>")[0]


def hostile(result: TrialResult) -> TrialResult:
    """The result, with markup in every text that comes from outside."""
    caveat = Caveat(kind="skipped", text=EVIL, remedy=EVIL)
    window = result.summary.windows[0].model_copy(update={"name": EVIL, "phase": EVIL})
    functions = tuple(each.model_copy(update={"function": EVIL}) for each in result.summary.invocations)
    summary = result.summary.model_copy(
        update={
            "name": EVIL,
            "store": EVIL,
            "provider": EVIL,
            "failure": Failure(error=EVIL, cause=EVIL),
            "caveats": (caveat,),
            "windows": (window,),
            "invocations": functions,
            "clock": result.summary.clock.model_copy(update={"text": EVIL}),
        }
    )
    curve = result.ecdf[0].model_copy(update={"window": EVIL, "phase": EVIL})
    phase = result.phases[0].model_copy(update={"name": EVIL})
    series = tuple(each.model_copy(update={"phase": EVIL}) for each in result.series)
    return result.model_copy(update={"summary": summary, "ecdf": (curve,), "phases": (phase,), "series": series})


def test_no_text_from_outside_becomes_markup(facts: RunFacts, results: tuple[TrialResult, ...]) -> None:
    """Plans come by API from other teams, errors from anywhere: any of it may hold markup."""
    made = [hostile(result) for result in results]
    summary = summarise(facts, made).model_copy(update={"plan": EVIL, "run_id": EVIL})
    manifest = sample_manifest(EVIL).model_copy(
        update={"region": EVIL, "libraries": {EVIL: EVIL}, "functions": {EVIL: {EVIL: EVIL}}, "stores": {EVIL: EVIL}}
    )
    page = render_page(summary, made, manifest, {"name": EVIL})
    elements = Elements(page)
    assert elements.all("img") == []
    assert len(elements.all("script")) == 3
    assert "<img" not in page.replace(javascript(), "")
    data = json.loads(elements.scripts[0])
    assert data["datasets"]["phases-trial-0"]["phase"] == [EVIL]


def test_a_run_in_which_all_failed_still_makes_a_helpful_page(facts: RunFacts) -> None:
    """It is then that the report is needed most: what failed, why, and what to do."""
    failure = Failure(error="TargetUnavailableError", cause="etcd does not answer at 127.0.0.1:2379")
    missing = [missing_result("etcd", 0, Store("etcd", "not reached", emulated=False), failure, 0.01)]
    page = render_page(summarise(facts, missing), missing, sample_manifest())
    assert "1 of 1 trial did not complete" in page
    assert "etcd does not answer at 127.0.0.1:2379" in page
    assert "No trial measured anything" in page
    assert "No events, no distribution." in page
    assert "<summary>The plan</summary>" not in page


def test_a_run_without_trials_says_how_to_find_out_why(facts: RunFacts) -> None:
    """A refused plan leaves no trial; an empty page would leave its author alone."""
    page = render_page(summarise(facts, []), [], sample_manifest())
    assert "Nothing ran" in page
    assert "stepbench validate PLAN" in page


def test_a_stopped_run_says_so(facts: RunFacts, results: tuple[TrialResult, ...]) -> None:
    """Numbers of a run that was cut short must not pass for whole ones."""
    summary = summarise(facts, results[2:3]).model_copy(update={"status": "stopped"})
    page = render_page(summary, results[2:3], sample_manifest())
    assert "The run was stopped before its end." in page


@pytest.mark.parametrize("actual", [None, 0.5])
def test_an_unknown_cost_is_no_zero(actual: float | None, facts: RunFacts, results: tuple[TrialResult, ...]) -> None:
    """To print "$0.00" for "nobody knows" would be a lie that somebody budgets by."""
    cost = results[0].summary.cost_usd.model_copy(update={"actual": actual})
    made = results[0].model_copy(update={"summary": results[0].summary.model_copy(update={"cost_usd": cost})})
    page = render_page(summarise(facts, [made]), [made], sample_manifest())
    total = page.split("<tfoot>")[1].split("</tfoot>")[0]
    assert total.count("$0.50") == (actual is not None)
    assert total.count("–") == (actual is None)  # noqa: RUF001 -- an en dash for "none"

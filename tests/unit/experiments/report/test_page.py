from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from tests.samples.comparisons import estimate, matrix, trial, window
from tests.samples.estimates import present
from tests.samples.results import (
    changed,
    refused_result,
    sample_facts,
    sample_manifest,
    sample_page,
    sample_results,
    sample_summary,
)

from stepbench.contracts.documents import Failure
from stepbench.contracts.result import Caveat
from stepbench.contracts.threshold_grammar import parse_threshold
from stepbench.contracts.thresholds import DEFAULTS, Judge
from stepbench.experiments.report.page import answers, describe_group, render_page
from stepbench.report.figures import javascript
from stepbench.report.groups import groups
from stepbench.report.summary import TrialStore, missing_result, summarise

if TYPE_CHECKING:
    from stepbench.contracts.result import RunSummary, TrialResult
    from stepbench.contracts.thresholds import Quantile

EVIL = "</script><img src=x onerror=\"document.title='pwned'\">&amp;"
ALLOWED_ADDRESSES = re.compile(
    r"https?://(www\.w3\.org/(2000/svg|1999/xlink|2000/xmlns/)"  # namespaces
    r"|vega\.github\.io/(schema/|editor/)"  # names of schemas; the editor's menu entry is switched off
    r"|github\.com/vega/vega-lite/issues/)"  # text of a warning
)


class Elements(HTMLParser):
    """The elements that a browser would find, with their attributes, and the text of each script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.found.append((tag, dict(attrs)))
        self._in_script = tag == "script"
        if self._in_script:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        """Note the end of a script."""
        self._in_script = self._in_script and tag != "script"

    def handle_data(self, data: str) -> None:
        """Collect the text of a script."""
        if self._in_script:
            self.scripts[-1] += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of all elements of a kind."""
        return [attributes for name, attributes in self.found if name == tag]


def without_script_bodies(page: str) -> str:
    """Return the page less nine tenths of its bytes."""
    return re.sub(r"(<script[^>]*>).*?(</script>)", r"\1\2", page, flags=re.DOTALL)


def test_the_plans_description_stands_below_its_title(results: tuple[TrialResult, ...]) -> None:
    """It says what the numbers are for; it is its author's text, whatever it holds."""
    manifest = sample_manifest()
    summary = sample_summary(results).model_copy(update={"description": f"Why so slow? {EVIL}"})
    page = without_script_bodies(render_page(summary, results, manifest))
    assert '<p class="description">Why so slow? &lt;/script&gt;' in page
    assert EVIL not in page
    assert 'class="description"' not in render_page(sample_summary(results), results, manifest, {"name": "a plan"})


def test_the_floor_is_explained_only_where_one_was_measured(results: tuple[TrialResult, ...]) -> None:
    """Without floors, as on AWS, "measured in the same run" would be untrue."""
    without = tuple(changed(result, floor_ms=None) for result in results)
    assert "measured in the same run" in sample_page(results)
    assert "measured in the same run" not in sample_page(without)


def test_the_page_is_small_enough_to_mail(page: str, elastic: tuple[TrialResult, ...]) -> None:
    """Target: 1.5 MB, of which the runtime is 0.9; bins of 100 ms, of two elastic trials, are summed before."""
    assert len(page.encode()) < 1_500_000
    assert len(sample_page(elastic).encode()) < 1_300_000


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
    policy = present(next(each["content"] for each in elements.all("meta") if "http-equiv" in each))
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
    """Read a raw value off the cell of a metric, in the row whose tag begins so."""
    cells = page.split(f"<tr {row}")[1].split("</tr>", maxsplit=1)[0]
    found = re.search(rf'<td[^>]*data-metric="{re.escape(metric)}"[^>]*?data-{name}="([^"]*)"', cells)
    return found[1] if found else None


def test_cells_carry_the_raw_numbers(page: str, summary: RunSummary) -> None:
    """Scripts read the page as exactly as they would read summary.json."""
    p50 = summary.trials[1].windows[0].latency_ms.p50
    row = 'data-trial="1" data-name="dynamodb"'
    found = [attribute(page, "latency_ms.p50", name, row) for name in ("value", "low", "high", "unit")]
    assert found == [str(p50.value), str(p50.low), str(p50.high), "ms"]
    assert attribute(page, "latency_ms.p99", "reason", row) == "&gt; drain limit (120 s)"
    assert attribute(page, "latency_ms.p99", "reason", 'data-trial="0"') == "n=200 &lt; 368"
    assert attribute(page, "lost", "value", row) == "3"


def test_tables_are_tables(page: str) -> None:
    """A screen reader announces caption, row and column; a table without them is a heap of numbers."""
    tables = re.findall(r"<table.*?</table>", without_script_bodies(page), flags=re.DOTALL)
    assert len(tables) == 7
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


@pytest.mark.parametrize("name", ["page", "experiments_page"])
def test_ids_are_unique_and_links_lead_somewhere(name: str, request: pytest.FixtureRequest) -> None:
    """Caveat links beside the numbers lead to their remedies; the second page has every section there is."""
    elements = Elements(request.getfixturevalue(name))
    identifiers = [each["id"] for _, each in elements.found if each.get("id")]
    assert len(set(identifiers)) == len(identifiers)
    assert {str(each["href"])[1:] for each in elements.all("a")} <= set(identifiers)
    assert {str(each["aria-labelledby"]) for _, each in elements.found if each.get("aria-labelledby")} <= set(
        identifiers
    )


def test_problems_stand_before_the_answer(page: str) -> None:
    """Who reads only the first lines must not miss that a trial ended early."""
    problems, answer = page.index('id="problems"'), page.index('id="answer"')
    assert problems < page.index("WriterMissing") < answer
    assert "1 of 4 trials did not complete" in page


def test_a_missed_threshold_is_told_under_the_title_with_its_errors_in_the_accounting(
    results: tuple[TrialResult, ...],
) -> None:
    """The status is green then, and must not be all that is seen."""
    body = without_script_bodies(sample_page([refused_result(results[2], {"57P01": 12, "timeout": 3}, unknown=3)]))
    head, rest = body.split("</header>")
    assert 'data-verdict="failed"' in head
    assert "Threshold missed: errors &lt; 1 %: 7.0 % in postgresql." in head
    accounting = rest.split('<section id="accounting"')[1].split("</section>")[0]
    assert "12 failed, 3 unknown of 215 sent" in accounting
    rows = re.findall(
        r'<tr data-error="(.+?)">.+?data-value="(\d+)".+?<td class="number">(.+?)</td></tr>', accounting, re.DOTALL
    )
    assert rows == [("57P01", "12", "5.6 %"), ("timeout", "3", "1.4 %")]


def test_thresholds_that_are_kept_are_one_folded_sentence(page: str) -> None:
    """Nobody who has no question about them reads a table of what is well; a trial failed, so not all was kept to."""
    section = without_script_bodies(page).split('<section id="thresholds"')[1].split("</section>")[0]
    before, folded = section.split("<details>")
    assert "<table" not in before
    assert "Kept: errors &lt; 1 % (closest: 0.0 % in s3)." in folded
    assert len(re.findall('data-state="passed"', folded)) == 4


def test_open_thresholds_are_told_with_their_interval_and_what_they_take(results: tuple[TrialResult, ...]) -> None:
    """The reader sees how far from the limit it is, and how much longer to run; raw numbers are in the attributes."""
    thresholds = [parse_threshold(text) for text in ("p50 < 2 ms", "p99 < 900 ms", "max < 1 s")]
    found = summarise(sample_facts(), results[:1], thresholds)
    body = without_script_bodies(render_page(found, results[:1], sample_manifest()))
    section = body.split('<section id="thresholds"')[1].split("</section>")[0]
    states = re.findall(r'<tr data-threshold="(.+?)" data-state="(.+?)" data-trial="0"', section)
    assert states == [("p50 &lt; 2 ms", "failed"), ("p99 &lt; 900 ms", "undecidable"), ("max &lt; 1 s", "passed")]
    assert "needs a run about 1.8 × longer" in section  # noqa: RUF001 -- 368 of 200
    p50 = results[0].summary.windows[0].latency_ms.p50
    assert f'data-value="{p50.value}" data-low="{p50.low}" data-high="{p50.high}" data-unit="ms"' in section


@pytest.mark.parametrize(
    ("texts", "state", "told"),
    [
        (["p50 < 2 ms"], "missed", "Threshold missed: p50 &lt; 2 ms: "),
        (["p99 < 900 ms"], "undecided", "Threshold not decided: p99 &lt; 900 ms: "),
        (["max < 1 s"], "kept", "The run kept to all of its thresholds: max &lt; 1 s (closest: "),
        ([*DEFAULTS], "", ""),
    ],
)
def test_what_became_of_a_plans_own_thresholds_is_on_the_first_screen(
    texts: list[str], state: str, told: str, results: tuple[TrialResult, ...]
) -> None:
    """Whether p99 keeps to its limit may be all that a plan asks; of the default one only a miss is told."""
    found = summarise(sample_facts(), results[:1], [parse_threshold(text) for text in texts])
    head = without_script_bodies(render_page(found, results[:1], sample_manifest())).split("<table")[0]
    assert re.findall(r'<p class="notice (\w+)">', head) == ([state] if state else [])
    assert told in head


def test_a_run_of_which_a_trial_failed_has_not_kept_to_all(results: tuple[TrialResult, ...]) -> None:
    """What was not measured may have missed them."""
    broken = changed(results[1], incomplete=True)
    found = summarise(sample_facts(), (results[0], broken), [parse_threshold("max < 1 s")])
    page = without_script_bodies(render_page(found, (results[0], broken), sample_manifest()))
    assert 'class="notice kept"' not in page
    assert "kept to all of its thresholds" not in page


def test_a_run_without_thresholds_has_no_section_for_them(results: tuple[TrialResult, ...]) -> None:
    """Its plan said so."""
    page = render_page(summarise(sample_facts(), results), results, sample_manifest())
    assert "thresholds" not in without_script_bodies(page)


def test_without_errors_there_is_no_table_of_them(page: str) -> None:
    """A heading over nothing is one more thing to read."""
    body = without_script_bodies(page)
    assert 'id="errors"' not in body
    assert "hreshold missed" not in body


def test_emulated_stores_are_labelled_wherever_their_numbers_are(page: str) -> None:
    """A latency of an emulator quoted as AWS's would be worse than none."""
    body = without_script_bodies(page)
    for section in ("answer", "thresholds", "time", "times", "invocations"):
        assert 'badge emulated">emulated' in body.split(f'<section id="{section}"')[1].split("</section>")[0]


def hostile(result: TrialResult) -> TrialResult:
    """Return the result with markup in every text that comes from outside."""
    caveat = Caveat(kind="skipped", text=EVIL, remedy=EVIL)
    counts = {"sent": 2, "failed": 1, "errors": {EVIL: 1}}
    window = result.summary.windows[0].model_copy(update={"name": EVIL, "phase": EVIL, **counts})
    functions = tuple(each.model_copy(update={"function": EVIL}) for each in result.summary.invocations)
    clock = result.summary.clock.model_copy(update={"text": EVIL})
    named = changed(result, **dict.fromkeys(("name", "store", "provider"), EVIL), clock=clock, invocations=functions)
    made = changed(named, failure=Failure(error=EVIL, cause=EVIL), caveats=(caveat,), windows=(window,))
    curve = result.ecdf[0].model_copy(update={"window": EVIL, "phase": EVIL})
    phase = result.phases[0].model_copy(update={"name": EVIL})
    series = tuple(each.model_copy(update={"phase": EVIL}) for each in result.series)
    return made.model_copy(update={"ecdf": (curve,), "phases": (phase,), "series": series})


def test_no_text_from_outside_becomes_markup(results: tuple[TrialResult, ...]) -> None:
    """Plans come by API from other teams, errors from anywhere: any of it may hold markup."""
    made = [hostile(result) for result in results]
    summary = sample_summary(made).model_copy(update={"plan": EVIL, "run_id": EVIL})
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


def test_a_run_in_which_all_failed_still_makes_a_helpful_page() -> None:
    """It is then that the report is needed most: what failed, why, and what to do."""
    failure = Failure(error="TargetUnavailableError", cause="etcd does not answer at 127.0.0.1:2379")
    missing = [missing_result("etcd", 0, TrialStore("etcd", "not reached", emulated=False), failure, 0.01)]
    page = sample_page(missing)
    assert "1 of 1 trial did not complete" in page
    assert "etcd does not answer at 127.0.0.1:2379" in page
    assert "No trial measured anything" in page
    assert "No events, no distribution." in page
    assert "<summary>The plan</summary>" not in page


def test_a_run_without_trials_says_how_to_find_out_why() -> None:
    """A refused plan leaves no trial; an empty page would leave its author alone."""
    page = render_page(sample_summary([]), [], sample_manifest())
    assert "Nothing ran" in page
    assert "stepbench validate PLAN" in page


def test_a_stopped_run_says_so(results: tuple[TrialResult, ...]) -> None:
    """Numbers of a run that was cut short must not pass for whole ones."""
    summary = sample_summary(results[2:3]).model_copy(update={"status": "stopped"})
    page = render_page(summary, results[2:3], sample_manifest())
    assert "The run was stopped before its end." in page


@pytest.mark.parametrize("actual", [None, 0.5])
def test_an_unknown_cost_is_no_zero(actual: float | None, results: tuple[TrialResult, ...]) -> None:
    """Printing "$0.00" for "nobody knows" would be a lie that somebody budgets by."""
    cost = results[0].summary.cost_usd.model_copy(update={"actual": actual})
    made = changed(results[0], cost_usd=cost)
    page = sample_page([made])
    total = page.split("<tfoot>")[1].split("</tfoot>")[0]
    assert total.count("$0.50") == (actual is not None)
    assert total.count("–") == (actual is None)  # noqa: RUF001 -- an en dash for "none"


def section(page: str, name: str) -> str:
    """Return one section's markup."""
    return without_script_bodies(page).split(f'<section id="{name}"')[1].split("</section>")[0]


def row(page: str, table: str, marks: str) -> str:
    """Return the row of a table whose tag begins so."""
    return section_of_table(page, table).split(f"<tr {marks}")[1].split("</tr>")[0]


def section_of_table(page: str, table: str) -> str:
    """Return a table's markup."""
    return without_script_bodies(page).split(f'id="{table}">')[1].split("</table>")[0]


def test_a_latency_that_nobody_measured_is_no_empty_chart(results: tuple[TrialResult, ...]) -> None:
    """It is said why, and the rates are drawn."""
    first, *others = results
    lost = tuple(each.model_copy(update=dict.fromkeys(("p50_ms", "p90_ms", "max_ms"))) for each in first.series)
    told = first.model_copy(update={"series": lost})
    page = render_page(sample_summary((told, *others)), (told, *others), sample_manifest())
    assert 'id="latency-trial-0"' not in page
    assert '"latency-trial-0"' not in page
    assert 'id="rates-trial-0"' in page
    assert "No second has a trigger latency to draw: nothing arrived." in page


@pytest.mark.parametrize("name", ["published", "steps", "repeats"])
def test_sections_without_results_do_not_appear(name: str, page: str, experiments_page: str) -> None:
    """Their entries in the navigation do not either: the quick plan has nothing of the kind."""
    assert f'<section id="{name}"' not in page
    assert f'href="#{name}"' not in page
    assert f'<section id="{name}"' in experiments_page
    assert f'href="#{name}"' in experiments_page


@pytest.mark.parametrize("name", ["replication", "boxes", "modes", "comparisons", "changes", "groups"])
def test_tables_without_results_do_not_appear(name: str, page: str, experiments_page: str) -> None:
    """Boxes and modes stand in a section that is always there."""
    assert f'id="{name}"' not in page
    assert f'id="{name}"' in experiments_page


@pytest.mark.parametrize(("kind", "least"), [("Table ", 1), ("Table S", 3), ("Figure ", 3), ("Figure S", 2)])
def test_tables_and_figures_are_numbered_through(experiments_page: str, kind: str, least: int) -> None:
    """A gap in the numbers would look like something missing: what is folded has its own."""
    body = without_script_bodies(experiments_page)
    numbers = [int(number) for number in re.findall(rf"<b>{kind}(\d+)\.</b>", body)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= least


def test_what_is_folded_is_numbered_apart(experiments_page: str) -> None:
    """So the first table that one sees is Table 1, whatever folded ones stand before it."""
    depth = 0
    for found in re.finditer(
        r"<(/?)details|<b>(?:Table|Figure) (S?)\d+\.</b>", without_script_bodies(experiments_page)
    ):
        if found[0].endswith("details"):
            depth += -1 if found[1] else 1
        else:
            assert bool(found[2]) == (depth > 0), found[0]


def test_what_the_step_did_stands_before_its_table(experiments_page: str) -> None:
    """A person understands the sentence first."""
    steps = section(experiments_page, "steps")
    sentence = "After the step from 50/s to 100/s the median was 15 % higher [10 to 19 %], "
    assert steps.index(sentence) < steps.index('id="comparisons"')


def test_comparisons_carry_their_raw_numbers(experiments_page: str, elastic: tuple[TrialResult, ...]) -> None:
    """Scripts read them with the unit: a ratio is no latency."""
    (comparison,) = elastic[0].summary.comparisons
    cells = row(experiments_page, "comparisons", 'data-trial="0" data-a="before" data-b="after"')
    for name, unit in (
        ("median_shift_ms", "ms"),
        ("median_ratio", "ratio"),
        ("iqr_ratio", "ratio"),
        ("tail_ratio", "ratio"),
    ):
        each = getattr(comparison, name)
        raw = f'data-value="{each.value}" data-low="{each.low}" data-high="{each.high}" data-unit="{unit}"'
        assert f'data-metric="{name}" {raw}' in cells


def test_change_points_and_modes_are_told_in_words(experiments_page: str) -> None:
    """No reader should have to know what a p-value of 0.4 means."""
    changed = row(experiments_page, "changes", 'data-trial="1" data-phase="step" data-series="latency_ms"')
    assert "No change seen (p = 0.4)" in changed
    assert 'data-value="0.4"' in changed
    modes = row(experiments_page, "modes", 'data-trial="1" data-window="before" data-phase="step" data-modes="2"')
    assert "2 modes, near 9.40 ms and 37.6 ms (p = 0.002 for one)" in modes


def test_the_gap_at_the_step_is_told_and_marked_when_events_were_due(experiments_page: str) -> None:
    """It is the claim that the experiment stands on."""
    steps = section(experiments_page, "steps")
    assert "No send gap of 100 ms or more within 5 s of the step at 40 s." in steps
    assert 'class="gap bad" data-metric="step_gap" data-step="40.0"' in steps
    assert 'data-bins="3" data-due="30"' in steps


def test_boxes_say_what_cannot_be_drawn(experiments_page: str) -> None:
    """3 % of the second store's events are lost after the step: p99 is beyond the drain limit."""
    assert "Of s3-elastic · after, p99 lies beyond the drain limit" in section(experiments_page, "distribution")
    cells = row(experiments_page, "boxes", 'data-trial="1" data-window="after" data-phase="step"')
    assert re.search(r'data-metric="box\.p99" data-unit="ms">&gt; drain limit', cells)


def test_no_emulated_number_stands_beside_a_published_one_unmarked(
    experiments_page: str, elastic: tuple[TrialResult, ...]
) -> None:
    """Wherever a ratio to a published number is shown, it is said whose number ours is."""
    published = section(experiments_page, "published")
    assert "with AWS emulated. No ratio below replicates a number of AWS&#39;s" in published
    rows = re.findall(r"<tr data-trial.*?</tr>", published, flags=re.DOTALL)
    assert [("not-aws" in each, 'data-emulated="true"' in each, "badge emulated" in each) for each in rows] == [
        (True, False, False), (True, False, False), (True, True, True), (True, True, True),
    ]  # fmt: skip
    on_aws = sample_manifest().model_copy(update={"emulated": False})
    published = section(render_page(sample_summary(elastic), elastic, on_aws), "published")
    assert "with AWS emulated" not in published
    assert published.count('class="not-aws"') == 2


def test_groups_show_their_runs_and_range(experiments_page: str) -> None:
    """Three runs of a point are one row; a range is not set in an interval's brackets."""
    cells = row(
        experiments_page, "groups", 'data-group="postgresql-10" data-phase="steady" data-window="steady" data-runs="3"'
    )
    assert "batch_size = 10" in cells
    found = re.search(
        r'data-metric="over_runs.p50" data-value="([\d.]+)".+? data-least="([\d.]+)" data-greatest="([\d.]+)"', cells
    )
    assert found is not None
    middle, least, greatest = map(float, found.groups())
    assert least < middle < greatest
    assert re.search(r"runs [\d.]+ to [\d.]+", cells)
    assert "[" in row(
        experiments_page,
        "groups",
        'data-group="dynamodb-100-10" data-phase="steady" data-window="steady" data-runs="1"',
    )


def test_runs_that_measured_nothing_are_named_below_the_groups(experiments: tuple[TrialResult, ...]) -> None:
    """A failed run must not make the others look complete."""
    made = (changed(experiments[2], windows=(), incomplete=True), *experiments[3:11])
    body = section(sample_page(made), "answer")
    assert "since they measured nothing: postgresql-1-r1." in body


def test_repeats_alone_are_a_table_without_figures(experiments: tuple[TrialResult, ...]) -> None:
    """Nothing varies, so there is nothing to draw against."""
    made = [changed(result, point={}, group="etcd") for result in experiments[2:5]]
    body = section(sample_page(made), "answer")
    assert 'class="chart"' not in body
    assert body.count("<tr data-group") == 1


def test_of_many_windows_the_table_comes_first_and_their_sentences_are_folded(
    experiments: tuple[TrialResult, ...],
) -> None:
    """A matrix of a hundred has more than anyone reads."""
    made = [changed(experiments[0], index=n, name=f"t{n}", group=f"t{n}", point={}) for n in range(10)]
    body = section(sample_page(made), "answer")
    windows = sum(len(result.summary.windows) for result in made)
    table, sentences = body.split("<summary>Each in a sentence</summary>")
    assert table.count("<tr data-trial") == sentences.count("<li><strong>") == windows
    assert f"<summary>The others in sentences ({windows - 4})</summary>" in sentences


def test_no_text_of_an_experiment_becomes_markup(experiments: tuple[TrialResult, ...]) -> None:
    """Sources, settings and groups come with the plan, and plans from other teams."""
    hostile = []
    for result in experiments:
        summary = result.summary
        told = tuple(each.model_copy(update={"source": EVIL}) for each in summary.replication)
        modes = tuple(each.model_copy(update={"p_value": None, "reason": EVIL}) for each in summary.modality)
        point = {EVIL: next(iter(summary.point.values())), "b." + EVIL: EVIL} if summary.point else {}
        hostile.append(changed(result, group=EVIL, point=point, replication=told, modality=modes, name=EVIL))
    page = sample_page(hostile)
    assert Elements(page).all("img") == []
    assert len(Elements(page).all("script")) == 3
    assert "<img" not in page.replace(javascript(), "")


def test_event_times_stand_in_the_table_of_all_times_where_the_store_tells_them(
    results: tuple[TrialResult, ...],
) -> None:
    """With t3's resolution beside them: rounded down to a second, a part may be negative."""
    told = next(result for result in results if result.summary.store == "s3")
    table = section(sample_page((told,)), "times")
    assert "t3 is given to 1 ms" in table
    assert "t4 − t3" in table  # noqa: RUF001 -- a minus sign
    windows = tuple(
        window.model_copy(update={"event_resolution_ms": None, "to_event_ms": None, "from_event_ms": None})
        for window in told.summary.windows
    )
    untold = section(sample_page((changed(told, windows=windows),)), "times")
    assert "t3" not in untold


def test_repeats_have_one_sentence() -> None:
    """Six of them would hide what they say; the range tells how far runs lie apart."""
    run = sample_summary(sample_results()).model_copy(update={"trials": tuple(matrix("writers", {1: [1.0, 2.0, 1.5]}))})
    ((label, _, text),) = answers(run, groups(run.trials))
    assert label == "etcd.1"
    arrived = f"all {3 * window(estimate(1)).n} events arrived."
    assert text.startswith("Median 1.4 ms (0.6 to 3.4; runs 1.00 to 2.00), p90 2.9 ms (1.2 to 6.9; runs 2.00 to ")
    assert text.endswith(arrived)


@pytest.mark.parametrize(("judge", "begins"), [("p50", "Median 1.4 ms"), ("p90", "p90 2.9 ms"), ("p99", "p99")])
def test_repeats_have_the_median_whatever_they_are_judged_by(judge: Quantile, begins: str) -> None:
    """By the median no other sentence stands before it; what does is not said twice."""
    run = sample_summary(sample_results()).model_copy(update={"trials": tuple(matrix("writers", {1: [1.0, 2.0, 1.5]}))})
    (group,) = (each for each in groups(run.trials) if each.repeated)
    text = describe_group(group, Judge(statistic=judge))
    assert text.startswith(begins)
    assert "edian 1.4 ms" in text
    assert text.count(judge) == (judge != "p50")


def test_a_trial_without_repeats_has_its_own() -> None:
    """With its own interval."""
    run = sample_summary(sample_results()).model_copy(update={"trials": (trial("etcd", window(estimate(1))),)})
    ((_, _, text),) = answers(run, groups(run.trials))
    assert text.startswith("Median 1.000 ms (0.980 to 1.020)")

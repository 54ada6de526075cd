"""What the page says of operations, in a real browser. Loading takes long, so all tests read one page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.browser.conftest import raw
from tests.browser.test_report import CONTRAST
from tests.samples.estimates import present
from tests.samples.operations import LADDER, operation_results, over_trials, planned_results
from tests.samples.results import changed, numbered, replication, sample_manifest, sample_summary

from stepbench.contracts.measures import Estimate
from stepbench.experiments.report.page import render_page
from stepbench.planning import find_plan, parse_plan
from stepbench.planning.expansion import expand

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.conftest import Opened, Pages

    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.result import RunSummary, TrialResult

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def summary() -> RunSummary:
    """Summarise stores, reuse, TLS and two ladders of clients."""
    return over_trials(sample_summary(operation_results(), "quick-products"))


@pytest.fixture(scope="module")
def seen(summary: RunSummary, pages: Pages, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """Open their report once."""
    path = tmp_path_factory.mktemp("operations") / "report.html"
    path.write_text(render_page(summary, operation_results(), sample_manifest()), "utf-8")
    return pages.look(path)


def test_all_figures_are_drawn_in_silence(seen: Opened) -> None:
    """An empty data set (no knee, no limit) would make Vega complain of infinite axes."""
    assert seen.console == []
    places = seen.page.locator(".chart").count()
    assert seen.page.locator(".chart svg.marks").count() == places
    assert seen.page.locator("#scaling-0 svg.marks, #scaling-1 svg.marks, #percentiles-0 svg.marks").count() == 3


@pytest.mark.nightly("browser")
def test_the_answer_is_about_operations(seen: Opened, summary: RunSummary) -> None:
    """Nothing on this page is a trigger, and nothing was lost or has a floor."""
    window = summary.trials[0].windows[0]
    assert seen.page.locator("#answer-title").inner_text() == "How fast is the store?"
    shown = seen.page.locator("main").inner_text()
    assert "rigger latency" not in shown, shown[max(0, shown.find("rigger latency") - 200) :][:400]
    row = seen.page.locator("#operations-headline tr[data-trial='0']")
    p50 = window.latency_ms.p50
    assert raw(row.locator("[data-metric='latency_ms.p50']"), "value", "low", "high") == [p50.value, p50.low, p50.high]
    assert row.locator("[data-metric='throughput_per_s']").inner_text() == "1,450 ops/s"
    read = present(re.match(r"([\d.]+)", row.locator("[data-metric='latency_ms.p50'] .value").inner_text()))
    assert float(read[1]) == pytest.approx(p50.value, rel=1e-3)


@pytest.mark.nightly("browser")
def test_kinds_have_their_outcomes_and_percentiles_their_counts(seen: Opened, summary: RunSummary) -> None:
    """Three reads of the second trial failed; the table of percentiles says how many took at most so long."""
    table = seen.page.locator("#kinds tbody[data-trial='1']")
    assert table.locator("tr[data-kind='read'] [data-metric='failed']").inner_text() == "3"
    assert "not_found: 3" in table.inner_text()
    found = present(summary.trials[1].windows[0].operations)
    cells = seen.page.locator("#percentile-table tbody[data-trial='1'] tr[data-kind='all'] td").all()
    assert [raw(cell, "value", "count") for cell in cells] == [[row.value_ms, row.count] for row in found.percentiles]


@pytest.mark.nightly("browser")
def test_each_nine_takes_the_same_room(seen: Opened) -> None:
    """Read off the pixels: from 90 % to 99 % it is as far as from 99 % to 99.9 %."""
    labels = seen.page.locator("#percentiles-0 .mark-text.role-axis-label text").all()
    at = {label.text_content(): box["x"] + box["width"] / 2 for label in labels if (box := label.bounding_box())}
    assert at["99.9 %"] - at["99 %"] == pytest.approx(at["99 %"] - at["90 %"], rel=0.02)


@pytest.mark.nightly("browser")
def test_the_parts_of_a_connection_sum_to_the_whole(seen: Opened) -> None:
    """They do so within the 1 % that the caption of the rows tells."""
    shares = seen.page.locator("#connecting [data-metric='share']").all()
    assert sum(raw(cell, "value")[0] for cell in shares) == pytest.approx(0.99, abs=0.001)
    assert "1.0 % in none of the parts" in seen.page.locator("#connecting").inner_text()


@pytest.mark.nightly("browser")
def test_scaling_shows_the_knee_and_the_generators_limit(seen: Opened, summary: RunSummary) -> None:
    """A point a number of clients, the knee by name in one figure, the limit as a line in the other."""
    knee = present(summary.scaling[0].knee_clients.value)
    for place in (0, 1):
        points = seen.page.locator(f"#scaling-{place} .mark-symbol.role-mark:not(.touch_marks) path")
        assert points.count() == len(LADDER)
    assert f"knee: {knee:.0f} clients" in (seen.page.locator("#scaling-0 svg.marks").text_content() or "")
    assert "knee" not in (seen.page.locator("#scaling-1 svg.marks").text_content() or "")
    assert seen.page.locator("#scaling-1 .mark-rule.role-mark line[stroke-dasharray]").count() == 1
    cell = seen.page.locator("#scaling-table tr").nth(1).locator("[data-metric='knee_clients']")
    assert raw(cell, "value") == [knee]


@pytest.mark.nightly("browser")
def test_a_verdict_stands_in_a_sentence_and_with_its_numbers_below(seen: Opened, summary: RunSummary) -> None:
    """TLS with three runs each; the table has what the sentence is made of."""
    verdict = next(each for each in summary.verdicts if each.aspect == "target.tls" and each.kind is None)
    shown = seen.page.locator(".verdicts li[data-aspect='target.tls']").first.inner_text()
    assert all(part in shown for part in verdict.text.split(": ", maxsplit=1))
    seen.page.locator("details:has(#verdicts)").evaluate("fold => fold.open = true")
    cell = seen.page.locator("#verdicts tr[data-aspect='target.tls']").first.locator("[data-metric='p50.ratio']")
    ratio = present(present(verdict.effect("p50")).ratio)
    assert raw(cell, "value", "low", "high") == [ratio.value, ratio.low, ratio.high]


@pytest.mark.nightly("browser")
def test_published_numbers_have_one_reading(seen: Opened) -> None:
    """Ours and its ratio, and no column for an acknowledgement."""
    assert seen.page.locator("#replication thead th").count() == 5
    assert seen.page.locator("#replication [data-metric='ours_after_ack']").count() == 0


@pytest.mark.nightly("browser")
def test_each_work_has_a_figure_and_published_percentiles_stand_below_ours(pages: Pages, tmp_path: Path) -> None:
    """Seed 5's reads: one, ten and a hundred clients, and ten that pause, on two stores with and without TLS."""
    specs = [spec for spec in expand(parse_plan(find_plan("paper-products")), "run") if "-read-" in spec.name]
    results = numbered([_scored(spec, result) for spec, result in zip(specs, planned_results(specs), strict=True)])
    path = tmp_path / "report.html"
    path.write_text(render_page(over_trials(sample_summary(results)), results, sample_manifest()), "utf-8")
    page = pages.look(path, width=390).page
    captions = page.locator("figure:has([id^='percentiles-']) figcaption").all_inner_texts()
    works = ["read, 1 client", "read, 10 clients", "read, 100 clients", "read, 10 clients that pause for 370 ms"]
    assert [re.findall(r"by percentile of (.+?)\. Each", each) for each in captions] == [[work] for work in works]
    assert page.locator("[id^='percentiles-'] svg.marks").count() == len(works)
    cells = page.locator("#percentile-table tr[data-kind='published'] [data-percentile='99.21875']")
    assert cells.evaluate_all("cells => cells.map(cell => Number(cell.dataset.count))") == [
        *(25_859, 221_233, 557_294, 88_320, 867_687, 2_024_460, 4_701, 4_782)
    ]
    assert cells.first.inner_text().split() == ["3.97", "ms", "25,859"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def _scored(spec: TrialSpec, result: TrialResult) -> TrialResult:
    """Set the published percentiles beside made-up ones."""
    (window,) = result.summary.windows
    ours = Estimate(value=1.0, low=0.9, high=1.1)
    scores = tuple(
        replication(window, each.number, each.source).model_copy(
            update={"metric": each.metric, "published_count": each.count, "count": 1, "ours": ours}
        )
        for each in spec.offered.published
        if each.count
    )
    return changed(result, replication=scores)


@pytest.mark.nightly("browser")
def test_text_can_be_read_and_nothing_sticks_out_on_a_phone(seen: Opened) -> None:
    """WCAG 2.2, 1.4.3; then 390 px, without another load. Last, since it changes the page's width."""
    assert seen.page.evaluate(CONTRAST) == []
    seen.page.set_viewport_size({"width": 390, "height": 844})
    seen.page.wait_for_function("document.documentElement.dataset.charts === 'drawn'")
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390

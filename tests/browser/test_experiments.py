"""The sections on steps, published numbers and matrices, in a real browser."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import pytest
from tests.browser.pages import LIMIT_MS
from tests.browser.test_report import CONTRAST

from stepbench.analysis.share import trigger_shares
from stepbench.report.page import render_page
from stepbench.report.summary import RunFacts, summarise
from stepbench.testing.sample_experiments import elastic_results, matrix_results, sample_applications
from stepbench.testing.sample_results import sample_manifest

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator
    from tests.browser.pages import Pages

    from stepbench.contracts.result import TrialResult

pytestmark = pytest.mark.browser
SIZES = [{"target.batch_size": size} for size in (1, 10, 100)]
GRID = [
    {"record.value_bytes": size, "phases[0].load[0].rate_per_s": rate}
    for size in (100, 1000)
    for rate in (10, 100, 1000)
]
FIGURES = 1 + 1 + 1 + 2 * 3 + 2 + 2 * 2
"""Curves, boxes, shares; latency, rates and a close-up of two phases; two matrices; two trials over time."""


@pytest.fixture(scope="module")
def results() -> tuple[TrialResult, ...]:
    """Two elastic trials, a matrix of one dimension with repeats, one of two."""
    found = [*elastic_results(), *matrix_results(SIZES, repeats=2), *matrix_results(GRID, store="dynamodb")]
    return tuple(
        result.model_copy(update={"summary": result.summary.model_copy(update={"index": index})})
        for index, result in enumerate(found)
    )


@pytest.fixture(scope="module")
def page_file(results: tuple[TrialResult, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Their report."""
    begin = datetime(2025, 6, 1, 12, 0, tzinfo=UTC)
    facts = RunFacts(run_id="run-2", plan="quick-elastic", started_at=begin, finished_at=begin)
    path = tmp_path_factory.mktemp("experiments") / "report.html"
    summary = summarise(facts, results)
    shares = tuple(trigger_shares(sample_applications(), summary.trials[:2]))
    summary = summary.model_copy(update={"shares": shares})
    path.write_text(render_page(summary, results, sample_manifest()), "utf-8")
    return path


def numbers(cell: Locator) -> list[float]:
    """Value and interval, as a script reads them."""
    return [float(str(cell.get_attribute(f"data-{name}"))) for name in ("value", "low", "high")]


def test_all_figures_are_drawn_in_silence(pages: Pages, page_file: Path) -> None:
    """Vega warns on the console about what it cannot draw."""
    seen = pages.look(page_file)
    assert seen.console == []
    assert seen.requests == [page_file.as_uri()]
    assert seen.page.locator(".chart svg.marks").count() == FIGURES


def test_comparisons_on_the_page_are_those_of_the_result(
    pages: Pages, page_file: Path, results: tuple[TrialResult, ...]
) -> None:
    """As a script reads them, and as a reader does."""
    (comparison,) = results[0].summary.comparisons
    seen = pages.look(page_file)
    cell = seen.page.locator("#comparisons tr[data-trial='0'] [data-metric='median_ratio']")
    ratio = comparison.median_ratio
    assert numbers(cell) == [ratio.value, ratio.low, ratio.high]
    read = re.match(r"([\d.]+)\s×", cell.inner_text())  # noqa: RUF001 -- a multiplication sign
    assert read is not None
    assert float(read[1]) == pytest.approx(ratio.value, rel=0.001)
    sentence = seen.page.locator("#steps .sentences li").first.inner_text()
    said = re.search(r"the median was ([\d.]+) times as high", sentence)
    assert said is not None
    assert float(said[1]) == pytest.approx(ratio.value, abs=0.005)


def test_boxes_lie_where_their_quantiles_are(pages: Pages, page_file: Path, results: tuple[TrialResult, ...]) -> None:
    """Read off the pixels: on a log axis, all boxes share one scale of pixels per decade."""
    boxes = [box for result in results for box in result.boxes]
    seen = pages.look(page_file)
    marks = seen.page.locator("#boxes-0 .mark-rect.role-mark").first.locator("path").all()
    found = [re.search(r"h([\d.]+)", str(mark.get_attribute("d"))) for mark in marks]
    assert len(found) == len(boxes)
    scales = []
    for box, drawn in zip(boxes, found, strict=True):
        assert drawn is not None
        assert box.p25 is not None
        assert box.p75 is not None
        scales.append(float(drawn[1]) / math.log10(box.p75 / box.p25))
    assert max(scales) == pytest.approx(min(scales), rel=0.001)


def test_an_open_end_is_dashed_and_has_an_arrow(pages: Pages, page_file: Path) -> None:
    """One of four boxes has its p99 beyond the drain limit."""
    seen = pages.look(page_file)
    figure = seen.page.locator("#boxes-0")
    dashed = figure.locator(".mark-rule.role-mark line[stroke-dasharray]")
    arrows = figure.locator(".mark-symbol.role-mark path")
    assert (dashed.count(), arrows.count()) == (1, 1)
    assert "p99 lies beyond the drain limit" in seen.page.locator(".doubt").inner_text()


def test_windows_and_steps_are_marked_by_name(pages: Pages, page_file: Path) -> None:
    """What is compared has to be seen in the time line."""
    seen = pages.look(page_file)
    for chart in ("step-latency", "step-rates"):
        texts = seen.page.locator(f"#{chart}-trial-0-0 .mark-text.role-mark text").all_text_contents()
        assert texts == ["50/s", "100/s", "before", "after"]
    gaps = seen.page.locator("[data-metric='step_gap']").all()
    assert [gap.get_attribute("data-bins") for gap in gaps] == ["0", "3"]


def test_a_gap_shows_in_the_close_up_and_its_number_on_hovering(pages: Pages, page_file: Path) -> None:
    """Bars without height: three bins of the second trial; the fourth has what was late."""
    seen = pages.look(page_file)
    strip = seen.page.locator("#step-strip-trial-1-0-0")
    bars = strip.locator(".mark-rect.role-mark").first.locator("path").all()
    heights = [re.search(r"v([\d.]+)", str(bar.get_attribute("d"))) for bar in bars]
    empty = [place for place, found in enumerate(heights) if found is None or float(found[1]) == 0]
    assert empty == [50, 51, 52]
    strip.scroll_into_view_if_needed()
    strip.locator(".mark-rect.role-mark").last.locator("path").nth(53).hover(force=True)
    tooltip = seen.page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for(timeout=LIMIT_MS)
    assert re.search(r"sent\s*40", tooltip.inner_text())


def test_a_heat_map_writes_its_numbers_on_its_tiles(
    pages: Pages, page_file: Path, results: tuple[TrialResult, ...]
) -> None:
    """Colour alone would say nothing to some, and little to all."""
    medians = [result.summary.windows[0].latency_ms.p50.value for result in results[-len(GRID) :]]
    seen = pages.look(page_file)
    figure = seen.page.locator("#matrix-1")
    assert figure.locator(".mark-rect.role-mark path").count() == len(GRID)
    texts = figure.locator(".mark-text.role-mark text").all_text_contents()
    read = sorted(float(text.removesuffix(" ms")) for text in texts)
    assert read == pytest.approx(sorted(value for value in medians if value is not None), rel=0.01)


def test_groups_on_the_page_are_the_medians_of_their_runs(
    pages: Pages, page_file: Path, results: tuple[TrialResult, ...]
) -> None:
    """Worked out anew from the runs."""
    runs = [each.summary for each in results if each.summary.group == "postgresql-10"]
    values = sorted(float(run.windows[0].latency_ms.p50.value or 0) for run in runs)
    seen = pages.look(page_file)
    cell = seen.page.locator("#groups tr[data-group='postgresql-10'] [data-metric='across.p50']")
    raw = [float(str(cell.get_attribute(f"data-{name}"))) for name in ("least", "value", "greatest")]
    assert raw == pytest.approx([values[0], (values[0] + values[1]) / 2, values[1]])


@pytest.mark.parametrize("width", [390, 800, 1100, 1600])
def test_nothing_sticks_out_sideways(width: int, pages: Pages, page_file: Path) -> None:
    """What is wider scrolls within its own region."""
    seen = pages.look(page_file, width)
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    for figure in seen.page.locator(".chart svg.marks").all():
        box = figure.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_that_wcag_asks_for(
    scheme: Literal["light", "dark"], pages: Pages, page_file: Path
) -> None:
    """WCAG 2.2, 1.4.3, on every piece of text of the new sections."""
    seen = pages.look(page_file, scheme=scheme)
    assert seen.page.evaluate(CONTRAST) == []


def test_no_figure_is_lost_in_print(pages: Pages, page_file: Path) -> None:
    """The figures of a step are higher than a page when they may not be parted: then a page would stay empty."""
    with pages.of_its_own(page_file, 1280) as seen:
        sheets = len(re.findall(rb"/Type\s*/Page\b", seen.page.pdf(prefer_css_page_size=True)))
        assert 5 <= sheets <= 20
        seen.page.emulate_media(media="print")
        style: dict[str, Any] = seen.page.evaluate(
            "() => ({figure: getComputedStyle(document.querySelector('.step')).breakInside, "
            "chart: getComputedStyle(document.querySelector('.step .chart')).breakInside})"
        )
        assert style == {"figure": "auto", "chart": "avoid"}


def test_shares_are_drawn_as_long_as_they_are(pages: Pages, page_file: Path) -> None:
    """The bar of a quarter is a quarter as long as the axis, and the table says the same."""
    seen = pages.look(page_file)
    cells = seen.page.locator("#share-table [data-metric='share']")
    shares = [float(str(cell.get_attribute("data-value"))) for cell in cells.all()]
    assert len(shares) == 4
    bars = seen.page.locator("#shares-0 .mark-rect.role-mark path")
    widths = [box["width"] for bar in bars.all() if (box := bar.bounding_box())]
    assert [width / widths[0] for width in widths] == pytest.approx([s / shares[0] for s in shares], rel=0.05)
    read = re.match(r"([\d.]+) %", cells.first.inner_text())
    assert read is not None
    assert float(read[1]) == pytest.approx(100 * shares[0], rel=0.05)

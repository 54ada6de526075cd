"""Experiments' sections in a browser: what the figures draw is what the numbers say."""

from __future__ import annotations

import math
import re
import statistics
from typing import TYPE_CHECKING, Any, Literal

import pytest
from tests.browser.conftest import assert_fits, raw
from tests.browser.test_report import CONTRAST
from tests.samples.estimates import present
from tests.samples.experiments import experiment_run
from tests.samples.results import checked_pair, checked_summary, sample_manifest

from stepbench.experiments.report.page import render_page

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.conftest import Pages

    from stepbench.contracts.result import TrialResult

pytestmark = pytest.mark.browser
TILES = 4
"""The last trials are those of the matrix of two dimensions."""
FIGURES = 2 + 1 + 1 + 2 + 2 * 3 + 2 + 2 * 2
"""Curves, boxes, shares; two time lines; latency, rates and a close-up of two phases; two matrices; two over time."""


@pytest.fixture(scope="module")
def results() -> tuple[TrialResult, ...]:
    """Return the trials of the experiments."""
    return experiment_run()[1]


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write their report."""
    path = tmp_path_factory.mktemp("experiments") / "report.html"
    path.write_text(render_page(*experiment_run(), sample_manifest()), "utf-8")
    return path


def test_all_figures_are_drawn_in_silence(pages: Pages, page_file: Path) -> None:
    """Vega warns on the console about what it cannot draw."""
    seen = pages.look(page_file)
    assert seen.console == []
    assert seen.requests == [page_file.as_uri()]
    assert seen.page.locator(".chart svg.marks").count() == FIGURES


def test_runs_of_one_setting_have_one_hue_and_one_legend_entry(pages: Pages, page_file: Path) -> None:
    """Four windows, and a batch size with three runs, in the first figure; two sizes of it, and four points, next."""
    figures = pages.look(page_file).page.locator("#ecdf-0, #ecdf-1").all()
    found = []
    for figure in figures:
        lines = figure.locator(".mark-line.role-mark path").all()
        looks = [(str(line.get_attribute("stroke")), line.get_attribute("stroke-dasharray")) for line in lines]
        entries = figure.locator(".role-legend-label text").all_text_contents()
        found.append((len(looks), len(set(looks)), len({stroke for stroke, _ in looks}), entries))
    first = ["postgresql-elastic · before", "postgresql-elastic · after", "s3-elastic · before", "s3-elastic · after"]
    second = [f"dynamodb · value_bytes {size} · rate_per_s {rate}" for size in ("100", "1,000") for rate in (10, 100)]
    assert found == [
        (7, 7, 5, [*first, "postgresql · batch_size 1"]),
        (10, 10, 6, ["postgresql · batch_size 10", "postgresql · batch_size 100", *second]),
    ]


def test_what_shows_under_the_pointer_has_the_full_name(pages: Pages, page_file: Path) -> None:
    """The legend's label is short, since a label has room for a word or two."""
    page = pages.look(page_file).page
    page.locator("#ecdf-0 .mark-symbol.role-mark").first.locator("path").nth(5).hover(force=True)
    tooltip = page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    assert "elastic · before" in tooltip.inner_text()


def test_comparisons_on_the_page_are_those_of_the_result(
    pages: Pages, page_file: Path, results: tuple[TrialResult, ...]
) -> None:
    """They are so for a script and for a reader."""
    (comparison,) = results[0].summary.comparisons
    seen = pages.look(page_file)
    cell = seen.page.locator("#comparisons tr[data-trial='0'] [data-metric='median_ratio']")
    ratio = comparison.median_ratio
    assert raw(cell, "value", "low", "high") == [ratio.value, ratio.low, ratio.high]
    read = present(re.match(r"([\d.]+)\s×", cell.inner_text()))  # noqa: RUF001 -- a multiplication sign
    assert float(read[1]) == pytest.approx(ratio.value, rel=0.001)
    sentence = seen.page.locator("#steps .sentences li").first.inner_text()
    said = present(re.search(r"the median was ([\d.]+) % higher", sentence))
    assert float(said[1]) == pytest.approx(100 * (present(ratio.value) - 1), abs=0.5)


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
        scales.append(float(drawn[1]) / math.log10(present(box.p75) / present(box.p25)))
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
    """The time line has to show what is compared."""
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
    tooltip.wait_for()
    assert re.search(r"sent\s*40", tooltip.inner_text())


def test_a_heat_map_writes_its_numbers_on_its_tiles(
    pages: Pages, page_file: Path, results: tuple[TrialResult, ...]
) -> None:
    """Colour alone would say nothing to some, and little to all."""
    medians = [result.summary.windows[0].latency_ms.p50.value for result in results[-TILES:]]
    seen = pages.look(page_file)
    figure = seen.page.locator("#matrix-1")
    assert figure.locator(".mark-rect.role-mark").first.locator("path").count() == TILES
    texts = figure.locator(".mark-text.role-mark text").all_text_contents()
    read = sorted(float(text.removesuffix(" ms")) for text in texts)
    assert read == pytest.approx(sorted(value for value in medians if value is not None), rel=0.01)


def test_groups_on_the_page_are_the_means_of_their_runs(
    pages: Pages, page_file: Path, results: tuple[TrialResult, ...]
) -> None:
    """They are worked out anew from the runs."""
    runs = [each.summary for each in results if each.summary.group == "postgresql-10"]
    medians = sorted(float(run.windows[0].latency_ms.p50.value or 0) for run in runs)
    mean = statistics.geometric_mean(medians)
    seen = pages.look(page_file)
    cell = seen.page.locator("#groups tr[data-group='postgresql-10'] [data-metric='over_runs.p50']")
    assert raw(cell, "least", "value", "greatest") == pytest.approx([medians[0], mean, medians[-1]])


@pytest.mark.parametrize(
    "width", [390, *(pytest.param(width, marks=pytest.mark.nightly("browser")) for width in (800, 1100)), 1600]
)
def test_nothing_sticks_out_sideways(width: int, pages: Pages, page_file: Path) -> None:
    """What is wider scrolls within its own region."""
    assert_fits(pages.look(page_file, width).page, width)


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.nightly("browser"))])
def test_text_has_the_contrast_that_wcag_asks_for(
    scheme: Literal["light", "dark"], pages: Pages, page_file: Path
) -> None:
    """WCAG 2.2, 1.4.3, on every piece of text of the new sections."""
    seen = pages.look(page_file, scheme=scheme)
    assert seen.page.evaluate(CONTRAST) == []


@pytest.mark.nightly("browser")
def test_no_figure_is_lost_in_print(pages: Pages, page_file: Path) -> None:
    """The figures of a step are higher than a page when they may not be parted: then a page would stay empty."""
    with pages.of_its_own(page_file, 1280) as seen:
        sheets = len(re.findall(rb"/Type\s*/Page\b", seen.page.pdf(prefer_css_page_size=True)))
        assert 5 <= sheets <= 30
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
    shares = [raw(cell, "value")[0] for cell in cells.all()]
    assert len(shares) == 4
    bars = seen.page.locator("#shares-0 .mark-rect.role-mark").first.locator("path")
    widths = [box["width"] for bar in bars.all() if (box := bar.bounding_box())]
    assert [width / widths[0] for width in widths] == pytest.approx([s / shares[0] for s in shares], rel=0.05)
    read = present(re.match(r"([\d.]+) %", cells.first.inner_text()))
    assert float(read[1]) == pytest.approx(100 * shares[0], rel=0.05)


def test_both_distributions_are_drawn_with_their_distance(pages: Pages, tmp_path: Path) -> None:
    """The console is silent for either measure; D stands at the mark, in the sentence and in the table."""
    specs, results = checked_pair(shift_ms=1)
    summary = checked_summary(specs, results)
    file = tmp_path / "report.html"
    file.write_text(render_page(summary, results, sample_manifest()), "utf-8")
    ks = present(summary.clock_checks[0].comparisons[0].ks)
    seen = pages.look(file)
    assert seen.console == []
    assert seen.requests == [file.as_uri()]
    for place in (0, 1):
        figure = seen.page.locator(f"#clock-{place} svg.marks")
        assert figure.get_by_text(f"D = {ks.d:.3f}", exact=True).count() == 1
        assert figure.locator("path[stroke-dasharray]").count() >= 1
    row = seen.page.locator("#clock-check-table tr[data-measure='latency_ms']")
    assert raw(row.locator("[data-metric='d']"), "value") == [ks.d]
    assert f"(D {ks.d:.3f} > 0.136" in seen.page.locator("#clock-check .sentences").inner_text()

"""Transfers in a browser: the figures are drawn from the rows, in both themes and on a phone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
from tests.browser.conftest import assert_fits, unfold
from tests.samples.results import sample_manifest, sample_summary
from tests.samples.transfer_findings import STAND_INS, transfer_trial, transfers_of
from tests.samples.transfers import month

from stepbench.experiments.report.dataset_page import render_dataset
from stepbench.experiments.report.page import render_page

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.conftest import Pages

pytestmark = pytest.mark.browser
ROWS = tuple(month(80, days=9))
FIGURES = 4 + 2 + 4 + 4 + 4
"""By size, over time, by hour, distributions, progress."""
MOST_PX = 8_200
"""Of a phone's screen, before anything is unfolded."""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a dataset's page."""
    path = tmp_path_factory.mktemp("transfers") / "dataset.html"
    shown = transfers_of(ROWS)._replace(stand_ins=STAND_INS)
    path.write_text(render_dataset(shown), "utf-8")
    return path


@pytest.fixture(scope="module")
def run_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a run's page."""
    path = tmp_path_factory.mktemp("transfers") / "report.html"
    results = (transfer_trial(ROWS),)
    path.write_text(render_page(sample_summary(results, "quick-transfer"), results, sample_manifest()), "utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.nightly("browser"))])
def test_all_figures_are_drawn_in_silence(pages: Pages, dataset: Path, scheme: Literal["light", "dark"]) -> None:
    """Vega warns on the console about what it cannot draw."""
    seen = pages.look(dataset, 1280, scheme)
    assert seen.console == []
    assert seen.page.evaluate("document.documentElement.dataset.charts") == "drawn"
    assert seen.page.locator(".chart svg.marks").count() == FIGURES
    assert [url for url in seen.requests if not url.startswith(("file:", "data:"))] == []


@pytest.mark.nightly("browser")
def test_a_runs_page_has_the_same_figures(pages: Pages, run_page: Path) -> None:
    """One section serves both."""
    seen = pages.look(run_page, 1280)
    assert seen.console == []
    assert seen.page.locator(".chart svg.marks").count() == FIGURES


@pytest.mark.parametrize("width", [pytest.param(390, marks=pytest.mark.nightly("browser")), 1280])
def test_nothing_is_wider_than_the_window(pages: Pages, dataset: Path, run_page: Path, width: int) -> None:
    """Folded or not."""
    for path in (dataset, run_page):
        with pages.of_its_own(path, width) as seen:
            assert_fits(seen.page, width)
            unfold(seen)
            assert_fits(seen.page, width)


@pytest.mark.nightly("browser")
def test_a_phone_reads_it_with_a_few_turns_of_the_thumb(pages: Pages, dataset: Path) -> None:
    """A table of 36 cells has 36 cards; of each source and platform three are shown, among them what is answered."""
    with pages.of_its_own(dataset, width=390) as seen:
        assert seen.page.evaluate("document.documentElement.scrollHeight") <= MOST_PX
        cards = seen.page.locator("#cells-dataset tbody:first-of-type tr[data-mib]:visible")
        assert [card.get_attribute("data-mib") for card in cards.all()] == ["1", "50", "500"]


def test_each_transfer_has_its_point(pages: Pages, dataset: Path) -> None:
    """In the chart of its platform by size: those that were ok, and no others."""
    expected = sum(row.outcome == "ok" and row.platform == "lambda" for row in ROWS)
    points = pages.look(dataset, 1280).page.locator(
        "#transfer-sizes-dataset-lambda .mark-symbol.role-mark.layer_0_marks > *"
    )
    assert points.count() == expected


def test_a_point_tells_its_numbers_to_a_finger(pages: Pages, dataset: Path) -> None:
    """The nearest transfer: its rate, its size, when it began."""
    with pages.of_its_own(dataset, width=390, finger=True) as seen:
        chart = seen.page.locator("#transfer-sizes-dataset-lambda")
        chart.scroll_into_view_if_needed()
        chart.locator("svg.marks").tap(position={"x": 180, "y": 150})
        told = str(seen.page.locator("#spoken").text_content())
        assert "MiB/s" in told
        assert "began 2025-06-" in told

"""A function's settings in a real browser, wide and on a phone: memory against cost, and two versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.browser.conftest import assert_fits
from tests.samples.function_settings import memory_results, settings_run, version_results
from tests.samples.results import sample_manifest

from stepbench.experiments.report.page import render_page

if TYPE_CHECKING:
    from tests.browser.conftest import Opened, Pages

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", params=["memory", "versions"])
def seen(request: pytest.FixtureRequest, pages: Pages, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """Open the report of each planted run once."""
    memory = request.param == "memory"
    results = memory_results() if memory else version_results()
    run = settings_run(results, "handler p99", *(["handler p99 < 60 ms"] if memory else []))
    path = tmp_path_factory.mktemp(request.param) / "report.html"
    path.write_text(render_page(run, results, sample_manifest()), "utf-8")
    return pages.look(path)


def test_the_figure_is_drawn_in_silence(seen: Opened) -> None:
    """An axis without an end would make Vega complain."""
    assert seen.console == []
    assert seen.page.locator("#memory .chart svg.marks, #answer .chart svg.marks").count() == 1


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_screen(seen: Opened, width: int) -> None:
    """A number that lies beyond the edge is not read."""
    seen.page.set_viewport_size({"width": width, "height": 900})
    seen.page.wait_for_selector("[data-charts=drawn]", state="attached")
    assert_fits(seen.page, width)

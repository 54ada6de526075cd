"""When a measured function was done, in a real browser, wide and on a phone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.browser.conftest import raw
from tests.samples.measured_functions import MeasuredTrial
from tests.samples.results import sample_manifest, sample_summary

from stepbench.experiments.report.page import render_page

if TYPE_CHECKING:
    from tests.browser.conftest import Opened, Pages

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def seen(pages: Pages, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """Open the report of the planted trial once."""
    result = MeasuredTrial().result()
    path = tmp_path_factory.mktemp("function") / "report.html"
    path.write_text(render_page(sample_summary([result]), [result], sample_manifest()), "utf-8")
    return pages.look(path)


def test_the_figure_is_drawn_in_silence(seen: Opened) -> None:
    """An axis without an end would make Vega complain."""
    assert seen.console == []
    assert seen.page.locator("#handler .chart svg.marks").count() == 1


def test_the_answer_says_when_it_was_done(seen: Opened) -> None:
    """It is the question that the run was made for, so it stands on the first screen."""
    assert "had processed it 283 ms after the write was due" in seen.page.locator("#answer").inner_text()


def test_numbers_are_there_for_scripts(seen: Opened) -> None:
    """By the names of `summary.json`."""
    cell = seen.page.locator("#handler-counts [data-metric=failed_in_handler]")
    assert raw(cell, "value") == [10]


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_screen(seen: Opened, width: int) -> None:
    """A number that lies beyond the edge is not read."""
    seen.page.set_viewport_size({"width": width, "height": 900})
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    for name in ("handler-times", "handler-counts"):
        table = seen.page.locator(f"#{name}")
        assert table.evaluate("each => each.scrollWidth <= each.clientWidth + 1")

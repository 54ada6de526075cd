"""DAGs in a browser: figures are drawn in silence, nothing is too wide, a phone has its own drawing of the DAG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.browser.conftest import assert_fits, unfold

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.conftest import Pages

pytestmark = pytest.mark.browser
FIGURES = 2 * (1 + 2 + 2 + 4) + 4
"""Of two DAGs: times, dollars at two ways to pay, two of parts, tasks of four stores; and the four stores over time."""


@pytest.mark.parametrize("width", [390, 1280])
def test_all_is_drawn_in_silence_and_nothing_is_too_wide(pages: Pages, files: dict[str, Path], width: int) -> None:
    """Vega warns on the console about what it cannot draw; a page that scrolls sideways is not read on a phone."""
    with pages.of_its_own(files["dataflow"], width) as seen:
        assert_fits(seen.page, width)
        assert_fits(unfold(seen).page, width)
        assert seen.console == []
        assert seen.page.locator(".chart svg.marks").count() == FIGURES
        ways = [str(each.get_attribute("class")) for each in seen.page.locator(".dag-scroll:visible").all()]
        assert ways == ["dag-scroll down" if width == 390 else "dag-scroll across"] * 2


def test_a_span_tells_its_bytes_and_rate(pages: Pages, files: dict[str, Path]) -> None:
    """By keys as by a pointer: the first part of the first task that moves anything."""
    with pages.of_its_own(files["dataflow"], 1280) as seen:
        chart = seen.page.locator("#dag-gantt-0-1")
        chart.focus()
        for key in ("ArrowRight", "End"):
            chart.press(key)
        told = str(seen.page.locator("#spoken").text_content())
        assert "task split-0" in told
        assert "rate" in told

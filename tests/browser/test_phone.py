"""What a phone of 390 px shows first: cards of a few lines, and the rest where it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.browser.conftest import assert_fits, unfold

from stepbench.report.document import PHONE_ROWS, PHONE_SENTENCES

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator
    from tests.browser.conftest import Pages

pytestmark = [pytest.mark.browser, pytest.mark.nightly("browser")]
MOST_PX = {"triggers": 4_800, "operations": 7_000, "matrix": 7_500}
"""A third of what they took when nothing was folded, or not much more; fonts differ between machines."""


@pytest.mark.parametrize("name", MOST_PX)
def test_a_page_is_read_with_a_few_turns_of_the_thumb(name: str, pages: Pages, files: dict[str, Path]) -> None:
    """The run of 24 trials took 20,900 px."""
    with pages.of_its_own(files[name], width=390) as seen:
        assert seen.page.evaluate("document.documentElement.scrollHeight") <= MOST_PX[name]
        assert_fits(seen.page, 390)


def shown(cells: Locator) -> list[str]:
    """Return the labels of the cells that are seen."""
    return [str(cell.get_attribute("data-label")) for cell in cells.all() if cell.is_visible()]


def test_a_card_has_the_numbers_that_matter_and_a_tap_shows_all(pages: Pages, files: dict[str, Path]) -> None:
    """The median, the tail, what was lost, and why to doubt it; no column and no row is missing below."""
    with pages.of_its_own(files["triggers"], width=390) as seen:
        cells = seen.page.locator("#headline tr[data-trial='0'] td")
        assert shown(cells) == ["p50", "p99", "Lost", "Caveats"]
        seen.page.get_by_text("All columns", exact=True).click()
        assert len(shown(cells)) == cells.count() == 9


def test_rows_sentences_and_plots_beyond_the_first_few_wait_for_a_tap(pages: Pages, files: dict[str, Path]) -> None:
    """A wide screen shows them at once."""
    with pages.of_its_own(files["operations"], width=390) as seen:
        parts = (
            ("#groups tbody tr", "rows, with all columns", PHONE_ROWS),
            (".verdicts li", "All 8", PHONE_SENTENCES),
            ("#repeats .multiple", "All 4", 1),
        )
        for selector, summary, first in parts:
            every = seen.page.locator(selector).all()
            assert [each.is_visible() for each in every] == [place < first for place in range(len(every))], selector
            seen.page.locator(".whole summary:visible").get_by_text(summary).first.click()
            assert sum(each.is_visible() for each in every) > first
        assert seen.page.locator("#groups tbody tr:visible").count() == seen.page.locator("#groups tbody tr").count()
    with pages.of_its_own(files["operations"], width=1280) as seen:
        assert seen.page.locator("#groups tbody tr:visible").count() == seen.page.locator("#groups tbody tr").count()
        assert seen.page.locator(".whole:visible").count() == 0


SHRUNKEN = """
[...document.querySelectorAll(".chart svg.marks")].filter((each) => each.checkVisibility())
  .map((each) => each.getBoundingClientRect().width / each.width.baseVal.value)
  .filter((scale) => Math.abs(scale - 1) > 0.01)
"""
"""By how much figures are shrunken, or stretched, and their texts with them."""
WHOLE = "document.querySelector('#repeats .multiples + .whole')"


def test_plots_that_waited_for_a_tap_are_as_wide_as_the_first(pages: Pages, files: dict[str, Path]) -> None:
    """Drawn without a width, their axes had letters of 8.7 px. A short look, or paper, does not spend the tap."""
    with pages.of_its_own(files["operations"], width=390) as seen:
        seen.page.evaluate(f"{WHOLE}.open = true; {WHOLE}.open = false")
        for event in ("beforeprint", "afterprint"):
            seen.page.evaluate(f"dispatchEvent(new Event('{event}'))")
            seen.page.evaluate("new Promise(requestAnimationFrame)")
        hidden = seen.page.locator("#matrix-1 svg.marks")
        assert not hidden.is_visible()
        unfold(seen)
        assert hidden.is_visible()
        assert seen.page.evaluate(SHRUNKEN) == []


@pytest.mark.parametrize("name", MOST_PX)
def test_a_wide_screen_begins_with_question_answer_and_the_head_of_a_table(
    name: str, pages: Pages, files: dict[str, Path]
) -> None:
    """It answers without a turn of the wheel. Of more than twelve windows the table comes before the sentences."""
    with pages.of_its_own(files[name], width=1280) as seen:
        bottoms = seen.page.evaluate(
            "() => ['#answer-title', '#answer .sentences li', '#answer thead'].flatMap((each) => "
            "[...document.querySelectorAll(`${each}:not(details *)`)].slice(0, 1)).map("
            "(each) => each.getBoundingClientRect().bottom)"
        )
        assert len(bottoms) == 3
        assert bottoms == sorted(bottoms)
        assert bottoms[-1] <= 900

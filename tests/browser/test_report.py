from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from tests.browser.conftest import assert_fits, raw, unfold
from tests.samples.estimates import numbers, present
from tests.samples.results import sample_results, sample_summary

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page
    from tests.browser.conftest import Pages

pytestmark = pytest.mark.browser
FIGURES = 1 + 2 * 4
"""One distribution; latency and rates of each trial."""


def test_the_page_opens_offline_in_silence(pages: Pages, report: Path) -> None:
    """No error, no warning, no request but for the file itself."""
    seen = pages.look(report)
    assert seen.console == []
    assert seen.requests == [report.as_uri()]


def test_the_numbers_on_the_page_are_those_of_the_summary(pages: Pages, report: Path) -> None:
    """Read off the table as a script would, and as a reader would."""
    seen = pages.look(report)
    for trial in sample_summary(sample_results()).trials:
        row = seen.page.locator(f"#headline tr[data-trial='{trial.index}']")
        cell = row.locator("[data-metric='latency_ms.p50']")
        low, value, high = numbers(trial.windows[0].latency_ms.p50)
        assert raw(cell, "value", "low", "high") == [value, low, high]
        read = present(re.match(r"([\d.]+)\sms", cell.inner_text()))
        assert float(read[1]) == pytest.approx(value, rel=0.01)
        lost = row.locator("[data-metric='lost']").get_attribute("data-value")
        assert lost == str(present(trial.accounting).lost)


def test_every_figure_is_drawn_with_its_marks(pages: Pages, report: Path) -> None:
    """Axes without curves would pass for a quiet store."""
    seen = pages.look(report)
    figures = seen.page.locator(".chart")
    assert figures.count() == FIGURES
    for place in range(FIGURES):
        lines = figures.nth(place).locator("svg.marks .mark-line.role-mark path")
        drawn = [line for line in lines.all() if len(line.get_attribute("d") or "") > 100]
        assert len(drawn) >= 3, place


def test_curves_differ_by_more_than_colour(pages: Pages, report: Path) -> None:
    """The colour-blind and black-and-white print need it: dashes differ, and so do the marks."""
    seen = pages.look(report)
    figure = seen.page.locator("#ecdf-0")
    lines = figure.locator(".mark-line.role-mark path").all()
    assert len({line.get_attribute("stroke") for line in lines}) == 4
    assert len({line.get_attribute("stroke-dasharray") for line in lines}) == 4
    legend = figure.locator(".role-legend-symbol path").all()
    assert len({symbol.get_attribute("d") for symbol in legend}) == 4


def point_at_bar(page: Page) -> Locator:
    """Return the tooltip of one of the bars of the first trial's latencies."""
    page.locator("#latency-trial-0 .mark-rule.role-mark").first.locator("path, line").nth(3).hover(force=True)
    tooltip = page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    return tooltip


def test_hovering_shows_the_numbers(pages: Pages, report: Path) -> None:
    """A figure is read by pointing at it."""
    seen = pages.look(report)
    tooltip = point_at_bar(seen.page)
    assert "p50 (ms)" in tooltip.inner_text()
    assert "warm-up" in tooltip.inner_text()


AXIS = "[...document.querySelectorAll('#ecdf-0 .role-axis-label')].map((each) => each.textContent).join()"
"""The tick labels of the distribution."""


def turn_wheel_over_figure(page: Page) -> None:
    """Turn it one notch, with the pointer on the distribution."""
    figure = page.locator("#ecdf-0 svg.marks")
    figure.scroll_into_view_if_needed()
    figure.hover(position={"x": 400, "y": 200})
    page.mouse.wheel(0, 240)


def test_the_wheel_zooms_with_a_modifier_and_scrolls_without(pages: Pages, report: Path) -> None:
    """A figure that swallows the wheel holds the page fast."""
    with pages.of_its_own(report) as seen:
        page = seen.page
        page.locator("#ecdf-0").scroll_into_view_if_needed()
        before, top = page.evaluate(AXIS), page.evaluate("scrollY")
        turn_wheel_over_figure(page)
        page.wait_for_function("top => scrollY > top", arg=top)
        assert page.evaluate(AXIS) == before
        page.keyboard.down("Control")
        turn_wheel_over_figure(page)
        page.keyboard.up("Control")
        page.wait_for_function(f"before => {AXIS} !== before", arg=before)


@pytest.mark.parametrize("width", [390, 1600])
def test_nothing_sticks_out_sideways(width: int, pages: Pages, report: Path) -> None:
    """This holds on a phone and on a wide screen; wider parts scroll within their own regions."""
    assert_fits(pages.look(report, width).page, width)


@pytest.mark.parametrize(("label", "start"), [("Save as SVG", b"<svg"), ("Save as PNG", b"\x89PNG")])
def test_a_figure_can_be_saved(label: str, start: bytes, pages: Pages, report: Path) -> None:
    """A paper or a slide needs it; the page makes it by itself, with no call outside."""
    with pages.of_its_own(report) as seen:
        menu = seen.page.locator("#ecdf-0 details")
        menu.locator("summary").focus()
        seen.page.keyboard.press("Enter")
        with seen.page.expect_download() as saving:
            menu.get_by_text(label).click()
        assert saving.value.suggested_filename.startswith("run-1-ecdf-0.")
        saved = Path(saving.value.path()).read_bytes()
        assert saved.startswith(start)
        assert menu.get_by_role("link").count() == 2
        assert seen.requests == [report.as_uri()] or all(
            url.startswith(("blob:", "data:", "file:")) for url in seen.requests
        )


def test_what_few_readers_need_is_folded_and_its_figures_fit_when_it_opens(pages: Pages, report: Path) -> None:
    """The answer is not to be searched for between ten tables; a figure drawn out of sight has the page's width."""
    with pages.of_its_own(report, width=390) as seen:
        fold = seen.page.locator("#time details.fold").first
        assert not fold.locator("svg.marks").first.is_visible()
        assert fold.locator("svg.marks").count() == 2
        fold.locator("summary").first.click()
        seen.page.wait_for_function("document.documentElement.dataset.charts === 'drawn'")
        fold.locator("svg.marks").first.wait_for()
        assert_fits(seen.page, 390)


def test_a_figure_that_fits_is_not_drawn_again(pages: Pages, report: Path) -> None:
    """Where the browser lays folded parts out, they are as wide when they open; every drawing takes time."""
    with pages.of_its_own(report) as seen:
        seen.page.evaluate("for (const each of document.querySelectorAll('svg.marks')) each.dataset.first = 'yes'")
        unfold(seen)
        assert seen.page.locator("svg.marks:visible").count() == FIGURES
        assert seen.page.locator("svg.marks:not([data-first])").count() == 0


@pytest.mark.nightly("browser")
def test_a_theme_that_changes_while_printing_is_drawn_after_it(pages: Pages, report: Path) -> None:
    """Drawing takes longer than printing waits; forgotten, the figures would stay dark ink on a dark page."""
    with pages.of_its_own(report) as seen:
        seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        seen.page.emulate_media(color_scheme="dark")
        seen.page.wait_for_function("matchMedia('(prefers-color-scheme: dark)').matches")
        seen.page.evaluate("new Promise(requestAnimationFrame)")
        assert seen.page.evaluate("document.documentElement.dataset.charts") == "drawn"
        assert seen.page.evaluate("document.documentElement.dataset.theme") == "light"
        seen.page.evaluate("dispatchEvent(new Event('afterprint'))")
        seen.page.wait_for_function("document.documentElement.dataset.theme === 'dark'")


SPY = """
() => {
  const embed = vegaEmbed;
  globalThis.finalized = 0;
  globalThis.vegaEmbed = async (...given) => {
    const result = await embed(...given);
    const { finalize } = result;
    result.finalize = () => { globalThis.finalized += 1; finalize.call(result); };
    return result;
  };
}
"""
"""Counts the drawings that are given up."""


@pytest.mark.nightly("browser")
def test_a_drawing_is_given_up_though_the_next_one_fails(pages: Pages, report: Path) -> None:
    """Its listeners would stay for as long as the page does."""
    with pages.of_its_own(report) as seen:
        seen.page.evaluate(SPY)
        seen.page.emulate_media(color_scheme="dark")
        seen.page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
        assert seen.page.evaluate("finalized") == 0
        seen.page.evaluate("() => { globalThis.vegaEmbed = () => { throw new Error('no figure'); }; }")
        seen.page.emulate_media(color_scheme="light")
        seen.page.wait_for_function("document.documentElement.dataset.charts === 'failed'")
        assert seen.page.evaluate("finalized") == FIGURES


def test_printing_makes_a_document_with_everything_in_it(pages: Pages, report: Path) -> None:
    """It has several A4 pages; folded parts unfold for it."""
    with pages.of_its_own(report) as seen:
        pdf = seen.page.pdf(prefer_css_page_size=True)
        assert pdf.startswith(b"%PDF")
        assert 3 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 16
        seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        folded = seen.page.locator("main details:not(.chart details)")
        assert folded.count() > 0
        assert all(part.get_attribute("open") is not None for part in folded.all())


CONTRAST = """
() => {
  const channel = (value) => (value / 255 <= 0.03928 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4);
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (text) => {
    const [r, g, b] = numbers(text).map(channel);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const found = getComputedStyle(each).backgroundColor;
      const parts = numbers(found);
      if (parts.length < 4 || parts[3] > 0) return found;
    }
    return "rgb(255, 255, 255)";
  };
  const low = [];
  for (const element of document.querySelectorAll("body *:not(script):not(svg *):not(.skip)")) {
    if (![...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push(`${element.tagName}.${element.className}: ${ratio.toFixed(2)}`);
  }
  return low;
}
"""


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.nightly("browser"))])
def test_text_has_the_contrast_that_wcag_asks_for(scheme: Literal["light", "dark"], pages: Pages, report: Path) -> None:
    """WCAG 2.2, 1.4.3: at least 4.5:1, by the specification's own formula, on every piece of text, tooltips too."""
    seen = pages.look(report, scheme=scheme)
    point_at_bar(seen.page)
    assert seen.page.evaluate(CONTRAST) == []
    background = "rgb(20, 24, 28)" if scheme == "dark" else "rgb(255, 255, 255)"
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == background


def test_the_keyboard_reaches_the_answer_first(pages: Pages, report: Path) -> None:
    """The first tab stop skips the navigation."""
    with pages.of_its_own(report) as seen:
        seen.page.keyboard.press("Tab")
        assert seen.page.evaluate("document.activeElement.textContent") == "Skip to the answer"
        seen.page.keyboard.press("Enter")
        seen.page.wait_for_url("**#answer")


@pytest.mark.nightly("browser")
def test_thresholds_that_are_kept_unfold_and_fit_a_phone(pages: Pages, report: Path) -> None:
    """One sentence is all that is seen of them, and a tap on it shows each window."""
    with pages.of_its_own(report, width=390) as seen:
        row = seen.page.locator("#kept-table tr[data-trial='0']")
        assert not row.is_visible()
        seen.page.locator("#thresholds summary").click()
        assert row.is_visible()
        assert row.locator("[data-metric='value']").get_attribute("data-value") == "0.0"
        assert_fits(seen.page, 390)

"""Figures answer to a mouse, a finger and keys, in the same way: the nearest point, its numbers, a crosshair."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.browser.conftest import unfold, with_one_figure_of_each_kind
from tests.samples.estimates import present
from tests.samples.experiments import experiment_run
from tests.samples.operations import operation_results, over_trials
from tests.samples.results import checked_pair, checked_summary, sample_manifest, sample_summary

from stepbench.experiments.report.page import render_page

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Locator, Page
    from tests.browser.conftest import Pages

pytestmark = pytest.mark.browser
LONG = [pytest.param(name, marks=pytest.mark.nightly("browser")) for name in ("experiments", "operations")]
"""Pages of many figures; that of a clock check has one of three kinds."""
SHOWN = (
    "place => [...place.querySelectorAll('.touch_marks > *')].filter(e => Number(e.getAttribute('opacity')) > 0).length"
)
"""How many marks of the layer that answers are to be seen."""
NEAREST = """
([x, y]) => {
  const distance = (mark) => {
    const { left, top, width, height } = mark.getBoundingClientRect();
    return Math.hypot(left + width / 2 - x, top + height / 2 - y);
  };
  const marks = [...document.querySelectorAll("#ecdf-0 .touch_marks > *")];
  const shown = marks.find((mark) => Number(mark.getAttribute("opacity")) > 0);
  return [distance(shown), Math.min(...marks.map(distance))];
}
"""


@pytest.fixture(scope="module")
def few_figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write pages which have every kind of figure between them, one of each."""
    folder = tmp_path_factory.mktemp("touch")
    specs, checked = checked_pair(shift_ms=1)
    results = operation_results()
    operations = over_trials(sample_summary(results, "quick-products"))
    texts = {
        "experiments": render_page(*experiment_run(), sample_manifest()),
        "operations": render_page(operations, results, sample_manifest()),
        "clocks": render_page(checked_summary(specs, checked), checked, sample_manifest()),
    }
    for name, text in texts.items():
        (folder / name).with_suffix(".html").write_text(with_one_figure_of_each_kind(text), "utf-8")
    return {name: (folder / name).with_suffix(".html") for name in texts}


def kinds(page: Page) -> list[Locator]:
    """Return the page's figures, of which it has one of each kind."""
    figures = page.locator(".chart").all()
    assert figures
    return figures


def tooltip(page: Page) -> Locator:
    """Return the tooltip, if it is shown."""
    return page.locator("#vg-tooltip-element.visible")


def words(text: str) -> str:
    """Return the text without what stands between its words."""
    return re.sub(r"[\s,]+", "", text)


@pytest.mark.parametrize("name", ["clocks", *LONG])
def test_keys_walk_through_the_points_of_every_kind_of_figure(
    name: str, pages: Pages, few_figures: dict[str, Path]
) -> None:
    """What is shown is also said; Escape clears both."""
    with pages.of_its_own(few_figures[name], 1280) as seen:
        page = unfold(seen).page
        said = page.locator("#spoken")
        for place in kinds(page):
            heard = []
            for key in ("Home", "ArrowRight", "ArrowDown", "End"):
                place.press(key)
                assert words(present(said.text_content())) == words(present(tooltip(page).text_content()))
                assert place.evaluate(SHOWN) == 1
                heard.append(said.text_content())
            assert len(set(heard)) >= 2, place
            place.press("Escape")
            assert (tooltip(page).count(), place.evaluate(SHOWN), said.text_content()) == (0, 0, "")
        assert seen.console == []


def test_up_and_down_change_the_curve_and_left_and_right_the_point(pages: Pages, report: Path) -> None:
    """A curve is walked from end to end, and left for the point of the next that lies nearest."""
    with pages.of_its_own(report) as seen:
        place, said = seen.page.locator("#ecdf-0"), seen.page.locator("#spoken")

        def press(key: str) -> tuple[str, float]:
            place.press(key)
            found = present(re.match(r"trial (\S+), latency \(ms\) ([\d.]+)", present(said.text_content())))
            return found[1], float(found[2])

        first, last = press("Home"), press("End")
        assert first[0] == last[0] == "s3"
        assert first[1] < press("ArrowLeft")[1] < last[1]
        below = press("ArrowDown")
        assert below[0] == "dynamodb"
        assert first[1] < below[1]
        assert press("ArrowUp")[0] == "s3"
        assert press("Home") == first == press("ArrowLeft")


def test_the_mouse_gets_the_nearest_point_wherever_it_is(pages: Pages, report: Path) -> None:
    """Nobody hits a line of two pixels."""
    with pages.of_its_own(report) as seen:
        place = seen.page.locator("#ecdf-0")
        place.scroll_into_view_if_needed()
        box = present(place.locator("svg.marks").bounding_box())
        at = (box["x"] + 0.3 * box["width"], box["y"] + 0.5 * box["height"])
        seen.page.mouse.move(*at)
        tooltip(seen.page).wait_for()
        shown, least = seen.page.evaluate(NEAREST, at)
        assert shown == pytest.approx(least)
        assert shown > 20
        assert place.evaluate(SHOWN) == 1
        seen.page.mouse.move(box["x"] + 5, box["y"] - 20)
        assert (tooltip(seen.page).count(), place.evaluate(SHOWN)) == (0, 0)


def middle(place: Locator) -> tuple[float, float]:
    """Return where a finger meets the figure's plot."""
    place.scroll_into_view_if_needed()
    box = present(place.locator("svg.marks").bounding_box())
    return box["x"] + 0.75 * box["width"], box["y"] + 0.5 * box["height"]


@pytest.mark.parametrize("name", ["clocks", *LONG])
def test_a_tap_shows_the_numbers_until_a_tap_elsewhere(name: str, pages: Pages, few_figures: dict[str, Path]) -> None:
    """On a phone, the tooltip lies within the screen."""
    with pages.of_its_own(few_figures[name], 390, finger=True) as seen:
        page = unfold(seen).page
        for place in kinds(page):
            page.touchscreen.tap(*middle(place))
            assert (tooltip(page).count(), place.evaluate(SHOWN)) == (1, 1), place
            box = present(tooltip(page).bounding_box())
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= 390
            page.touchscreen.tap(2, 2)
            assert (tooltip(page).count(), place.evaluate(SHOWN)) == (0, 0), place
        assert seen.console == []


def test_a_finger_that_drags_scrolls_the_page(pages: Pages, report: Path) -> None:
    """A figure as high as the screen would hold the page fast; and no tooltip is left behind."""
    with pages.of_its_own(report, 390, finger=True) as seen:
        page = seen.page
        x, y = middle(page.locator("#ecdf-0"))
        page.touchscreen.tap(x, y)
        before = page.evaluate("scrollY")
        finger = page.context.new_cdp_session(page)
        for kind, moved in (("touchStart", 0), *(("touchMove", 20 * step) for step in range(1, 11))):
            finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y - moved}]})
        finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        page.wait_for_function("before => scrollY > before + 100", arg=before)
        assert tooltip(page).count() == 0


@pytest.mark.parametrize("finger", [False, True])
def test_captions_say_what_this_device_can_do(finger: bool, pages: Pages, report: Path) -> None:  # noqa: FBT001
    """Who has no mouse cannot hover, and nobody has to read what he cannot do."""
    with pages.of_its_own(report, 390, finger=finger) as seen:
        hint = seen.page.locator(".hint").first.inner_text()
        assert ("Tap for numbers" in hint, " tap on a name" in hint) == (finger, finger)
        assert ("Hover" in hint, "wheel" in hint, " click on a name" in hint) == (not finger, not finger, not finger)
        assert "keyboard" in hint


@pytest.mark.nightly("browser")
def test_a_figure_that_cannot_be_drawn_when_it_is_unfolded_says_so(pages: Pages, files: dict[str, Path]) -> None:
    """The page is not left drawing for ever, and what can be drawn is."""
    with pages.of_its_own(files["operations"], 390) as seen:
        draws = "const draw = vegaEmbed; let times = 0; window.vegaEmbed = (...all) => {"
        seen.page.evaluate(draws + " if (!times++) throw new Error('no room'); return draw(...all); }; 0")
        unfold(seen)
        seen.page.wait_for_function("document.documentElement.dataset.charts === 'failed'")
        failed = seen.page.locator(".chart.failed")
        assert failed.inner_text() == "This figure could not be drawn: no room"
        assert seen.page.locator(".chart svg.marks:visible").count() == seen.page.locator(".chart").count() - 1
        assert seen.console == ["pageerror: no room"]

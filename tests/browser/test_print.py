"""The page on paper: nothing is wider than it, and no heading stands alone at the end of a sheet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.conftest import Pages

pytestmark = [pytest.mark.browser, pytest.mark.nightly("browser")]
SAMPLES = ("triggers", "operations", "matrix")
A4_PX = round((210 - 2 * 13) / 25.4 * 96)
"""How wide its text is, between the style sheet's margins; Letter is wider."""
WIDER = """
(most) => [...document.querySelectorAll("main :is(table, th, td, pre, svg.marks, p, li, dd, h2, h3), main > *")]
  .filter((each) => !each.closest(".vega-embed details") && each.getBoundingClientRect().right > most + 1)
  .map((each) => `${each.tagName} ${each.id} ${each.textContent.trim().slice(0, 40)}`)
"""
"""What ends to the right of the paper's text."""
LINK_HEADS_AND_BODIES = """
() => {
  const heads = "main h2, main h3, main summary, main caption, main thead, main dt, main tr.group";
  const bodies = "main :is(h3, summary, caption, p, li, dt, dd, pre, .chart, tbody tr)";
  const every = [...document.querySelectorAll(`${heads}, ${bodies}`)]
    .filter((each) => each.offsetParent && !each.closest(".vega-embed details"));
  const links = document.body.appendChild(document.createElement("p"));
  const mark = (each, id) => {
    const cell = each.querySelector(":scope > th, :scope > td, :scope > tr > th") ?? each;
    cell.prepend(Object.assign(document.createElement("span"), { id }));
    links.append(Object.assign(document.createElement("a"), { href: `#${id}`, textContent: `${id} ` }));
  };
  return every.flatMap((head, place) => {
    const body = every.slice(place + 1).find((each) => each.matches(bodies) && !head.contains(each));
    if (!head.matches(heads) || !body) return [];
    mark(head, `head-${place}`);
    mark(body, `body-${place}`);
    return [[place, `${head.tagName} ${head.textContent.trim().slice(0, 60)}`]];
  });
}
"""
"""Mark each heading and what comes after it. A PDF says on which sheet what is linked to stands."""
_DESTINATION = re.compile(rb"/((?:head|body)-\d+) \[(\d+) 0 R /XYZ ")


@pytest.mark.parametrize("name", SAMPLES)
def test_nothing_is_wider_than_the_paper(name: str, pages: Pages, files: dict[str, Path]) -> None:
    """Paper does not scroll: 24 trials beside one another were cut off after the seventh."""
    with pages.of_its_own(files[name], A4_PX) as seen:
        seen.page.emulate_media(media="print")
        seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert seen.page.locator("main details:not([open]):not(.chart details)").count() == 0
        assert seen.page.evaluate(WIDER, A4_PX) == []


@pytest.mark.parametrize(("name", "paper"), [("triggers", "A4"), ("operations", "Letter"), ("matrix", "A4")])
def test_no_heading_is_parted_from_what_it_heads(name: str, paper: str, pages: Pages, files: dict[str, Path]) -> None:
    """That is a heading, a caption, a table's head, a group's row, or the line of an unfolded part."""
    with pages.of_its_own(files[name], 1280) as seen:
        seen.page.wait_for_function("document.documentElement.dataset.charts === 'drawn'")
        seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        seen.page.emulate_media(media="print")
        heads = dict(seen.page.evaluate(LINK_HEADS_AND_BODIES))
        found = {name.decode(): sheet for name, sheet in _DESTINATION.findall(seen.page.pdf(format=paper))}
        assert len(found) == 2 * len(heads) > 50
        assert [text for place, text in heads.items() if found[f"head-{place}"] != found[f"body-{place}"]] == []

"""Pages are checked by axe-core, which knows most of what WCAG asks for and a program can see."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.browser.conftest import DRAWN, unfold, with_one_figure_of_each_kind
from tests.samples.dataflow_findings import dataflow_run
from tests.samples.experiments import experiment_run
from tests.samples.operations import operation_results, over_trials
from tests.samples.results import (
    checked_pair,
    checked_summary,
    refused_result,
    sample_manifest,
    sample_page,
    sample_results,
    sample_summary,
)
from tests.samples.transfer_findings import transfer_trial
from tests.samples.transfers import month

from stepbench.experiments.report.page import render_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.conftest import Pages, Scheme

pytestmark = pytest.mark.browser
AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
UNFOLD = "for (const part of document.querySelectorAll('main details')) part.open = !part.closest('.chart')"
SETTINGS: tuple[tuple[int, Scheme], ...] = ((1280, "light"), (390, "dark"))
"""Inside of the figures only the first is checked: it takes long, and axe cannot tell a figure's contrasts."""
RUN = "exclude => axe.run({exclude}, {resultTypes: ['violations']})"


def _triggers() -> str:
    """One trial ended early, another lost events, some are emulated."""
    results = sample_results()
    return render_page(sample_summary(results), results, sample_manifest(), {"name": "quick-unloaded"})


def _operations() -> str:
    results = operation_results()
    return render_page(over_trials(sample_summary(results, "quick-products")), results, sample_manifest())


def _clock_check() -> str:
    specs, results = checked_pair(shift_ms=1)
    return render_page(checked_summary(specs, results), results, sample_manifest())


def _stopped() -> str:
    results = sample_results()[2:3]
    summary = sample_summary(results).model_copy(update={"status": "stopped"})
    return render_page(summary, results, sample_manifest())


def _transfers() -> str:
    rows = tuple(month(60, days=4))
    results = (transfer_trial(rows),)
    return render_page(sample_summary(results, "quick-transfer"), results, sample_manifest())


QUICK = {"DAGs", "transfers"}
"""`make test` looks at these; each page is made of the same parts."""
PAGES: dict[str, Callable[[], str]] = {
    "triggers": _triggers,
    "experiments": lambda: render_page(*experiment_run(), sample_manifest()),
    "operations": _operations,
    "clock check": _clock_check,
    "missed threshold": lambda: sample_page([refused_result(sample_results()[2], {"57P01": 12, "timeout": 3}, 3)]),
    "stopped": _stopped,
    "transfers": _transfers,
    "DAGs": lambda: render_page(*dataflow_run(), sample_manifest()),
    "no trials": lambda: sample_page([]),
}


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.nightly("browser")) for name in PAGES]
)
def test_axe_finds_no_violation(name: str, pages: Pages, tmp_path: Path) -> None:
    """Unfolded, with a figure of each kind and one's tooltip, wide and narrow, light and dark."""
    if not AXE.is_file():
        pytest.fail("axe-core is missing: `make setup-test` installs it")
    path = tmp_path / "report.html"
    path.write_text(with_one_figure_of_each_kind(PAGES[name]()), "utf-8")
    found: list[tuple[int, Scheme, str, str]] = []
    with pages.of_its_own(path) as seen:
        seen.page.evaluate(UNFOLD)
        unfold(seen)
        seen.page.evaluate(AXE.read_text("utf-8"))
        for width, scheme in SETTINGS:
            seen.page.set_viewport_size({"width": width, "height": 900})
            seen.page.emulate_media(color_scheme=scheme)
            seen.page.evaluate("new Promise(requestAnimationFrame)")  # the media's `change` comes before it
            seen.page.wait_for_function(DRAWN)
            if seen.page.locator(".chart").count():
                seen.page.locator(".chart").first.press("Home")
                seen.page.locator("#vg-tooltip-element.visible").wait_for()
            left_out = [] if (width, scheme) == SETTINGS[0] else [["svg.marks"]]
            checked = seen.page.evaluate(RUN, left_out)
            assert checked["passes"], "axe saw nothing"
            found += [(width, scheme, each["id"], each["nodes"][0]["html"]) for each in checked["violations"]]
    assert found == []

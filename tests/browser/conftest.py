"""Reports as a browser shows them, without any network, their figures drawn; and the sample report as a file."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple

import pytest
from tests.chromium import chromium, new_context
from tests.samples.dataflow_findings import dataflow_run
from tests.samples.estimates import present
from tests.samples.experiments import experiment_run
from tests.samples.operations import operation_results, over_trials
from tests.samples.results import sample_manifest, sample_results, sample_summary

from stepbench.experiments.report.page import render_page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Locator, Page

DRAWN = "['drawn', 'failed'].includes(document.documentElement.dataset.charts)"
Scheme = Literal["light", "dark"]


class Opened(NamedTuple):
    """The page, what it said on the console, and what it asked for."""

    page: Page
    console: list[str]
    requests: list[str]


class Pages:
    """It opens pages. Figures take time to draw, so tests that only look share one page a file, width and scheme."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._open: dict[tuple[Path, int, Scheme], Opened] = {}

    def look(self, path: Path, width: int = 1600, scheme: Scheme = "light") -> Opened:
        """Return the page, all of it unfolded; leave it as it is, but for the pointer and where it is scrolled to."""
        key = (path, width, scheme)
        if key not in self._open:
            self._open[key] = unfold(_open(self._context(width, scheme), path))
        opened = self._open[key]
        opened.page.mouse.move(0, 0)
        return opened

    @contextmanager
    def of_its_own(self, path: Path, width: int = 1600, *, finger: bool = False) -> Iterator[Opened]:
        """Yield a page to type on, to print, to save from; or on a device without a mouse."""
        context = self._context(width, "light", finger=finger)
        try:
            yield _open(context, path)
        finally:
            context.close()

    def _context(self, width: int, scheme: Scheme, *, finger: bool = False) -> BrowserContext:
        return new_context(
            self._browser,
            offline=True,
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            accept_downloads=True,
            has_touch=finger,
            is_mobile=finger,
            reduced_motion="reduce",  # where something is does not depend on when it is asked
        )


def _open(context: BrowserContext, path: Path) -> Opened:
    page = context.new_page()
    seen = Opened(page, [], [])
    page.on("console", lambda message: seen.console.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: seen.console.append(f"pageerror: {error}"))
    page.on("request", lambda request: seen.requests.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_function(DRAWN)
    return seen


def unfold(seen: Opened) -> Opened:
    """Open all that is folded, and wait for its figures."""
    seen.page.evaluate("for (const fold of document.querySelectorAll('.fold, .whole')) fold.open = true")
    seen.page.evaluate("new Promise(requestAnimationFrame)")  # `toggle` comes after this turn
    seen.page.wait_for_function(DRAWN)
    return seen


@pytest.fixture(scope="module")
def pages() -> Iterator[Pages]:
    """Share one browser in the module; see `tests.chromium` for why not for longer."""
    with chromium() as browser:
        yield Pages(browser)


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the sample run's page as a file."""
    file = tmp_path_factory.mktemp("report") / "report.html"
    results, plan = sample_results(), {"name": "quick-unloaded"}
    file.write_text(render_page(sample_summary(results), results, sample_manifest(), plan), "utf-8")
    return file


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write the pages of four trials of triggers, of 24 of operations, of 15 with steps and a matrix, and of DAGs."""
    results = operation_results()
    runs = {
        "triggers": (sample_summary(sample_results()), sample_results()),
        "operations": (over_trials(sample_summary(results, "quick-products")), results),
        "matrix": experiment_run(),
        "dataflow": dataflow_run(),
    }
    folder = tmp_path_factory.mktemp("samples")
    for name, run in runs.items():
        (folder / f"{name}.html").write_text(render_page(*run, sample_manifest(), {"name": name}), "utf-8")
    return {name: folder / f"{name}.html" for name in runs}


_FIGURE = re.compile(r'<div class="chart" id="([^"]+)"[^>]*><p[^>]*>[^<]*</p></div>')
_DATA = re.compile(r'<script[^>]*id="page-data"[^>]*>(.*?)</script>', re.DOTALL)


def with_one_figure_of_each_kind(page: str) -> str:
    """Return a page with the first figure of each kind only, where all are alike: a browser draws for long."""
    data = _DATA.search(page)
    figures = json.loads(data[1])["figures"] if data else {}
    names, first = _FIGURE.findall(page), dict[str, str]()
    assert len(names) == len(figures) == page.count('class="chart"')
    for name in names:
        first.setdefault(figures[name]["chart"], name)
    return _FIGURE.sub(lambda figure: figure[0] if figure[1] in first.values() else "", page)


def assert_fits(page: Page, width: int) -> None:
    """Check that neither page nor figure is wider than the window; wider parts scroll within their own regions."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for figure in page.locator(".chart svg.marks:visible").all():
        box = present(figure.bounding_box())
        assert box["x"] + box["width"] <= width


def raw(cell: Locator, *names: str) -> list[float]:
    """Read a cell's values as a script does."""
    return [float(str(cell.get_attribute(f"data-{name}"))) for name in names]

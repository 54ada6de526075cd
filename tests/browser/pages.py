"""Reports as a browser shows them, without any network, their figures drawn."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Page

DRAWN = "['drawn', 'failed'].includes(document.documentElement.dataset.charts)"
LIMIT_MS = 30_000
Scheme = Literal["light", "dark"]


class Opened(NamedTuple):
    """The page, what it said on the console, and what it asked for."""

    page: Page
    console: list[str]
    requests: list[str]


class Pages:
    """Opens pages. Figures take time to draw, so tests that only look share one page a file, width and scheme."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._open: dict[tuple[Path, int, Scheme], Opened] = {}

    def look(self, path: Path, width: int = 1600, scheme: Scheme = "light") -> Opened:
        """The page; leave it as it is, but for the pointer and where it is scrolled to."""
        key = (path, width, scheme)
        if key not in self._open:
            self._open[key] = _open(self._context(width, scheme), path)
        opened = self._open[key]
        opened.page.mouse.move(0, 0)
        return opened

    @contextmanager
    def of_its_own(self, path: Path, width: int = 1600) -> Iterator[Opened]:
        """A page to type on, to print, to save from."""
        context = self._context(width, "light")
        try:
            yield _open(context, path)
        finally:
            context.close()

    def _context(self, width: int, scheme: Scheme) -> BrowserContext:
        return self._browser.new_context(
            offline=True, viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=True
        )


def _open(context: BrowserContext, path: Path) -> Opened:
    page = context.new_page()
    seen = Opened(page, [], [])
    page.on("console", lambda message: seen.console.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: seen.console.append(f"pageerror: {error}"))
    page.on("request", lambda request: seen.requests.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_function(DRAWN, timeout=LIMIT_MS)
    return seen

"""A headless Chromium as the machine has it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

ARGUMENTS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
LIMIT_MS = 120_000
"""Of everything that is waited for in a page: Playwright's own 30 s are too short for a machine that has much to do."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """
    A browser. CI promises one, so none is a failure.

    Playwright keeps an event loop running on this thread until the end of the block, and no asynchronous test can run
    meanwhile: never hold it for longer than a module.
    """
    path = shutil.which("chromium")
    if path is None:
        pytest.fail("no chromium on PATH: install it (Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS), timeout=LIMIT_MS)
        try:
            yield browser
        finally:
            browser.close()


def new_context(browser: Browser, **options: Any) -> BrowserContext:  # noqa: ANN401 -- Playwright's
    """Return a context of a browser's, in which nothing is waited for longer than `LIMIT_MS`."""
    context = browser.new_context(**options)
    context.set_default_timeout(LIMIT_MS)
    return context


@contextmanager
def quiet_page(path: Path) -> Iterator[Page]:
    """A file's page, on whose console no error may stand at the end."""
    errors: list[str] = []
    with chromium() as browser:
        page = new_context(browser).new_page()
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(path.as_uri())
        yield page
    assert errors == []

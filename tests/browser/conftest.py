"""A headless Chromium, and the sample report as a file."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.browser.pages import Pages
from tests.chromium import chromium

from stepbench.report.page import render_page
from stepbench.report.summary import RunFacts, summarise
from stepbench.testing.sample_results import sample_manifest, sample_results

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Report(NamedTuple):
    """What a run leaves: the page, and the numbers that it has to show."""

    page: Path
    summary: Path


@pytest.fixture(scope="module")
def pages() -> Iterator[Pages]:
    """Of one browser for the module; see `tests.chromium` for why not for longer."""
    with chromium() as browser:
        yield Pages(browser)


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The sample run, as files in a folder."""
    folder = tmp_path_factory.mktemp("report")
    facts = RunFacts(
        run_id="run-1",
        plan="quick-unloaded",
        started_at=datetime(2025, 6, 1, 12, 0, tzinfo=UTC),
        finished_at=datetime(2025, 6, 1, 12, 2, 14, tzinfo=UTC),
    )
    results = sample_results()
    summary = summarise(facts, results)
    files = Report(folder / "report.html", folder / "summary.json")
    files.page.write_text(render_page(summary, results, sample_manifest(), {"name": "quick-unloaded"}), "utf-8")
    files.summary.write_text(summary.model_dump_json(by_alias=True), "utf-8")
    return files

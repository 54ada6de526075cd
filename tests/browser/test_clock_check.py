"""The clock check in a real browser."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from stepbench.analysis.clock_check import clock_checks
from stepbench.report.page import render_page
from stepbench.report.summary import RunFacts, summarise
from stepbench.testing.checked_clocks import checked_pair
from stepbench.testing.sample_results import sample_manifest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser.pages import Pages

pytestmark = pytest.mark.browser


def test_both_distributions_are_drawn_with_their_distance(pages: Pages, tmp_path: Path) -> None:
    """In silence, for either measure; D stands at the mark, in the sentence and in the table."""
    specs, results = checked_pair(shift_ms=1)
    begin = datetime(2025, 6, 1, 12, 0, tzinfo=UTC)
    summary = summarise(RunFacts("run-3", "quick-clock", begin, begin, stopped=False), results)
    summary = summary.model_copy(update={"clock_checks": clock_checks(specs, results)})
    file = tmp_path / "report.html"
    file.write_text(render_page(summary, results, sample_manifest()), "utf-8")
    ks = summary.clock_checks[0].comparisons[0].ks
    assert ks is not None
    seen = pages.look(file)
    assert seen.console == []
    assert seen.requests == [file.as_uri()]
    for place in (0, 1):
        figure = seen.page.locator(f"#clock-{place} svg.marks")
        assert figure.get_by_text(f"D = {ks.d:.3f}", exact=True).count() == 1
        assert figure.locator("path[stroke-dasharray]").count() >= 1
    row = seen.page.locator("#clock-check-table tr[data-measure='latency_ms']")
    assert float(str(row.locator("[data-metric='d']").get_attribute("data-value"))) == ks.d
    assert f"(D {ks.d:.3f} > 0.136" in seen.page.locator("#clock-check .sentences").inner_text()

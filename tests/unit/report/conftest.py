"""One made-up run for all tests of the report."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from stepbench.report.page import render_page
from stepbench.report.summary import RunFacts, summarise
from stepbench.testing.sample_results import sample_manifest, sample_results

if TYPE_CHECKING:
    from stepbench.contracts.result import RunSummary, TrialResult

FACTS = RunFacts(
    run_id="run-1",
    plan="quick-unloaded",
    started_at=datetime(2025, 6, 1, 12, 0, tzinfo=UTC),
    finished_at=datetime(2025, 6, 1, 12, 2, 14, tzinfo=UTC),
)


@pytest.fixture(scope="session")
def facts() -> RunFacts:
    """A run of two minutes."""
    return FACTS


@pytest.fixture(scope="session")
def results() -> tuple[TrialResult, ...]:
    """Four stores: one with three losses, one that ended early."""
    return sample_results()


@pytest.fixture(scope="session")
def summary(results: tuple[TrialResult, ...]) -> RunSummary:
    """Their summary."""
    return summarise(FACTS, results)


@pytest.fixture(scope="session")
def page(results: tuple[TrialResult, ...], summary: RunSummary) -> str:
    """Their page."""
    return render_page(summary, results, sample_manifest("run-1"), {"name": "quick-unloaded"})

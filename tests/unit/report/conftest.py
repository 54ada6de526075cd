"""One made-up run for all tests of the report."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from stepbench.analysis.share import trigger_shares
from stepbench.report.page import render_page
from stepbench.report.summary import RunFacts, summarise
from stepbench.testing.sample_experiments import elastic_results, matrix_results, sample_applications
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


@pytest.fixture(scope="session")
def elastic() -> tuple[TrialResult, ...]:
    """Two stores across a load step; the second is emulated, loses events, and its generator stood still."""
    return elastic_results()


@pytest.fixture(scope="session")
def experiments(elastic: tuple[TrialResult, ...]) -> tuple[TrialResult, ...]:
    """The same, then a matrix of one dimension with repeats and one of two, numbered through."""
    lined_up = matrix_results([{"target.batch_size": size} for size in (1, 10, 100)], repeats=3)
    grid = [
        {"record.value_bytes": size, "phases[0].load[0].rate_per_s": rate} for size in (100, 1000) for rate in (10, 100)
    ]
    found = [*elastic, *lined_up, *matrix_results(grid, store="dynamodb")]
    return tuple(
        result.model_copy(update={"summary": result.summary.model_copy(update={"index": index})})
        for index, result in enumerate(found)
    )


@pytest.fixture(scope="session")
def experiments_page(experiments: tuple[TrialResult, ...]) -> str:
    """Their page, as of a run on one machine."""
    summary = summarise(FACTS, experiments)
    shares = tuple(trigger_shares(sample_applications(), summary.trials[:2]))
    return render_page(summary.model_copy(update={"shares": shares}), experiments, sample_manifest("run-1"))

"""One made-up run for all tests of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.samples.experiments import elastic_results, experiment_run
from tests.samples.operations import operation_results, over_trials
from tests.samples.results import sample_manifest, sample_results, sample_summary

from stepbench.experiments.report.page import render_page

if TYPE_CHECKING:
    from stepbench.contracts.result import RunSummary, TrialResult


@pytest.fixture(scope="session")
def results() -> tuple[TrialResult, ...]:
    """Return trials of four stores: one with three losses, one that ended early."""
    return sample_results()


@pytest.fixture(scope="session")
def summary(results: tuple[TrialResult, ...]) -> RunSummary:
    """Summarise the trials of four stores."""
    return sample_summary(results)


@pytest.fixture(scope="session")
def page(results: tuple[TrialResult, ...], summary: RunSummary) -> str:
    """Render their page."""
    return render_page(summary, results, sample_manifest("run-1"), {"name": "quick-unloaded"})


@pytest.fixture(scope="session")
def elastic() -> tuple[TrialResult, ...]:
    """Return trials across a load step; the second store is emulated, loses events, and its generator stood still."""
    return elastic_results()


@pytest.fixture(scope="session")
def experiments() -> tuple[TrialResult, ...]:
    """Return the elastic trials, then a matrix of one dimension with repeats and one of two."""
    return experiment_run()[1]


@pytest.fixture(scope="session")
def experiments_page() -> str:
    """Render their page, as of a run on one machine."""
    return render_page(*experiment_run(), sample_manifest())


@pytest.fixture(scope="session")
def operated() -> tuple[TrialResult, ...]:
    """Return trials of operations: stores, reuse, TLS, two ladders of clients."""
    return operation_results()


@pytest.fixture(scope="session")
def run(operated: tuple[TrialResult, ...]) -> RunSummary:
    """Summarise the trials of operations."""
    return over_trials(sample_summary(operated))

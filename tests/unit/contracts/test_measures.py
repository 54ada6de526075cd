"""A window's counts of outcomes, in this version and as older summaries have them."""

from __future__ import annotations

import pytest
from tests.samples.operations import operation_results
from tests.samples.results import sample_window

from stepbench.contracts.measures import WindowResult


@pytest.mark.parametrize(("sent", "failed", "unknown", "share"), [(200, 3, 1, 0.02), (200, 0, 0, 0.0), (0, 0, 0, None)])
def test_the_share_of_errors_is_of_all_that_was_sent(sent: int, failed: int, unknown: int, share: float | None) -> None:
    """Where nothing was sent there is no share, not one of 0."""
    counts = {"sent": sent, "failed": failed, "unknown": unknown}
    assert sample_window("w", [1.0]).model_copy(update=counts).error_share == share


def test_an_older_summary_is_read() -> None:
    """Its windows counted outcomes by kind alone, and the errors stood below what only operations have."""
    window = next(each for result in operation_results() for each in result.summary.windows if each.errors)
    assert window.failed + window.unknown == sum(window.errors.values()) > 0
    document = window.model_dump(mode="json")
    older = {name: value for name, value in document.items() if name not in {"sent", "failed", "unknown", "errors"}}
    older["operations"] = {**older["operations"], "errors": document["errors"]}
    assert WindowResult.model_validate(older) == window

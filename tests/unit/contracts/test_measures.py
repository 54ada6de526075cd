"""A window's counts of outcomes, in this version and as older summaries have them."""

from __future__ import annotations

from tests.samples.operations import operation_results

from stepbench.contracts.measures import WindowResult


def test_an_older_summary_is_read() -> None:
    """Its windows counted outcomes by kind alone, and the errors stood below what only operations have."""
    window = next(each for result in operation_results() for each in result.summary.windows if each.errors)
    assert window.failed + window.unknown == sum(window.errors.values()) > 0
    document = window.model_dump(mode="json")
    older = {name: value for name, value in document.items() if name not in {"sent", "failed", "unknown", "errors"}}
    older["operations"] = {**older["operations"], "errors": document["errors"]}
    assert WindowResult.model_validate(older) == window

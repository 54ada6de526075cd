"""A window's counts of outcomes, in this version and as older summaries have them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from pydantic import ValidationError
from tests.samples.operations import operation_results

from stepbench.contracts.measures import Estimate, WindowResult


def test_an_older_summary_is_read() -> None:
    """Its windows counted outcomes by kind alone, and the errors stood below what only operations have."""
    window = next(each for result in operation_results() for each in result.summary.windows if each.errors)
    assert window.failed + window.unknown == sum(window.errors.values()) > 0
    document = window.model_dump(mode="json")
    older = {name: value for name, value in document.items() if name not in {"sent", "failed", "unknown", "errors"}}
    older["operations"] = {**older["operations"], "errors": document["errors"]}
    assert WindowResult.model_validate(older) == window


@pytest.mark.parametrize(
    "numbers",
    [
        {"value": math.inf},
        {"value": math.nan},
        {"value": 1.0, "low": -math.inf},
        {"value": 1.0, "low": 0.5, "high": math.inf},
        {"value": 1e308},
        {"value": 1.0, "low": 0.5, "high": -1.0},
    ],
)
def test_a_number_that_nothing_can_have_measured_is_refused(numbers: dict[str, Any]) -> None:
    """A summary that somebody else has written reaches comparisons, which took logarithms and squares of these."""
    with pytest.raises(ValidationError):
        Estimate.model_validate_json(json.dumps(numbers))

"""What became of a threshold, in this version and as older summaries have it."""

from __future__ import annotations

import pytest

from stepbench.contracts.thresholds import ThresholdResult


@pytest.mark.parametrize(("passed", "state"), [(True, "passed"), (False, "failed")])
def test_an_older_result_is_read(passed: bool, state: str) -> None:  # noqa: FBT001 -- as the document has it
    """Runs are compared over months; theirs had `passed` and a `share`, since all thresholds were about errors."""
    where = {"threshold": "errors < 1 %", "trial": 0, "name": "etcd", "phase": "p", "window": "w"}
    found = ThresholdResult.model_validate({**where, "share": 0.02, "limit": 0.01, "passed": passed})
    assert (found.state, found.value, found.unit, found.limit) == (state, 0.02, "share", 0.01)
    assert ThresholdResult.model_validate_json(found.model_dump_json()) == found

"""Why a trial ended badly, in words for a reader."""

from __future__ import annotations

import json

import pytest

from stepbench.contracts.result import Failure

RAISED = {"errorMessage": "trial t-0001 is cancelled", "errorType": "TrialCancelledError", "stackTrace": ["  File …"]}


@pytest.mark.parametrize(
    ("cause", "told"),
    [
        (json.dumps(RAISED), "trial t-0001 is cancelled"),
        pytest.param(f"Cancelled: {json.dumps(RAISED)}", "Cancelled: trial t-0001 is cancelled", id="passed on"),
        ("stopped by the user", "stopped by the user"),
        ("no key {a} there", "no key {a} there"),
        ('{"other": 1}', '{"other": 1}'),
        ("[1]", "[1]"),
        ("", ""),
    ],
)
def test_what_a_function_raised_is_told_without_its_stack(cause: str, told: str) -> None:
    """Twenty lines of file names are no answer; the function's log has them."""
    assert Failure(error="E", cause=cause).cause == told

"""Doubts about a measured function, of the planted trial."""

from __future__ import annotations

import pytest
from tests.samples.measured_functions import MeasuredTrial


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Return the trial's caveats by kind."""
    return {caveat.kind: caveat.text for caveat in MeasuredTrial().result().summary.caveats}


def test_errors_are_counted_by_type_in_invocations(texts: dict[str, str]) -> None:
    """Three invocations took 24 events along."""
    assert texts["handler_errors"] == (
        "3 invocations of the measured function failed (KeyError 1, Sandbox.Timedout 1, partial batch failures 1), of "
        "which 1 never ended; 24 events had to be tried again."
    )


def test_what_was_never_processed_is_grave(texts: dict[str, str]) -> None:
    """The invocation that never ended had ten."""
    assert texts["never_processed"] == (
        "10 events arrived, and 120 s after the last acknowledgement no invocation had processed them."
    )
    assert list(texts)[:2] == ["never_processed", "handler_errors"]


def test_what_was_processed_twice_calls_for_an_idempotent_function(texts: dict[str, str]) -> None:
    """One batch of ten was delivered again though it had been processed."""
    assert texts["processed_twice"].startswith("Processed again, after the first time: 10 events")

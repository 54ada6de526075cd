"""Models of a tuned store: which of their configurations are to be chosen from."""

from __future__ import annotations

import pytest
from tests.samples.tuning import BROADCAST, CACHED, confirmation, model


@pytest.mark.parametrize(("low", "held"), [(1.02, True), (0.98, False), (None, False)])
def test_a_gain_that_did_not_hold_makes_no_candidate(low: float | None, held: bool) -> None:  # noqa: FBT001 -- of a test
    """Most configurations that were the best under noise are not, once they are started anew."""
    tuned = model(confirmations=(confirmation(CACHED, BROADCAST, low=low),))
    assert tuned.candidates == ((None, CACHED) if held else (None,))

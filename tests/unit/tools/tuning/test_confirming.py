"""Whether a gain is there on new starts."""

from __future__ import annotations

import pytest
from tests.samples.tuning import BROADCAST, CACHED

from stepbench_tools.tuning.confirming import confirm, kept_share
from stepbench_tools.tuning.search import Evaluation


def starts(*gains: float) -> list[Evaluation]:
    """Return a start for each gain."""
    return [Evaluation(CACHED, (100.0,), (100 * gain,)) for gain in gains]


def test_six_starts_that_all_gain_are_sure() -> None:
    """By hand: of six the extremes enclose the median with 96.9 %, so that the interval is a little inside of them."""
    found = confirm(BROADCAST, starts(1.1, 1.2, 1.3, 1.1, 1.2, 1.3), found_gain=1.25, predicted_per_s=130)
    assert found.gain == pytest.approx(1.2)
    assert found.measured_per_s == pytest.approx(120)
    assert found.holds
    assert kept_share(found) == pytest.approx(0.8)  # 0.2 of 0.25


def test_a_gain_with_losses_among_it_is_not() -> None:
    """One start in three was slower than as released: nobody should pay a restart for that."""
    found = confirm(BROADCAST, starts(0.9, 1.2, 1.3, 0.95, 1.2, 1.3), found_gain=1.25, predicted_per_s=130)
    assert found.gain_low is not None
    assert not found.holds


def test_too_few_starts_have_no_interval() -> None:
    """And what has none is no candidate."""
    found = confirm(BROADCAST, starts(1.2, 1.2, 1.2, 1.2, 1.2), found_gain=1.2, predicted_per_s=130)
    assert (found.gain_low, found.holds) == (None, False)

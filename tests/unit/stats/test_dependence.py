from __future__ import annotations

import math

import numpy as np
import pytest
from tests.samples.estimates import autoregressive

from stepbench.stats import dependence
from stepbench.stats.dependence import autocorrelation, autocorrelation_time, first_order_time, ljung_box, ranks


def test_the_autocorrelation_of_a_ramp() -> None:
    """R prints for acf(1:10): 1.000, 0.700, 0.412, 0.148."""
    found = autocorrelation(np.arange(1.0, 11.0), 3)
    assert found == pytest.approx([1, 0.7, 0.412121, 0.148485], abs=1e-6)


def test_ljung_box_of_a_ramp() -> None:
    """Worked by hand: Q = 10 * 12 * (0.7^2 / 9 + 0.412^2 / 8) = 9.081 on 2 degrees of freedom, so exp(-Q / 2)."""
    q = 120 * (0.49 / 9 + 0.4121212**2 / 8)
    assert ljung_box(np.arange(1.0, 11.0)) == pytest.approx(math.exp(-q / 2), rel=1e-6)


def test_ljung_box_calls_one_independent_sample_in_twenty_dependent() -> None:
    """A test that rejected more would rob short samples of their intervals."""
    rng = np.random.default_rng(3)
    rejected = np.mean([ljung_box(ranks(rng.exponential(size=200))) < 0.05 for _ in range(2_000)])
    assert 0.035 < rejected < 0.07


def test_too_few_values_show_nothing() -> None:
    """Four values have no lag worth testing."""
    assert ljung_box(np.array([1.0, 2, 3, 4])) == 1


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.8])
def test_the_time_of_an_autoregressive_series(phi: float) -> None:
    """It is known in closed form: (1 + phi) / (1 - phi)."""
    assert autocorrelation_time(autoregressive(phi, 50_000)) == pytest.approx((1 + phi) / (1 - phi), rel=0.1)


def test_the_first_autocorrelation_alone_implies_a_time() -> None:
    """A ramp's is 0.7 (see above), so 1.7 / 0.3; a constant, or one that alternates, implies none."""
    assert first_order_time(np.arange(1.0, 11.0)) == pytest.approx(17 / 3)
    assert first_order_time(np.ones(5)) == 1
    assert first_order_time(np.tile([0.0, 1.0], 5)) == 1


def test_averaging_over_neighbours_does_not_change_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten million values are averaged before the transform."""
    series = autoregressive(0.9, 60_000)
    monkeypatch.setattr(dependence, "MAX_POINTS", 2_000)
    assert autocorrelation_time(series) == pytest.approx(19, rel=0.2)


def test_a_series_that_alternates_is_not_taken_for_more_than_it_is() -> None:
    """Its time is below 1; counting more events than there are would be bold."""
    assert autocorrelation_time(np.tile([0.0, 1.0], 100)) == 1


def test_a_constant_series_is_no_dependence() -> None:
    """A clock of coarse resolution gives such: no division by zero."""
    assert autocorrelation_time(np.full(100, 5.0)) == 1
    assert ljung_box(np.full(100, 5.0)) == 1


def test_ranks_take_missing_values_as_the_largest() -> None:
    """Lost events come in bursts, which is dependence too."""
    assert ranks(np.array([3.0, math.inf, 1, math.inf])).tolist() == [2, 3.5, 1, 3.5]

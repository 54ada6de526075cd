from __future__ import annotations

import pytest
import scipy

from stepbench.stats.tails import chi_squared_above, incomplete_beta, kolmogorov_above


@pytest.mark.parametrize("a", [0.5, 1.0, 3.7, 40.0, 3_000.0])
@pytest.mark.parametrize("b", [0.5, 2.0, 90.0, 700.0])
def test_the_beta_distribution_is_scipys(a: float, b: float) -> None:
    """Intervals of quantiles rest on it; SciPy is the judge here, and not needed where they are computed."""
    for x in (0.0, 0.01, 0.3, a / (a + b), 0.99, 1.0):
        assert incomplete_beta(a, b, x) == pytest.approx(scipy.special.betainc(a, b, x), abs=1e-10)


def test_a_beta_of_one_and_one_is_uniform() -> None:
    """By hand: the share below 0.3 is 0.3; of two draws the larger is below it in 9 of 100 cases."""
    assert incomplete_beta(1, 1, 0.3) == pytest.approx(0.3)
    assert incomplete_beta(2, 1, 0.3) == pytest.approx(0.09)


@pytest.mark.parametrize("degrees", [1, 2, 5, 10, 11])
def test_chi_squared_is_scipys(degrees: int) -> None:
    """Odd and even degrees are summed differently."""
    for value in (0.0, 0.1, 3.84, 18.3, 60.0):
        assert chi_squared_above(degrees, value) == pytest.approx(scipy.special.chdtrc(degrees, value), abs=1e-12)


def test_kolmogorovs_five_percent_point_is_1_358() -> None:
    """Published: Smirnov (1948), Annals of Mathematical Statistics 19(2)."""
    assert kolmogorov_above(1.3581) == pytest.approx(0.05, abs=1e-5)
    assert kolmogorov_above(0.1) == 1
    assert kolmogorov_above(0.25) == pytest.approx(scipy.special.kolmogorov(0.25), abs=1e-12)

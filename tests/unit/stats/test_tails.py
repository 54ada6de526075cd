from __future__ import annotations

import math

import numpy as np
import pytest
import scipy

from stepbench.stats.tails import (
    MAX_EXACT,
    chi_squared_above,
    critical_distance,
    distance,
    incomplete_beta,
    kolmogorov_above,
    kolmogorov_smirnov,
)


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


def test_the_distance_is_the_largest_step_between_the_curves() -> None:
    """Worked by hand: at 3 all of a lies below, and 1 of 4 of b."""
    found = kolmogorov_smirnov([1, 2, 3], [2.5, 4, 5, 6])
    assert found.d == pytest.approx(0.75)
    assert found.at_ms == 3
    assert (found.n, found.m) == (3, 4)


def test_exact_probability_of_complete_separation() -> None:
    """Two of the 70 orders of 4 and 4 values keep them apart: p = 2 / 70."""
    found = kolmogorov_smirnov(range(4), range(10, 14))
    assert found.d == 1
    assert found.p_value == pytest.approx(2 / 70)


def test_critical_distance_of_the_papers_clock_check() -> None:
    """200 against 200: 1.358 * sqrt(400 / 40000) = 0.1358 (Smirnov's table); the paper's 0.14 is just above it."""
    found = kolmogorov_smirnov(range(200), range(200))
    assert found.critical_d == pytest.approx(0.1358, abs=5e-5)
    assert (found.d, found.p_value) == (0, 1)


def test_missing_values_count_as_the_largest() -> None:
    """Half of b is lost."""
    found = kolmogorov_smirnov([1, 2], [1, math.inf])
    assert found.d == pytest.approx(0.5)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (5, 8), (30, 31), (200, 200), (200, 150), (1, 40)])
@pytest.mark.parametrize("shift", [0.0, 0.3, 5.0])
def test_it_says_what_scipy_says(n: int, m: int, shift: float) -> None:
    """Ties are included: times are rounded to nanoseconds, and may repeat."""
    rng = np.random.default_rng([n, m])
    a, b = np.round(rng.exponential(size=n), 2), np.round(rng.exponential(size=m) + shift, 2)
    found, known = kolmogorov_smirnov(a.tolist(), b.tolist()), scipy.stats.ks_2samp(a, b, method="exact")
    assert found.d == pytest.approx(known.statistic)
    assert found.p_value == pytest.approx(known.pvalue, rel=1e-6, abs=1e-12)
    assert found.at_ms == known.statistic_location


def test_large_samples_get_the_asymptotic_probability() -> None:
    """SciPy computes it by another formula; both are Kolmogorov's limit."""
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=MAX_EXACT + 1), rng.normal(size=MAX_EXACT + 1) + 0.05
    found = kolmogorov_smirnov(a.tolist(), b.tolist())
    assert found.p_value == pytest.approx(scipy.stats.kstwobign.sf(found.d * math.sqrt((MAX_EXACT + 1) / 2)), rel=1e-6)
    assert kolmogorov_smirnov(a.tolist(), a.tolist()).p_value == 1


def test_it_rejects_one_in_twenty_of_equal_distributions() -> None:
    """Critical D of 5 %: asymptotic, so a little less often."""
    rng = np.random.default_rng(2)
    pairs = (distance(rng.exponential(size=200).tolist(), rng.exponential(size=200).tolist()) for _ in range(2_000))
    critical_d = critical_distance(200, 200)
    assert 0.03 <= np.mean([steps / 40_000 > critical_d for steps, _ in pairs]) <= 0.06

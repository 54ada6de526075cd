from __future__ import annotations

import math

import numpy as np
import pytest

from stepbench.stats.two_sample import kolmogorov_smirnov


def test_the_distance_is_the_largest_step_between_the_curves() -> None:
    """By hand: at 3 all of a lies below, and 1 of 4 of b."""
    found = kolmogorov_smirnov(np.array([1.0, 2, 3]), np.array([2.5, 4, 5, 6]))
    assert found.d == pytest.approx(0.75)
    assert (found.n, found.m) == (3, 4)


def test_exact_probability_of_complete_separation() -> None:
    """Of the 70 orders of 4 and 4 values, two keep them apart: p = 2 / 70."""
    found = kolmogorov_smirnov(np.arange(4.0), np.arange(4.0) + 10)
    assert found.d == 1
    assert found.p_value == pytest.approx(2 / 70)


def test_critical_distance_of_the_papers_clock_check() -> None:
    """200 against 200: 1.358 * sqrt(400 / 40000) = 0.1358 (Smirnov's table); the paper's 0.14 is just above it."""
    found = kolmogorov_smirnov(np.arange(200.0), np.arange(200.0))
    assert found.critical_d == pytest.approx(0.1358, abs=5e-5)
    assert (found.d, found.p_value) == (0, 1)


def test_missing_values_count_as_the_largest() -> None:
    """Half of b lost."""
    found = kolmogorov_smirnov(np.array([1.0, 2]), np.array([1.0, math.inf]))
    assert found.d == pytest.approx(0.5)


def test_it_rejects_one_in_twenty_of_equal_distributions() -> None:
    """Critical D of 5 %: asymptotic, so a little less often."""
    rng = np.random.default_rng(2)
    pairs = (kolmogorov_smirnov(rng.exponential(size=200), rng.exponential(size=200)) for _ in range(2_000))
    assert 0.03 <= np.mean([found.d > found.critical_d for found in pairs]) <= 0.06

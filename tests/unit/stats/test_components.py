from __future__ import annotations

import numpy as np
import pytest

from stepbench.stats.components import has_pairs, variance_components


def test_the_components_of_a_crossed_and_nested_design_are_found() -> None:
    """Mean of 60 simulations of 900 values, to a tenth: sizes 1, hours 0.25, sandboxes 0.49, rest 0.09."""
    rng, found = np.random.default_rng(1), []
    for _ in range(60):
        sandbox = np.arange(900) // 3
        size, hour = rng.integers(0, 40, 300)[sandbox], rng.integers(0, 24, 900)
        effects = rng.normal(0, 1, 40)[size] + rng.normal(0, 0.5, 24)[hour] + rng.normal(0, 0.7, 300)[sandbox]
        found.append(variance_components(effects + rng.normal(0, 0.3, 900), [size, hour, sandbox]))
    assert np.mean(found, axis=0) == pytest.approx([1, 0.25, 0.49, 0.09], rel=0.1)


def test_one_factor_is_the_textbooks_analysis_of_variance() -> None:
    """Balanced groups (1, 3), (5, 7): within 2, between (32 - 2) / 2 = 15, by hand."""
    found = variance_components(np.array([1.0, 3.0, 5.0, 7.0]), [np.array([0, 0, 1, 1])])
    # Pairs of one group: half of 4, mean 2. All six pairs: mean of half squares 2, 2, 8, 18, 2, 8 = 40 / 6.
    assert found[1] == pytest.approx(2)
    assert found[0] == pytest.approx((40 / 6 - 2) / (1 - 2 / 6))


def test_a_small_rest_beside_a_large_factor_is_told() -> None:
    """Sizes make nearly all of S3's variance; what is left is what a reader asks for."""
    rng = np.random.default_rng(2)
    size, hour = rng.integers(0, 9, 700), rng.integers(0, 24, 700)
    values = 3.0 * size + 0.02 * rng.standard_normal(700)
    assert variance_components(values, [size, hour])[2] == pytest.approx(0.0004, rel=0.2)


def test_none_is_negative() -> None:
    """Groups that are more alike than chance would have it: the factor makes nothing."""
    assert variance_components(np.array([1.0, 3.0, 1.0, 3.0]), [np.array([0, 0, 1, 1])])[0] == 0


def test_a_factor_needs_levels_in_common_and_apart() -> None:
    """One transfer a sandbox tells nothing of sandboxes, and neither does a single one."""
    assert not has_pairs(np.arange(5))
    assert not has_pairs(np.zeros(5, np.int64))
    assert has_pairs(np.array([0, 0, 1]))

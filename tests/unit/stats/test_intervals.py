from __future__ import annotations

import numpy as np
import pytest
import scipy

from stepbench.stats.intervals import Series, share

Values = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def independent(n: int, seed: int = 1) -> Values:
    """Return log-normal values."""
    return np.exp(np.random.default_rng(seed).standard_normal(n))


def autocorrelated(n: int, seed: int = 1) -> Values:
    """Return values of which each is nine tenths of the one before."""
    values, rng = np.zeros(n), np.random.default_rng(seed)
    for place in range(1, n):
        values[place] = 0.9 * values[place - 1] + rng.standard_normal()
    return np.exp(values)


@pytest.mark.parametrize(("q", "needed"), [(0.5, 6), (0.05, 72), (0.9, 36), (0.99, 368)])
def test_a_quantile_has_an_interval_from_so_many_values_on(q: float, needed: int) -> None:
    """The thresholds of the design; one value fewer says why it has none, and still has its number."""
    few, enough = Series(independent(needed - 1)).quantile(q), Series(independent(needed)).quantile(q)
    assert few.value is not None
    assert (few.low, few.high, few.reason) == (None, None, f"n={needed - 1} < {needed}")
    assert enough.low is not None
    assert enough.high is not None


def test_a_means_interval_is_students() -> None:
    """SciPy is the judge: independent values count in full."""
    values = independent(30)
    found, expected = Series(values).mean(), scipy.stats.t.interval(0.95, 29, values.mean(), scipy.stats.sem(values))
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-3)


def test_what_depends_on_the_value_before_counts_for_less() -> None:
    """An interval as of independent values would be some four times too short."""
    dependent = Series(autocorrelated(2_000))
    assert dependent.dependent
    assert dependent.effective_size() < 300
    shuffled = Series(np.random.default_rng(2).permutation(dependent.values))
    assert not shuffled.dependent
    length = [(each.mean().high or 0) - (each.mean().low or 0) for each in (dependent, shuffled)]
    assert length[0] > 2 * length[1]


def test_transfers_of_one_sandbox_count_once() -> None:
    """A hundred transfers of five sandboxes say little of the sixth."""
    assert Series(independent(100), groups=5).quantile(0.9).reason == "5 of 100 independent < 36"


def test_a_ratio_of_quantiles_holds_the_truth_in_nineteen_of_twenty_samples() -> None:
    """400 samples of 150 log-normal values: 95 % ± 2.2 by chance."""
    truth, rng = float(np.exp(2 * 1.6448536)), np.random.default_rng(4)
    found = [Series(independent(150, seed)).quantile_ratio(0.95, 0.05, rng) for seed in range(400)]
    hits = [each.low is not None and each.high is not None and each.low <= truth <= each.high for each in found]
    assert 0.92 <= np.mean(hits) <= 0.98


def test_a_ratio_needs_both_its_ends() -> None:
    """Of 71 values p5 has no interval, and so has p95 over p5."""
    assert Series(independent(71)).quantile_ratio(0.95, 0.05, np.random.default_rng(1)).reason == "n=71 < 72"


def test_no_values_have_no_numbers() -> None:
    """A cell whose transfers have all failed is in the table."""
    nothing = Series(np.empty(0))
    found = nothing.mean(), nothing.quantile(0.5), nothing.quantile_ratio(0.95, 0.05, np.random.default_rng(1))
    assert {(each.value, each.reason) for each in found} == {(None, "nothing was measured")}


def test_a_share_of_nothing_has_an_upper_limit() -> None:
    """Wilson (1927): of 100 without a hit it is z² / (n + z²)."""
    found = share(0, 100)
    assert (found.value, found.low) == (0, 0)
    assert found.high == pytest.approx(1.96**2 / (100 + 1.96**2), rel=1e-3)
    assert share(0, 0).value is None

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from tests.samples.estimates import autoregressive

from stepbench.stats import dependence
from stepbench.stats.dependence import (
    DependentSeries,
    autocorrelation,
    autocorrelation_time,
    first_order_time,
    ljung_box,
    ranks,
)


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
    few, enough = DependentSeries(independent(needed - 1)).quantile(q), DependentSeries(independent(needed)).quantile(q)
    assert few.value is not None
    assert (few.low, few.high, few.reason) == (None, None, f"n={needed - 1} < {needed}")
    assert enough.low is not None
    assert enough.high is not None


def test_a_means_interval_is_students() -> None:
    """SciPy is the judge: independent values count in full."""
    values = independent(30)
    found, expected = (
        DependentSeries(values).mean(),
        scipy.stats.t.interval(0.95, 29, values.mean(), scipy.stats.sem(values)),
    )
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-3)


def test_what_depends_on_the_value_before_counts_for_less() -> None:
    """An interval as of independent values would be some four times too short."""
    dependent = DependentSeries(autocorrelated(2_000))
    assert dependent.dependent
    assert dependent.effective_size() < 300
    shuffled = DependentSeries(np.random.default_rng(2).permutation(dependent.values))
    assert not shuffled.dependent
    length = [(each.mean().high or 0) - (each.mean().low or 0) for each in (dependent, shuffled)]
    assert length[0] > 2 * length[1]


def test_transfers_of_one_sandbox_count_once() -> None:
    """A hundred transfers of five sandboxes say little of the sixth."""
    assert DependentSeries(independent(100), groups=5).quantile(0.9).reason == "5 of 100 independent < 36"


def test_a_ratio_of_quantiles_holds_the_truth_in_nineteen_of_twenty_samples() -> None:
    """400 samples of 150 log-normal values: 95 % ± 2.2 by chance."""
    truth, rng = float(np.exp(2 * 1.6448536)), np.random.default_rng(4)
    found = [DependentSeries(independent(150, seed)).quantile_ratio(0.95, 0.05, rng) for seed in range(400)]
    hits = [each.low is not None and each.high is not None and each.low <= truth <= each.high for each in found]
    assert 0.92 <= np.mean(hits) <= 0.98


def test_a_ratio_needs_both_its_ends() -> None:
    """Of 71 values p5 has no interval, and so has p95 over p5."""
    assert DependentSeries(independent(71)).quantile_ratio(0.95, 0.05, np.random.default_rng(1)).reason == "n=71 < 72"


def test_no_values_have_no_numbers() -> None:
    """A cell whose transfers have all failed is in the table."""
    nothing = DependentSeries(np.empty(0))
    found = nothing.mean(), nothing.quantile(0.5), nothing.quantile_ratio(0.95, 0.05, np.random.default_rng(1))
    assert {(each.value, each.reason) for each in found} == {(None, "nothing was measured")}

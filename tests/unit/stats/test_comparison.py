from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from tests.samples.estimates import Values, even_sample, numbers, order_statistic_interval

from stepbench.contracts.measures import Estimate
from stepbench.errors import InsufficientSampleError
from stepbench.stats import comparison
from stepbench.stats.bootstrap import block_weights
from stepbench.stats.quantiles import at_level, at_levels


def compare(a: Values, b: Values) -> comparison.Differences:
    """Compare even samples of these values."""
    return comparison.compare(even_sample(a), even_sample(b), np.random.default_rng(1))


def median_shift(a: Values, b: Values) -> Estimate:
    """Compute the median's shift alone."""
    return comparison.median_shift(even_sample(a), even_sample(b), np.random.default_rng(1))


def quantile_draws(values: Values, qs: tuple[float, ...], draws: int) -> Values:
    """Draw quantiles of an even sample."""
    return comparison.quantile_draws(even_sample(values), qs, np.random.default_rng(1), draws)


def normal(n: int, seed: int) -> Values:
    """Draw around 10 with deviation 1; of the seeds used Ljung-Box sees nothing."""
    return 10 + np.random.default_rng(seed).standard_normal(n)


def ends(estimate: Estimate) -> tuple[float, float]:
    """Return both limits, which there must be."""
    low, _, high = numbers(estimate)
    return low, high


def test_estimates_are_the_samples_own() -> None:
    """1...99 and 2...198: medians 50 and 100, interquartile ranges 49 and 98, p90 90.2 and 180.4; shuffled."""
    order = np.random.default_rng(3).permutation(99)
    a = np.arange(1.0, 100.0)[order]
    found = compare(a, 2 * a)
    assert found.median_shift.value == pytest.approx(50)
    assert found.median_ratio.value == pytest.approx(2)
    assert found.iqr_ratio.value == pytest.approx(2)
    assert found.tail_ratio.value == pytest.approx(1)
    for estimate in found:
        low, value, high = numbers(estimate)
        assert low < value < high


def test_a_shift_moves_its_interval_and_a_scale_the_ratios() -> None:
    """Properties: adding 5 to b adds 5 to the shift; multiplying both by 3 leaves all ratios as they were."""
    a, b = normal(200, 2), normal(200, 3)
    shifts = [median_shift(a, b + more) for more in (0, 5)]
    assert ends(shifts[1]) == pytest.approx([end + 5 for end in ends(shifts[0])])
    before, after = compare(a, b), compare(3 * a, 3 * b)
    assert ends(after.iqr_ratio) == pytest.approx(ends(before.iqr_ratio))
    assert ends(after.tail_ratio) == pytest.approx(ends(before.tail_ratio))


def test_draws_have_the_quantiles_own_interval() -> None:
    """The middle 95 % of draws of one quantile of independent values are Hutson's interval."""
    values = normal(200, 2)
    drawn = quantile_draws(values, (0.5, 0.9), 40_000)
    for place, q in enumerate((0.5, 0.9)):
        expected = order_statistic_interval(np.sort(values), q)
        assert np.quantile(drawn[:, place], [0.025, 0.975]) == pytest.approx(expected, abs=0.02)
    assert (drawn[:, 0] <= drawn[:, 1]).all()


def test_levels_at_once_are_the_levels_one_by_one() -> None:
    """Missing values are included: what touches one is missing."""
    ascending = np.array([1.0, 2.0, 4.0, math.inf, math.inf])
    levels = np.array([0.0, 0.2, 1 / 3, 0.5, 0.55, 0.7, 1.0])
    expected = [at_level(ascending, level) for level in levels]
    assert at_levels(ascending, levels).tolist() == expected


def test_too_few_values_say_in_which_window() -> None:
    """A p90 needs 36."""
    found = compare(normal(200, 2), normal(20, 3))
    assert (found.tail_ratio.low, found.tail_ratio.reason) == (None, "b: n=20 < 36")
    assert found.tail_ratio.value is not None
    assert found.median_shift.low is not None


def test_a_median_that_never_arrived_is_beyond_the_drain_limit() -> None:
    """Two thirds are lost."""
    b = normal(210, 3)
    b[np.random.default_rng(1).permutation(210)[:140]] = np.inf
    found = compare(normal(200, 2), b)
    assert {estimate.reason for estimate in found} == {"> drain limit (120 s)"}


@pytest.mark.parametrize(("first", "end", "missing"), [(True, "lower", "low"), (False, "upper", "high")])
def test_an_interval_that_reaches_into_the_missing_mass_has_one_end(first: bool, end: str, missing: str) -> None:  # noqa: FBT001
    """45 % lost: the median arrived, and the upper limit of its interval did not."""
    spoilt = normal(200, 4)
    spoilt[np.random.default_rng(2).permutation(200)[:92]] = np.inf
    pair = (spoilt, normal(200, 2))
    found = median_shift(*(pair if first else pair[::-1]))
    assert found.value is not None
    assert getattr(found, missing) is None
    assert getattr(found, "low" if missing == "high" else "high") is not None
    assert found.reason == f"{end} limit > drain limit (120 s)"


def test_missing_mass_over_missing_mass_has_no_end_at_all() -> None:
    """Both medians may have not arrived: then anything may be."""
    spoilt = [normal(200, seed) for seed in (4, 5)]
    for seed, values in enumerate(spoilt):
        values[np.random.default_rng(seed).permutation(200)[:92]] = np.inf
    found = median_shift(spoilt[0], spoilt[1])
    assert found.value is not None
    assert (found.low, found.high) == (None, None)


def test_there_is_no_ratio_to_nothing() -> None:
    """Clocks apart make latencies of 0 and less; equal values have no spread."""
    a, b = np.zeros(200), normal(200, 2)
    found = compare(a, b)
    assert found.median_ratio.reason == "a: its median is not above 0, so there is no ratio to it"
    assert found.iqr_ratio.reason == "a: its interquartile range is not above 0, so there is no ratio to it"
    assert found.median_shift.value is not None


def test_a_ratio_to_what_may_be_nothing_has_no_limits() -> None:
    """The median is 0.05 ± 0.18."""
    found = compare(normal(200, 2) - 9.95, normal(200, 3))
    assert found.median_ratio.value is not None
    assert (found.median_ratio.low, found.median_ratio.high) == (None, None)
    assert found.median_ratio.reason == "a measure of a may be 0, so the ratio has no limits"


def test_an_upper_limit_beyond_the_largest_value_is_none() -> None:
    """All slow values in one of 60 seconds: by blocks, the p99 may lie above all of them."""
    values = np.zeros(3_000)
    values[1_500:1_540] = np.linspace(50, 60, 40)
    weights = block_weights(60, np.random.default_rng(1), 2_000)
    with pytest.raises(InsufficientSampleError, match="beyond the largest value"):
        comparison._block_levels(even_sample(values, per_s=50), (0.5, 0.99), 1.0, weights)


@pytest.mark.parametrize(
    ("phi", "length_s", "count", "chance"),
    [
        (0.0, 10, 250, 0.04),
        (0.5, 30, 60, 0.07),
        pytest.param(0.5, 30, 250, 0.04, marks=pytest.mark.nightly("statistics")),
        pytest.param(0.8, 60, 250, 0.04, marks=pytest.mark.nightly("statistics")),
    ],
)
def test_comparisons_cover(phi: float, length_s: int, count: int, chance: float) -> None:
    """
    Two windows of one AR(1) at 20/s: a shift of 0 and ratios of 1 in 95 % of so many pairs.

    `chance`: 2.5 to 3 standard errors, √(0.95 · 0.05 / count).
    """
    n, rng = 20 * length_s, np.random.default_rng(5)
    hits, given = np.zeros(4), np.zeros(4)
    for _ in range(count):
        noise = rng.standard_normal((2, n + 200))
        a, b = 10 + scipy.signal.lfilter([math.sqrt(1 - phi**2)], [1, -phi], noise)[:, 200:]
        differences = comparison.compare(even_sample(a), even_sample(b), rng)
        for place, (estimate, truth) in enumerate(zip(differences, (0, 1, 1, 1), strict=True)):
            if estimate.low is not None and estimate.high is not None:
                given[place] += 1
                hits[place] += estimate.low <= truth <= estimate.high
    assert (given >= 0.95 * count).all()
    assert (np.abs(hits / given - 0.95) <= chance).all(), (hits / given).tolist()


def test_a_ratio_within_a_sample_errs_less_than_two_that_know_nothing_of_each_other() -> None:
    """p90 over p50 of one log-normal sample: near exp(1.2816 * 0.5); its interval holds it."""
    values = np.exp(0.5 * np.random.default_rng(4).standard_normal(2_000))
    found = comparison.ratio_within(
        even_sample(values), comparison.METRICS["p90"], comparison.METRICS["p50"], np.random.default_rng(1)
    )
    low, high = ends(found)
    assert low < math.exp(1.2816 * 0.5) < high
    apart = comparison.ratio_between(
        even_sample(values),
        even_sample(values),
        comparison.METRICS["p50"],
        comparison.METRICS["p90"],
        np.random.default_rng(1),
    )
    assert apart.value == pytest.approx(found.value)
    low_apart, high_apart = ends(apart)
    assert high - low < high_apart - low_apart


def test_a_ratio_within_too_small_a_sample_says_so() -> None:
    """There is no interval for p99 of 200, and so none for the ratio."""
    found = comparison.ratio_within(
        even_sample(normal(200, 5)), comparison.METRICS["p99"], comparison.METRICS["p50"], np.random.default_rng(1)
    )
    assert (found.low, found.reason) == (None, "n=200 < 368")
    assert found.value is not None

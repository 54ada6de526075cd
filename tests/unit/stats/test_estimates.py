from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal

from stepbench.errors import InsufficientSampleError
from stepbench.stats.estimates import Sample
from stepbench.stats.quantiles import order_statistic_interval

Values = np.ndarray[tuple[int], np.dtype[np.float64]]


def sample(values: Values, per_s: float = 20, drain_limit_s: float = 120) -> Sample:
    """Values at an even rate."""
    at_s = np.arange(values.size) / per_s
    return Sample(values, at_s, values.size / per_s, drain_limit_s, np.random.default_rng(1))


def independent(n: int, seed: int = 5) -> Values:
    """Exponential; the seed is one that Ljung-Box does not see anything in."""
    return np.random.default_rng(seed).exponential(size=n)


def autoregressive(phi: float, n: int, seed: int = 1) -> Values:
    """A skewed AR(1): its exponential."""
    noise = np.random.default_rng(seed).standard_normal(n + 500)
    return np.asarray(np.exp(signal.lfilter([1], [1, -phi], noise)[500:]), dtype=np.float64)


def test_independent_values_get_the_exact_interval_however_short_the_window() -> None:
    """200 events in 10 s: p50, p90 and p95 with intervals, p99 with the reason why not."""
    values = independent(200)
    found = sample(values).latency()
    for q, estimate in ((0.5, found.p50), (0.9, found.p90), (0.95, found.p95)):
        assert (estimate.low, estimate.high) == order_statistic_interval(np.sort(values), q)
        assert estimate.value == pytest.approx(np.quantile(values, q))
    assert (found.p99.value, found.p99.reason) == (None, "n=200 < 368")
    assert (found.p999.value, found.p999.reason) == (None, "n=200 < 3688")


def test_autocorrelated_values_get_the_wider_bootstrap_interval() -> None:
    """With phi = 0.8, nine values are worth one: three times the width that independence would claim."""
    values = autoregressive(0.8, 6_000)
    found, naive = sample(values).estimate(0.5), order_statistic_interval(np.sort(values), 0.5)
    assert found.low is not None
    assert found.high is not None
    assert 2 < (found.high - found.low) / (naive[1] - naive[0]) < 4


def test_an_autocorrelated_short_window_counts_effective_values() -> None:
    """10 s hold no 20 blocks of a second; 200 values with phi = 0.4 are worth some 90."""
    values = autoregressive(0.4, 200, seed=4)
    measured = sample(values)
    assert measured.blocks(0.5) < 20
    assert measured.autocorrelation_time(0.5) > 1.3
    found, naive = measured.estimate(0.5), order_statistic_interval(np.sort(values), 0.5)
    assert found.low is not None
    assert found.high is not None
    assert found.low < naive[0] < naive[1] < found.high


def test_forty_effective_values_are_enough_for_a_median() -> None:
    """200 values with phi = 0.7 are worth some 35: few for a p90, plenty for a p50, which needs 6."""
    found = sample(autoregressive(0.7, 200, seed=3)).latency()
    assert found.p50.low is not None
    assert found.p50.high is not None
    assert found.p50.low < found.p50.high
    assert found.p95.value is None


def test_a_short_window_of_strongly_autocorrelated_values_gets_none() -> None:
    """200 values with phi = 0.98 are worth 2."""
    found = sample(autoregressive(0.98, 200)).estimate(0.5)
    assert found.value is None
    assert found.reason is not None
    assert re.fullmatch(r"\d of 200 independent < 6", found.reason)


def test_slow_events_in_a_row_are_no_independent_ones() -> None:
    """Three stalls of four events hardly show in the ranks, but a p95 hangs on three stalls, not on twelve events."""
    values = independent(200, seed=0)
    for first in (30, 90, 170):
        values[first : first + 4] += 50
    measured = sample(values)
    assert measured.rank_time == 1
    assert measured.autocorrelation_time(0.95) > 2
    found, naive = measured.estimate(0.95), order_statistic_interval(np.sort(values), 0.95)
    assert found.low is not None
    assert found.low < naive[0]


def test_effective_values_have_to_suffice_for_the_quantile() -> None:
    """400 values with phi = 0.8 are worth 44: not 368."""
    found = sample(autoregressive(0.8, 400)).estimate(0.99)
    assert found.value is None
    assert found.reason is not None
    assert re.fullmatch(r"\d\d of 400 independent < 368", found.reason)


def test_one_burst_says_nothing_about_how_often_bursts_are() -> None:
    """All slow events in one burst: whether there is a burst is chance, and its end is not in the sample."""
    values = autoregressive(0.4, 1_200)
    values[600:612] += 50
    measured = sample(values, per_s=10)
    found = measured.estimate(0.99)
    assert found.value is None
    assert found.reason is not None
    assert re.fullmatch(r"\d+ of 1200 independent < 368", found.reason)
    with pytest.raises(InsufficientSampleError, match="upper limit lies beyond the largest value"):
        measured._bootstrap_levels(0.99, 1, 60)


def test_a_quantile_in_the_missing_mass_says_so() -> None:
    """A tenth lost: p50 is known, p95 is not, and nothing is made up for it."""
    values = independent(200)
    values[::10] = math.inf
    found = sample(np.random.default_rng(2).permutation(values), drain_limit_s=30).latency()
    assert found.p50.value is not None
    assert (found.p95.value, found.p95.reason) == (None, "> drain limit (30 s)")
    assert (found.n, found.missing) == (200, 20)
    assert found.max == values[np.isfinite(values)].max()
    assert found.mean is None  # of the survivors it would be the better, the more is lost


def test_an_upper_limit_in_the_missing_mass_says_so() -> None:
    """p90 of 200 with 4 % lost is known; its upper limit is the 189th value of 192 that arrived. With 7 % it is not."""
    values = independent(200)
    values[3:17] = math.inf
    found = sample(np.random.default_rng(3).permutation(values)).estimate(0.9)
    assert found.value is not None
    assert found.low is not None
    assert (found.high, found.reason) == (None, "upper limit > drain limit (120 s)")


def test_nothing_measured_is_no_number() -> None:
    """A phase that was cut off before its first event."""
    found = sample(np.empty(0)).latency()
    assert (found.n, found.p50.reason, found.min, found.mean, found.max) == (0, "n=0 < 6", None, None, None)


def test_a_large_sample_is_never_taken_as_independent() -> None:
    """Any test rejects at 200,000 values; blocks cost nothing there."""
    measured = sample(independent(200_000), per_s=2_000)
    assert measured.autocorrelation_time(0.5) == pytest.approx(1, abs=0.1)
    found = measured.estimate(0.999)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 6.907755 < found.high  # -ln(0.001), by construction


@settings(deadline=None, max_examples=40)
@given(st.floats(0.01, 1_000), st.integers(0, 10_000))
def test_estimates_follow_the_unit(scale: float, seed: int) -> None:
    """Ranks decide on the interval, so nothing but the unit changes."""
    values = np.random.default_rng(seed).exponential(size=100)
    one, other = sample(values).estimate(0.5), sample(values * scale).estimate(0.5)
    assert (one.value is None) == (other.value is None)
    if one.value is not None:
        assert other.value == pytest.approx(one.value * scale)
        assert other.low == pytest.approx((one.low or 0) * scale)

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples.estimates import Values, autoregressive, even_sample, numbers, order_statistic_interval, present

from stepbench.errors import InsufficientSampleError
from stepbench.stats.estimates import LEVELS, NOTHING, Sample, percentile_table


def independent(n: int, seed: int = 5) -> Values:
    """Draw exponential values; in the seed Ljung-Box sees nothing."""
    return np.random.default_rng(seed).exponential(size=n)


def shuffled(n: int) -> Values:
    """Return 1...n in an order without dependence."""
    return np.random.default_rng(3).permutation(np.arange(1.0, n + 1))


def skewed(phi: float, n: int, seed: int = 1) -> Values:
    """Return the exponential of an AR(1)."""
    return np.exp(autoregressive(phi, n, seed))


def test_independent_values_get_the_exact_interval_however_short_the_window() -> None:
    """200 events in 10 s: p50, p90 and p95 have intervals, p99 its value and the reason why it has none."""
    values = independent(200)
    found = even_sample(values).latency()
    for q, estimate in ((0.5, found.p50), (0.9, found.p90), (0.95, found.p95)):
        assert (estimate.low, estimate.high) == order_statistic_interval(np.sort(values), q)
        assert estimate.value == pytest.approx(np.quantile(values, q))
    for q, estimate, needed in ((0.99, found.p99, 368), (0.999, found.p999, 3_688)):
        assert estimate.value == pytest.approx(np.quantile(values, q))
        assert (estimate.low, estimate.high, estimate.reason) == (None, None, f"n=200 < {needed}")


def test_autocorrelated_values_get_the_wider_bootstrap_interval() -> None:
    """With phi = 0.8, nine values are worth one: three times the width that independence would claim."""
    values = skewed(0.8, 6_000)
    (low, _, high), naive = numbers(even_sample(values).estimate(0.5)), order_statistic_interval(np.sort(values), 0.5)
    assert 2 < (high - low) / (naive[1] - naive[0]) < 4


def test_an_autocorrelated_short_window_counts_effective_values() -> None:
    """10 s hold no 20 blocks of a second; 200 values with phi = 0.4 are worth some 90."""
    values = skewed(0.4, 200, seed=4)
    measured = even_sample(values)
    time = measured.autocorrelation_time(0.5)
    assert time > 1.3
    assert measured.count_blocks(time) < 20
    (low, _, high), naive = numbers(measured.estimate(0.5)), order_statistic_interval(np.sort(values), 0.5)
    assert low < naive[0] < naive[1] < high


def test_forty_effective_values_are_enough_for_a_median() -> None:
    """200 values with phi = 0.7 are worth some 35: few for a p90, plenty for a p50, which needs 6."""
    found = even_sample(skewed(0.7, 200, seed=3)).latency()
    low, _, high = numbers(found.p50)
    assert low < high
    assert found.p95.value is not None
    assert found.p95.low is None
    shortages = [re.fullmatch(r"(\d+) of 200 independent < \d+", each.reason or "") for each in (found.p95, found.p99)]
    of_p95, of_p99 = (int(each[1]) for each in shortages if each)
    assert of_p99 <= of_p95 < 200  # what it would take grows with the quantile


def test_a_short_window_of_strongly_autocorrelated_values_gets_no_interval() -> None:
    """200 values with phi = 0.98 are worth 2."""
    values = skewed(0.98, 200)
    found = even_sample(values).estimate(0.5)
    assert found.value == pytest.approx(np.median(values))
    assert found.low is None
    assert re.fullmatch(r"\d of 200 independent < 6", found.reason or "")


def test_slow_events_in_a_row_are_no_independent_ones() -> None:
    """Three stalls of four events hardly show in the ranks, but a p95 hangs on three stalls, not on twelve events."""
    values = independent(200, seed=0)
    for first in (30, 90, 170):
        values[first : first + 4] += 50
    measured = even_sample(values)
    assert measured.rank_time == 1
    assert measured.autocorrelation_time(0.95) > 2
    found, naive = measured.estimate(0.95), order_statistic_interval(np.sort(values), 0.95)
    assert present(found.low) < naive[0]


def test_effective_values_have_to_suffice_for_the_quantile() -> None:
    """400 values with phi = 0.8 are worth 44: not 368."""
    found = even_sample(skewed(0.8, 400)).estimate(0.99)
    assert found.low is None
    assert re.fullmatch(r"\d\d of 400 independent < 368", found.reason or "")


def test_one_burst_says_nothing_about_how_often_bursts_are() -> None:
    """All slow events in one burst: whether there is a burst is chance, and its end is not in the sample."""
    values = skewed(0.4, 1_200)
    values[600:612] += 50
    measured = even_sample(values, per_s=10)
    found = measured.estimate(0.99)
    assert found.low is None
    assert re.fullmatch(r"\d+ of 1200 independent < 368", found.reason or "")
    with pytest.raises(InsufficientSampleError, match="upper limit lies beyond the largest value"):
        measured._bootstrap_levels(0.99, 1, 60)


def test_a_quantile_in_the_missing_mass_says_so() -> None:
    """A tenth lost: p50 is known, p95 is not, and nothing is made up for it."""
    values = independent(200)
    values[::10] = math.inf
    found = even_sample(np.random.default_rng(2).permutation(values), drain_limit_s=30).latency()
    assert found.p50.value is not None
    assert (found.p95.value, found.p95.reason) == (None, "> drain limit (30 s)")
    assert (found.n, found.missing) == (200, 20)
    assert found.max == values[np.isfinite(values)].max()
    assert found.mean is None  # of the survivors it would be the better, the more is lost


@pytest.mark.parametrize(("lost", "low"), [(7, 2.0), (60, 30_000.0)], ids=["some", "surely"])
def test_a_quantile_in_the_missing_mass_has_a_lower_limit(lost: int, low: float) -> None:
    """Of 7 lost among 400 p99 may still be a value that arrived; of 60 it surely has waited until the drain limit."""
    values = np.linspace(1, 3, 400)
    values[-lost:] = math.inf
    sample = even_sample(np.random.default_rng(2).permutation(values), drain_limit_s=30)
    found = sample.estimate(0.99)
    assert (found.value, found.high, found.reason) == (None, None, "> drain limit (30 s)")
    assert (found.low == low) if lost == 60 else (low < (found.low or 0) < 3)
    unknown = replace(sample, missing_over=None).estimate(0.99)
    assert unknown.low == (None if lost == 60 else found.low)


def test_losses_in_one_burst_are_worth_less_than_those_at_random() -> None:
    """40 that are lost in a row say little of how many the next run loses."""
    values = np.linspace(1, 3, 400)
    values[-40:] = math.inf
    at_random = even_sample(np.random.default_rng(2).permutation(values)).estimate(0.95)
    in_a_row = even_sample(np.concatenate([np.random.default_rng(2).permutation(values[:360]), values[360:]]))
    assert at_random.low == 120_000
    assert (in_a_row.estimate(0.95).low or 0) < 3


def test_an_upper_limit_in_the_missing_mass_says_so() -> None:
    """p90 of 200 with 4 % lost is known; its upper limit is the 189th value of 192 that arrived. With 7 % it is not."""
    values = independent(200)
    values[3:17] = math.inf
    found = even_sample(np.random.default_rng(3).permutation(values)).estimate(0.9)
    assert found.value is not None
    assert found.low is not None
    assert (found.high, found.reason) == (None, "upper limit > drain limit (120 s)")


def test_nothing_measured_is_no_number() -> None:
    """A phase that was cut off before its first event."""
    found = even_sample(np.empty(0)).latency()
    assert (found.n, found.p50.reason, found.min, found.mean, found.max) == (0, NOTHING, None, None, None)


def test_a_large_sample_is_never_taken_as_independent() -> None:
    """Any test rejects at 200,000 values; blocks cost nothing there."""
    measured = even_sample(independent(200_000), per_s=2_000)
    assert measured.autocorrelation_time(0.5) == pytest.approx(1, abs=0.1)
    low, _, high = numbers(measured.estimate(0.999))
    assert low < 6.907755 < high  # -ln(0.001), by construction


@settings(deadline=None, max_examples=40)
@given(st.floats(0.01, 1_000), st.integers(0, 10_000))
def test_estimates_follow_the_unit(scale: float, seed: int) -> None:
    """Ranks decide on the interval, so nothing but the unit changes."""
    values = np.random.default_rng(seed).exponential(size=100)
    one, other = even_sample(values).estimate(0.5), even_sample(values * scale).estimate(0.5)
    assert present(other.value) == pytest.approx(present(one.value) * scale)
    assert (one.low is None) == (other.low is None)
    if one.low is not None:
        assert other.low == pytest.approx(one.low * scale)


def test_the_levels_are_those_of_seed_5() -> None:
    """The percentages are 50, 75, 87.5, 93.75, 99.21875, 99.90234375, 100."""
    assert [100 * q for q in LEVELS] == [50, 75, 87.5, 93.75, 99.21875, 99.90234375, 100]


def test_values_and_counts_of_a_known_sample() -> None:
    """1...10,001: the p50 is 5,001, at most which are 5,001; p75 7,501 (place 7,500 from 0); the largest is 10,001."""
    rows = percentile_table(even_sample(shuffled(10_001)))
    assert [row.value_ms for row in rows[:2]] == [5_001, 7_501]
    assert [row.count for row in rows] == [5_001, 7_501, 8_751, 9_376, 9_922, 9_991, 10_001]
    assert rows[-1].value_ms == 10_001


def test_a_small_sample_has_a_tail_without_an_interval() -> None:
    """The p99.9 of 1,000 values is an anecdote, and said to be one; the largest value is a fact."""
    sample = even_sample(shuffled(1_000))
    found, rows = sample.estimate(LEVELS[5]), percentile_table(sample)
    assert (found.low, found.reason) == (None, "n=1000 < 3776")
    assert found.value == rows[5].value_ms == pytest.approx(999.0244, abs=1e-3)
    assert rows[5].count == 999
    assert rows[6].value_ms == 1_000


@pytest.mark.parametrize("seed", range(20))
def test_a_sample_is_never_worth_more_further_out(seed: int) -> None:
    """With bursts at the top, p99 saw a time of ten events and p99.9, of three that are far apart, one of a single."""
    rng = np.random.default_rng(seed)
    values = rng.exponential(size=1_000)
    for first in rng.integers(0, 990, 3).tolist():
        values[first : first + 8] += np.linspace(10, 11, 8)
    measured = even_sample(values)
    times = [measured.autocorrelation_time(q) for q in (0.5, 0.75, 0.9, 0.95, 0.97, 0.99, 0.999)]
    assert times == sorted(times)


def test_what_never_came_is_beyond_the_drain_limit() -> None:
    """Lost operations are the slowest; leaving them out would flatter."""
    values = shuffled(1_000)
    values[values > 900] = math.inf
    rows = percentile_table(even_sample(values, 100, 30))
    assert rows[0].value_ms == pytest.approx(500.5)
    assert (rows[3].value_ms, rows[3].count) == (rows[6].value_ms, rows[6].count) == (None, 0)


def test_nothing_measured_is_said() -> None:
    """Zero would look like a very fast store."""
    assert [row.value_ms for row in percentile_table(even_sample(np.empty(0)))] == [None] * len(LEVELS)


def test_what_grew_has_no_lower_limit_where_its_first_half_is_missing() -> None:
    """Three of four were lost at first, and none later: the median of all bounds nothing."""
    at_s = np.arange(400) / 40
    values = np.where((at_s < 5) & (np.arange(400) % 4 > 0), np.inf, 1 + at_s)
    sample = Sample(values, at_s, 10, 30, np.random.default_rng(1), "fell behind: kept up with 3 of 4/s")
    p50, p99 = sample.estimate(0.5), sample.estimate(0.99)
    assert (p50.value is not None, p50.low, p50.fell_behind) == (True, None, True)
    assert (p99.value, p99.reason, p99.fell_behind) == (
        None, "> drain limit (30 s); fell behind: kept up with 3 of 4/s", True,
    )  # fmt: skip

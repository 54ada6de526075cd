from __future__ import annotations

import math

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from tests.samples.estimates import order_statistic_interval

from stepbench.errors import InsufficientSampleError
from stepbench.stats.quantiles import (
    at_level,
    by_second,
    ecdf,
    min_sample,
    order_statistic_levels,
    quantile,
)

values = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=60)
probabilities = st.floats(0, 1)


def ascending(numbers: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Sort a sample."""
    return np.sort(np.array(numbers, dtype=np.float64))


@pytest.mark.parametrize(("q", "expected"), [(0, 1), (0.25, 2.5), (0.4, 3.4), (0.5, 4), (0.9, 10.8), (1, 14)])
def test_a_quantile_interpolates_between_order_statistics(q: float, expected: float) -> None:
    """Worked by hand, the place is (n - 1) q, so 3.6 for q = 0.9 of five values: 0.6 of the way from 6 to 14."""
    assert quantile(ascending([1, 2.5, 4, 6, 14]), q) == pytest.approx(expected)


@given(values, probabilities)
def test_a_quantile_is_what_numpy_calls_linear(numbers: list[float], q: float) -> None:
    """Definition 7 of Hyndman and Fan is numpy's default: an independent implementation."""
    assert quantile(ascending(numbers), q) == pytest.approx(np.quantile(numbers, q), rel=1e-9, abs=1e-9)


@given(values, probabilities, probabilities)
def test_quantiles_are_in_order(numbers: list[float], p: float, q: float) -> None:
    """A p90 below the p50 would be nonsense."""
    low, high = sorted((p, q))
    assert quantile(ascending(numbers), low) <= quantile(ascending(numbers), high) + 1e-9


@given(values, probabilities, st.floats(0.001, 1_000), st.floats(-1e3, 1e3))
def test_a_quantile_follows_scale_and_shift(numbers: list[float], q: float, scale: float, shift: float) -> None:
    """Milliseconds or nanoseconds, before or after a correction: the same answer."""
    moved = ascending([scale * number + shift for number in numbers])
    assert quantile(moved, q) == pytest.approx(scale * quantile(ascending(numbers), q) + shift, rel=1e-6, abs=1e-5)


def test_no_value_has_no_quantile() -> None:
    """Zero would look like a very fast store."""
    with pytest.raises(InsufficientSampleError):
        quantile(np.empty(0), 0.5)


def test_a_quantile_in_the_missing_mass_is_infinite_even_in_part() -> None:
    """Half lost: the median lies beyond the drain limit; the largest that arrived is not an answer."""
    sample = ascending([1, 2, math.inf, math.inf])
    assert quantile(sample, 1 / 3) == 2
    assert quantile(sample, 0.5) == math.inf
    assert quantile(sample, 1) == math.inf


@pytest.mark.parametrize(("q", "needed"), [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3_688), (0.01, 368)])
def test_the_smallest_sample_that_can_enclose_a_quantile(q: float, needed: int) -> None:
    """The largest of n values may lie below the quantile in 2.5 % of samples: q^n <= 0.025, `docs/statistics.md`."""
    assert min_sample(q) == needed
    assert max(q, 1 - q) ** needed <= 0.025 < max(q, 1 - q) ** (needed - 1)


@pytest.mark.parametrize(
    ("n", "low", "high", "coverage"), [(6, 1, 6, 0.96875), (10, 2, 9, 0.978516), (20, 6, 15, 0.958611)]
)
def test_whole_ranks_are_those_of_the_tables_for_the_median(n: int, low: int, high: int, coverage: float) -> None:
    """Hahn & Meeker, Statistical Intervals (1991), table A.17: ranks and their exact confidence."""
    levels = order_statistic_levels(n, 0.5, coverage)
    assert levels.low * (n + 1) == pytest.approx(low, abs=2e-4)
    assert levels.high * (n + 1) == pytest.approx(high, abs=2e-4)


@pytest.mark.parametrize(("n", "q"), [(200, 0.5), (200, 0.95), (400, 0.99), (5_000, 0.999)])
def test_an_interval_lies_within_the_conservative_binomial_one(n: int, q: float) -> None:
    """The exact interval of whole ranks covers at least 95 %; ours lies within a rank of it, inside."""
    levels = order_statistic_levels(n, q)
    low = scipy.stats.binom.ppf(0.025, n, q)
    high = scipy.stats.binom.ppf(0.975, n, q) + 1
    assert low <= levels.low * (n + 1) <= low + 1
    assert high - 1 <= levels.high * (n + 1) <= high


def test_the_rank_below_the_smallest_sample_is_refused_with_the_reason() -> None:
    """The reason is printed instead of a percentile."""
    with pytest.raises(InsufficientSampleError, match="n=367 < 368"):
        order_statistic_levels(367, 0.99)


@given(st.permutations(list(range(40))))
def test_an_interval_holds_its_quantile_whatever_the_order(numbers: list[int]) -> None:
    """Order statistics do not know the order in which values came."""
    sample = ascending([float(number) for number in numbers])
    low, high = order_statistic_interval(sample, 0.5)
    assert low < quantile(sample, 0.5) < high
    assert (low, high) == order_statistic_interval(ascending([float(n) for n in range(40)]), 0.5)


def test_a_level_outside_the_sample_is_its_end() -> None:
    """There is nothing beyond the largest value to interpolate to."""
    assert at_level(ascending([1, 2, 3]), 0.999) == 3
    assert at_level(ascending([1, 2, 3]), 0) == 1


def test_a_curve_steps_up_by_the_share_of_each_value() -> None:
    """Worked by hand: of five values one is 1, two are 2, one is 4 and one is lost, so it ends at 0.8."""
    curve = ecdf(np.array([1.0, 2, 2, 4, math.inf]))
    assert curve.value.tolist() == [1, 2, 4]
    assert curve.probability.tolist() == [0.2, 0.6, 0.8]


def test_a_curve_without_an_arrival_is_empty() -> None:
    """Where all is lost there is nothing to draw, and no error."""
    assert ecdf(np.array([math.inf])).value.size == 0
    assert ecdf(np.empty(0)).value.size == 0


@given(st.integers(1, 20_000), st.integers(0, 100))
def test_thinning_keeps_the_ends_and_stays_on_the_curve(n: int, seed: int) -> None:
    """The page draws hundreds of points for millions of events, and none that is not there."""
    values = np.sort(np.random.default_rng(seed).exponential(size=n))
    curve = ecdf(values)
    assert curve.value.size <= 420
    assert (curve.value[0], curve.value[-1], curve.probability[-1]) == (values[0], values[-1], 1)
    assert np.all(np.diff(curve.value) > 0)
    assert np.all(curve.probability == np.searchsorted(values, curve.value, side="right") / n)
    assert np.max(np.diff(curve.probability), initial=1 / n) <= max(1 / n, 1.01 / 299 + 1 / n)


def test_each_second_has_its_own_quantiles() -> None:
    """Worked by hand; second 1 has no event, and second 2 has lost one of two."""
    values = np.array([3.0, 1, 2, 5, math.inf])
    found = by_second(values, np.array([0, 0, 0, 2, 2]), 4)
    assert found.p50[[0, 2]].tolist() == [2, math.inf]
    assert found.p90[0] == 2.8
    assert found.largest[[0, 2]].tolist() == [3, math.inf]
    assert np.isnan(found.p50[[1, 3]]).all()


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 4)), min_size=1, max_size=80))
def test_by_second_agrees_with_numpy(pairs: list[tuple[float, int]]) -> None:
    """One pass for all seconds must give what a loop gives."""
    values, second = (np.array(column) for column in zip(*pairs, strict=True))
    found = by_second(values, second, 5)
    for at in set(second.tolist()):
        inside = values[second == at]
        np.testing.assert_allclose(found.p50[at], np.quantile(inside, 0.5), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.p90[at], np.quantile(inside, 0.9), rtol=1e-9, atol=1e-9)
        assert found.largest[at] == inside.max()

"""What rises or falls all through a window is found, and what only looks like it is not."""

from __future__ import annotations

import numpy as np
import pytest
from tests.samples import planted_growth
from tests.samples.estimates import present

from stepbench.stats.trend import LEAST_EVENTS, bin_medians, end_of_arrivals_s, find_trend


@pytest.mark.parametrize("seed", range(20))
def test_planted_queues_and_drifts_are_found(seed: int) -> None:
    """Quantiles of either are a mix of what was at first and what was at last."""
    for planted in (planted_growth.queue(seed), planted_growth.drift(seed)):
        thirds = np.array_split(planted.elapsed_s, 3)
        grew = np.median(thirds[2]) > np.median(thirds[0])
        found = present(find_trend(planted.elapsed_s, planted.at_s, planted.length_s))
        assert (found.ratio > 1) == grew


@pytest.mark.parametrize("seed", range(50))
def test_clean_windows_have_none(seed: int) -> None:
    """Stalls, heavy tails, dependence and a server that is four fifths busy make long latencies, and no trend."""
    planted = planted_growth.clean(seed)
    assert find_trend(planted.elapsed_s, planted.at_s, planted.length_s) is None


def test_its_ends_are_medians_of_three_tenths() -> None:
    """1 ms in the first half and 3 ms in the second, whatever one event in each does."""
    at_s = np.arange(200) / 20
    values = np.where(at_s < 5, 1.0, 3.0)
    values[[7, 193]] = 1_000, 0.001
    found = present(find_trend(values, at_s, 10))
    assert (found.before, found.after, found.ratio) == (1.0, 3.0, 3.0)


def test_a_factor_makes_no_difference() -> None:
    """Seconds or milliseconds."""
    planted = planted_growth.drift(1)
    one, thousand = (
        present(find_trend(factor * planted.elapsed_s, planted.at_s, planted.length_s)) for factor in (1, 1_000)
    )
    assert thousand.ratio == pytest.approx(one.ratio)


def test_a_few_values_and_missing_ones_tell_nothing() -> None:
    """49 that grow; and 100 of which only the first 49 arrived."""
    at_s = np.arange(100) / 10
    values = 1 + at_s
    few = LEAST_EVENTS - 1
    assert find_trend(values[:few], 2 * at_s[:few], 10) is None
    assert find_trend(np.where(at_s < at_s[few], values, np.inf), at_s, 10) is None


def test_each_span_has_its_median() -> None:
    """Of an even number the mean of the two in the middle; of none, none."""
    values, at_s = np.array([5.0, 1.0, 4.0, 2.0, 9.0]), np.array([0.1, 0.2, 0.3, 0.4, 2.5])
    assert bin_medians(values, at_s, 3, 3).tolist() == pytest.approx([3.0, np.nan, 9.0], nan_ok=True)


def test_arrivals_end_where_most_are_missing_from_then_on() -> None:
    """Whatever is lost before, or arrives after; a last stretch below a tenth of the window is no end."""
    at_s = np.arange(100) / 10
    values = np.where(at_s < 6, 1.0, np.inf)
    values[[5, 17, 80]] = np.inf, np.inf, 1.0
    assert end_of_arrivals_s(values, at_s, 10) == 6
    assert end_of_arrivals_s(np.where(at_s < 9.5, 1.0, np.inf), at_s, 10) == 10
    assert end_of_arrivals_s(np.full(100, np.inf), at_s, 10) == 0

from __future__ import annotations

import math

import numpy as np
import pytest

from stepbench.stats.estimates import Sample
from stepbench.stats.percentile_table import (
    LEVELS,
    axis_position,
    curve_levels,
    percentile_curve,
    percentile_table,
)


def sample(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Sample:
    """Values one every 10 ms."""
    at_s = np.arange(values.size) / 100
    return Sample(values, at_s, max(values.size / 100, 1), 30, np.random.default_rng(7))


def shuffled(n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """1...n in an order without dependence."""
    return np.random.default_rng(3).permutation(np.arange(1.0, n + 1))


def test_the_levels_are_those_of_seed_5() -> None:
    """As percentages: 50, 75, 87.5, 93.75, 99.21875, 99.90234375, 100."""
    assert [100 * q for q in LEVELS] == [50, 75, 87.5, 93.75, 99.21875, 99.90234375, 100]


def test_positions_on_the_axis_double() -> None:
    """1 / (1 - q), as HdrHistogram's fourth column: 2, 4, 8, 16, 128, 1024, and no end."""
    rows = percentile_table(sample(shuffled(10_001)))
    assert [row.position for row in rows] == [2, 4, 8, 16, 128, 1_024, None]
    assert axis_position(1) == math.inf


def test_values_and_counts_of_a_known_sample() -> None:
    """1...10,001: the p50 is 5,001, at most which are 5,001; p75 7,501 (place 7,500 from 0); the largest is 10,001."""
    rows = percentile_table(sample(shuffled(10_001)))
    assert [row.estimate.value for row in rows[:2]] == [5_001, 7_501]
    assert [row.at_most for row in rows] == [5_001, 7_501, 8_751, 9_376, 9_922, 9_991, 10_001]
    assert rows[-1].estimate.value == 10_001
    assert all(
        row.estimate.low <= row.estimate.value <= row.estimate.high  # type: ignore[operator]
        for row in rows[:-1]
    )


def test_a_small_sample_has_a_reason_instead_of_a_tail() -> None:
    """A p99.9 of 1,000 values would be an anecdote; the largest value is a fact."""
    rows = percentile_table(sample(shuffled(1_000)))
    assert rows[5].estimate.value is None
    assert rows[5].estimate.reason == "n=1000 < 3776"
    assert rows[5].at_most is None
    assert rows[6].estimate.value == 1_000


def test_what_never_came_is_beyond_the_drain_limit() -> None:
    """Lost operations are the slowest; leaving them out would flatter."""
    values = shuffled(1_000)
    values[values > 900] = math.inf
    rows = percentile_table(sample(values))
    assert rows[0].estimate.value == pytest.approx(500.5)
    assert rows[3].estimate.reason == rows[6].estimate.reason == "> drain limit (30 s)"


def test_nothing_measured_is_said() -> None:
    """Zero would look like a very fast store."""
    assert [row.estimate.value for row in percentile_table(sample(np.empty(0)))] == [None] * len(LEVELS)


def test_a_curve_s_levels_halve_what_is_left() -> None:
    """HdrHistogram with 5 ticks a half: 0, 10, 20, 30, 40, 50, 55, 60, 65, 70, 75, 77.5... %; the end is 1 - 1/n."""
    levels = curve_levels(100)
    assert levels[:12].tolist() == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.775])
    assert levels[-1] == 0.99
    assert np.all(np.diff(levels) > 0)


@pytest.mark.parametrize("n", [1, 2, 3, 1_000, 1_000_003])
def test_a_curve_ends_with_the_largest_value_and_stays_small(n: int) -> None:
    """Sixteen curves of a million values each have to fit a page; the end is what a reader looks for."""
    points = percentile_curve(np.arange(1.0, n + 1))
    assert points[-1].value == n
    assert points[-1].position == pytest.approx(n)
    assert len(points) <= 6 * (math.log2(n) + 2)
    assert [point.value for point in points] == sorted(point.value for point in points)


def test_a_curve_stops_where_nothing_arrived() -> None:
    """There is no height to draw."""
    points = percentile_curve(np.array([1.0, 2, 3, math.inf]))
    assert max(point.value for point in points) <= 3


def test_a_curve_of_nothing_is_refused() -> None:
    """Rather than an empty plot without a word."""
    with pytest.raises(ValueError, match="n=0"):
        curve_levels(0)

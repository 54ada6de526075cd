from __future__ import annotations

import numpy as np
import pytest

from stepbench.stats.bootstrap import block_count, block_index, block_weights, bootstrap_levels


@pytest.mark.parametrize(
    ("length_s", "time_s", "blocks"),
    [(60, 0.01, 60), (60, 0.2, 60), (60, 0.5, 24), (10, 0.01, 10), (3_600, 0.01, 1_000), (0.5, 0.01, 0)],
)
def test_blocks_are_a_second_or_five_autocorrelation_times(length_s: float, time_s: float, blocks: int) -> None:
    """There are 1,000 at most (`docs/statistics.md`), which only makes them longer."""
    assert block_count(length_s, time_s) == blocks


def test_events_fall_into_equal_blocks_of_time() -> None:
    """Blocks are equal in time, not in number: a stalled second is one block, however few its events."""
    at_s = np.array([0.0, 0.99, 1.0, 5.5, 9.999, 10.0])
    assert block_index(at_s, 10.0, 10).tolist() == [0, 0, 1, 5, 9, 9]


def test_resamples_draw_as_many_blocks_as_there_are() -> None:
    """Each resample is as long as the window."""
    weights = block_weights(25, np.random.default_rng(1), draws=50)
    assert weights.shape == (50, 25)
    assert (weights.sum(axis=1) == 25).all()


def test_blocks_that_are_all_equal_leave_no_uncertainty() -> None:
    """Every block has half of its values below: so has every resample."""
    at_most = np.tile([True, False], 100)
    levels = bootstrap_levels(at_most, np.repeat(np.arange(20), 10), block_weights(20, np.random.default_rng(1)), 0.5)
    assert levels == (0.5, 0.5)


def test_blocks_that_are_all_different_leave_much() -> None:
    """Ten slow seconds and ten fast ones are 20 values, not 200: about 0.5 ± 2.2 * 0.5 / sqrt(20)."""
    at_most = np.repeat([True, False], 100)
    block = np.repeat(np.arange(20), 10)
    low, high = bootstrap_levels(at_most, block, block_weights(20, np.random.default_rng(1), 5_000), 0.5)
    assert low == pytest.approx(0.5 - 0.24, abs=0.04)
    assert high == pytest.approx(0.5 + 0.24, abs=0.04)


def test_levels_stay_probabilities_and_empty_resamples_do_not_count() -> None:
    """All events in one block of twenty: a third of the resamples have none at all."""
    at_most = np.array([True, False])
    low, high = bootstrap_levels(at_most, np.array([0, 0]), block_weights(20, np.random.default_rng(1)), 0.99)
    assert 0 <= low <= high <= 1

"""Evidence of a change of level, and of a drift."""

from __future__ import annotations

import numpy as np
import pytest

from stepbench.stats.level_shift import estimate_change, find_drift, find_evidence, least_decided, weigh_levels
from stepbench.stats.noise import Noise

NOISE = Noise(np.random.default_rng(1).normal(0, 0.03, 80))
SMALLEST = 0.05


def test_three_runs_on_another_level_weigh_and_one_far_off_does_not() -> None:
    """Three at four scales outweigh one at twelve beside two that are as before."""
    shifted = find_evidence(np.array([0.12, 0.11, 0.13]), 0.0, 80, NOISE, SMALLEST)
    spiked = find_evidence(np.array([0.36, 0.0, 0.0]), 0.0, 80, NOISE, SMALLEST)
    assert shifted.weight > 8
    assert spiked.weight < 1
    assert shifted.change == pytest.approx(0.12, abs=0.03)


def test_evidence_knows_the_direction() -> None:
    """An improvement has a change below 0, and as much weight."""
    up = find_evidence(np.full(4, 0.1), 0.0, 80, NOISE, SMALLEST)
    down = find_evidence(np.full(4, -0.1), 0.0, 80, NOISE, SMALLEST)
    assert up.change > 0 > down.change
    assert down.weight == pytest.approx(up.weight, rel=0.3)


def test_less_is_shown_with_fewer_runs_before() -> None:
    """The level before is an estimate, too."""
    weights = [find_evidence(np.full(5, 0.1), 0.0, before, NOISE, SMALLEST).weight for before in (3, 10, 80)]
    assert weights == sorted(weights)


def test_a_change_beyond_all_scales_is_found_as_it_is() -> None:
    """Ten times as slow is some hundred scales, where no density is known."""
    after = np.full(3, 2.3)
    assert estimate_change(after, 0.0, NOISE) == pytest.approx(2.3)
    assert find_evidence(after, 0.0, 80, NOISE, SMALLEST).weight > 8


def test_the_change_is_estimated_without_the_smallest_one_in_mind() -> None:
    """Else every change would seem as large as what was looked for; and one run far off moves it little."""
    assert estimate_change(np.full(20, 0.02), 0.0, NOISE) == pytest.approx(0.02, abs=0.006)
    assert estimate_change(np.array([*[0.1] * 6, 0.6]), 0.0, NOISE) == pytest.approx(0.1, abs=0.02)


def test_levels_are_weighed_against_each_other() -> None:
    """Runs on one of two known levels speak for it."""
    assert weigh_levels(np.zeros(3), 0.0, 0.15, NOISE) > 5
    assert weigh_levels(np.full(3, 0.15), 0.0, 0.15, NOISE) < -5


def test_four_times_the_runs_show_half_the_change() -> None:
    """As long as the baseline is long enough not to count."""
    few, many = (least_decided(NOISE, 5.0, 100_000, runs) for runs in (5, 20))
    assert few / many == pytest.approx(2, rel=0.15)


def test_a_line_is_a_drift_and_a_step_is_none() -> None:
    """2 % a run for 14 runs, and 14 runs 20 % above."""
    rng = np.random.default_rng(2)
    before = rng.normal(0, 0.03, 10)
    line = np.concatenate([before, 0.02 * np.arange(1, 15) + rng.normal(0, 0.03, 14)])
    step = np.concatenate([before, 0.2 + rng.normal(0, 0.03, 14)])
    times = np.arange(24.0)
    drift = find_drift(line, times, 0.0, 0.03)
    assert drift is not None
    assert drift.slope == pytest.approx(0.02, abs=3 * drift.variance**0.5)
    assert find_drift(step, times, 0.0, 0.03) is None

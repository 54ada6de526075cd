"""Evidence of a change of level, and of a drift."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepbench.stats.level_shift import (
    LEAST_SCALE,
    Noise,
    estimate_change,
    find_drift,
    find_evidence,
    least_decided,
    location,
    scale,
    weigh_levels,
)


def test_location_is_the_median_of_the_means_of_pairs() -> None:
    """Of 1, 2, 6 these are 1, 1.5, 2, 3.5, 4, 6: in the middle 2.75."""
    assert location(np.array([1.0, 2.0, 6.0])) == pytest.approx(2.75)


def test_one_run_far_off_moves_neither_location_nor_scale_much() -> None:
    """Spikes are no part of the core."""
    rng = np.random.default_rng(3)
    values = rng.normal(0, 1, 50)
    spiked = np.append(values, 40.0)
    assert location(spiked) == pytest.approx(location(values), abs=0.05)
    assert scale(spiked) == pytest.approx(scale(values), rel=0.05)


def test_scale_is_the_standard_deviation_of_normal_noise() -> None:
    """Within 2 % over 400 samples of 60; a single one has a standard error of 9 %."""
    rng = np.random.default_rng(4)
    assert np.mean([scale(rng.normal(0, 3, 60)) for _ in range(400)]) == pytest.approx(3, rel=0.02)


def test_runs_that_are_equal_have_a_scale_nevertheless() -> None:
    """Else a difference in the last digit would be any number of scales."""
    assert scale(np.zeros(20)) == LEAST_SCALE


@given(st.floats(-5, 5), st.floats(0.1, 10))
def test_location_moves_with_the_values_and_scale_with_their_unit(shift: float, factor: float) -> None:
    """Whether a latency is in ms or s must not change a verdict."""
    values = np.random.default_rng(5).normal(0, 1, 30)
    assert location(factor * values + shift) == pytest.approx(factor * location(values) + shift, abs=1e-6)
    assert scale(factor * values) == pytest.approx(factor * scale(values))


def test_the_density_is_one_and_knows_what_it_has_seen() -> None:
    """It integrates to 1 (a wide tail apart); where spikes were, another is likelier than where none was."""
    rng = np.random.default_rng(6)
    noise = Noise(np.concatenate([rng.normal(0, 1, 57), [8.5, 8.7, 9.0]]))
    grid = np.linspace(-40, 40, 8_001)
    assert np.exp(noise.log_density(grid)).sum() * 0.01 == pytest.approx(1, abs=0.01)
    at, elsewhere = noise.log_density(np.array([8.7 / noise.scale, -8.7 / noise.scale]))
    assert at - elsewhere > 2


def test_autocorrelation_is_found_and_widens_a_mean() -> None:
    """AR(1) with 0.5 over 2,000 runs; a mean of three varies 1 + 2 (2/3 · 0.5 + 1/3 · 0.25) times as much."""
    rng = np.random.default_rng(7)
    values = np.zeros(2_000)
    for place in range(1, values.size):
        values[place] = 0.5 * values[place - 1] + rng.normal()
    noise = Noise(values)
    assert noise.correlation == pytest.approx(0.5, abs=0.06)
    rho = noise.correlation
    assert noise.inflation(3) == pytest.approx(1 + 2 * (2 / 3 * rho + rho**2 / 3))
    assert Noise(rng.normal(0, 1, 2_000)).correlation < 0.06


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

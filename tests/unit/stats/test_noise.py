"""Location, scale, autocorrelation and density of runs, by hand, by simulation and by properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepbench.stats.noise import LEAST_SCALE, Noise, location, scale


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

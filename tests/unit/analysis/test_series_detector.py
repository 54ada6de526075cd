"""How much evidence one series' detector asks for, and what it keeps from one run to the next."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stepbench.analysis.series_detector import LONGEST, SeriesDetector
from stepbench.stats.level_shift import Noise
from stepbench.stats.over_runs import MIN_RUNS

SMALLEST = math.log(1.05)


def normal(runs: int, seed: int = 1) -> np.ndarray:
    """Return noise of 3 %."""
    return np.random.default_rng(seed).normal(0, 0.03, runs)


def correlated(runs: int) -> np.ndarray:
    """Return noise whose neighbours have a correlation of 0.8."""
    values = normal(runs)
    for place in range(1, runs):
        values[place] += 0.8 * values[place - 1]
    return values


def test_longer_windows_need_more_and_from_some_length_on_no_more() -> None:
    """One or two runs tell nothing, so that they need as much as three."""
    detector, noise = SeriesDetector(SMALLEST), Noise(normal(60))
    needed = [detector.needed_weight(noise, runs) for runs in (1, MIN_RUNS, 4, LONGEST, 25)]
    assert needed[0] == needed[1] < needed[2] < needed[3] == needed[4]


def test_little_known_noise_needs_more() -> None:
    """Of 15 runs less is known than of 60."""
    detector = SeriesDetector(SMALLEST)
    few, many = (detector.needed_weight(Noise(normal(runs, seed=2)), 3) for runs in (15, 60))
    assert few - many > 3


def test_only_a_correlation_beyond_chance_needs_more() -> None:
    """60 independent runs show one of 0.13, give or take; those of the second series resemble each other."""
    detector = SeriesDetector(SMALLEST)
    by_chance = [Noise(normal(60, seed)) for seed in range(20)]
    least = detector.needed_weight(Noise(np.tile([1.0, -1.0], 30)), 3)
    more = [detector.needed_weight(noise, 3) > least for noise in by_chance]
    assert max(noise.correlation for noise in by_chance) > 0.15
    assert sum(more) <= 2
    assert detector.needed_weight(Noise(correlated(60)), 3) - least > 4


@pytest.mark.parametrize("seed", [3, 4])
def test_what_is_kept_from_run_to_run_changes_nothing(seed: int) -> None:
    """A shift, the way back, and a level that is accepted: with and without what was learned before each run."""
    values = np.concatenate([normal(40, seed), normal(12, seed) + 0.2, normal(20, seed), normal(15, seed) + 0.1])
    keeps, forgets = SeriesDetector(SMALLEST), SeriesDetector(SMALLEST)
    for place, value in enumerate(values):
        forgets._known.clear()
        for detector in (keeps, forgets):
            if place == 72:
                detector.begin_level()
            detector.add(float(value))
        assert keeps.suspected == forgets.suspected
    reported = [
        [(each.at, each.reported_at, each.kind, each.change) for each in one.changes] for one in (keeps, forgets)
    ]
    assert reported[0] == reported[1]
    assert [kind for _, _, kind, _ in reported[0]][:2] == ["worse", "back"]


@pytest.mark.parametrize("sd", [0.0005, 0.003, 0.03])
@pytest.mark.parametrize("shift", [0.1, 1.0])
def test_a_shift_is_found_however_little_noise_there_is(sd: float, shift: float) -> None:
    """Of a quiet store the least change of interest is a hundred times the noise."""
    rng, detector = np.random.default_rng(3), SeriesDetector(SMALLEST)
    values = [*rng.normal(0, sd, 50), *rng.normal(math.log1p(shift), sd, 6)]
    assert [change.kind for value in values if (change := detector.add(value))] == ["worse"]

from __future__ import annotations

import numpy as np
import pytest
from tests.samples.planted_transfers import NOTHING, START_NS, Simulation, Truth

from stepbench.experiments.transfer.analysis.calendar_levels import depend_on_hour, depend_on_weekday
from stepbench.experiments.transfer.analysis.reads import DAY_NS, Reads, pairs_of

LEVEL = 0.0025


def draw(truth: Truth = NOTHING, n: int = 720, days: int = 30, seed: int = 1, noise: str = "normal") -> Reads:
    """Return a month of transfers from EFS to Lambda."""
    simulation = Simulation(0, 1, n, days=days, noise=noise, marks=False)  # type: ignore[arg-type]
    ((_, reads),) = pairs_of(simulation.draw(truth, np.random.default_rng(seed))[0])
    return reads.measured


def slow_on(reads: Reads, weekday: int, factor: float) -> Reads:
    """Return the same with a slower weekday."""
    columns = reads.columns
    slow = (columns.began_at_ns - START_NS) // DAY_NS % 7 == weekday  # the month begins on a Monday
    times = np.where(slow, columns.transfer_ns / factor, columns.transfer_ns).astype(np.int64)
    return Reads(type(columns)(**{**vars(columns), "transfer_ns": times}))


def test_a_slow_hour_is_found_and_named() -> None:
    """Thirty transfers in it, of 720."""
    found = depend_on_hour(draw(Truth(slow_hour=14)), LEVEL, np.random.default_rng(1))
    assert found.found
    assert [level.at for level in found.levels if level.differs] == [14]
    assert found.levels[14].relative == pytest.approx(0.6, abs=0.06)
    assert sum(level.n for level in found.levels) == 720


def test_slow_hours_of_one_day_make_no_slow_hour() -> None:
    """What is alike from hour to hour is no dependence: at 5 % it fires on 5 of 100 such months, ± 4 by chance."""
    found = [
        depend_on_hour(draw(noise="autocorrelated", seed=seed), 0.05, np.random.default_rng(seed)).found
        for seed in range(100)
    ]
    assert np.mean(found) <= 0.09


def test_a_change_of_level_makes_no_slow_hour() -> None:
    """Each day is compared with itself."""
    assert not depend_on_hour(draw(Truth(change_after_days=12.5)), LEVEL, np.random.default_rng(1)).found


def test_a_plan_that_runs_at_few_hours_is_judged_among_those() -> None:
    """Every eight hours, and those of the night are faster."""
    reads = draw(Truth(slow_hour=8), n=3_000)
    chosen = reads.take(reads.hours % 8 == 0)
    found = depend_on_hour(chosen, LEVEL, np.random.default_rng(1))
    assert found.found
    assert [level.at for level in found.levels if level.n] == [0, 8, 16]


def test_a_slow_weekday_is_found_and_named() -> None:
    """Thursdays; a month has four of them."""
    found = depend_on_weekday(slow_on(draw(n=3_000), 3, 0.5), LEVEL, np.random.default_rng(1))
    assert found.found
    assert 3 in [level.at for level in found.levels if level.differs]
    assert found.levels[3].relative == pytest.approx(0.55, abs=0.1)


def test_without_one_there_is_none() -> None:
    """At 5 % it fires on 5 of 100 months, ± 4 by chance."""
    fired = [depend_on_weekday(draw(seed=seed), 0.05, np.random.default_rng(seed)).found for seed in range(100)]
    assert np.mean(fired) <= 0.09


def test_a_few_days_say_why_nothing_is_told() -> None:
    """A slow afternoon is no afternoon."""
    reads = draw(days=2, n=100)
    assert depend_on_hour(reads, LEVEL, np.random.default_rng(1)).reason == "2 days < 7"
    assert depend_on_weekday(reads, LEVEL, np.random.default_rng(1)).reason == "1 weeks < 3"
    nothing = reads.take(np.zeros(reads.n, np.bool_))
    assert depend_on_hour(nothing, LEVEL, np.random.default_rng(1)).p_value is None

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import numpy as np
import pytest
from tests.samples.planted_transfers import START_NS, Truth, drawn_reads

from stepbench.contracts.transfer.result import TransferChange, TransferDependence
from stepbench.experiments.transfer.analysis.levels import depend_on_hour, depend_on_weekday, find_changes, is_notable
from stepbench.experiments.transfer.analysis.reads import DAY_NS, Reads

LEVEL = 0.0025
draw_from_s3 = partial(drawn_reads, source=0)


def slow_on(reads: Reads, weekday: int, factor: float) -> Reads:
    """Return the same with a slower weekday."""
    columns = reads.columns
    slow = (columns.began_at_ns - START_NS) // DAY_NS % 7 == weekday  # the month begins on a Monday
    times = np.where(slow, columns.transfer_ns / factor, columns.transfer_ns).astype(np.int64)
    return Reads(replace(columns, transfer_ns=times))


def test_a_slow_hour_is_found_and_named() -> None:
    """Thirty transfers in it, of 720."""
    found = depend_on_hour(drawn_reads(Truth(slow_hour=14)), LEVEL, np.random.default_rng(1))
    assert found.found
    assert [level.at for level in found.levels if level.differs] == [14]
    assert found.levels[14].relative == pytest.approx(0.6, abs=0.06)
    assert sum(level.n for level in found.levels) == 720


def test_slow_hours_of_one_day_make_no_slow_hour() -> None:
    """What is alike from hour to hour is no dependence: at 5 % it fires on 5 of 100 such months, ± 4 by chance."""
    found = [
        depend_on_hour(drawn_reads(noise="autocorrelated", seed=seed), 0.05, np.random.default_rng(seed)).found
        for seed in range(100)
    ]
    assert np.mean(found) <= 0.09


def test_a_change_of_level_makes_no_slow_hour() -> None:
    """Each day is compared with itself."""
    assert not depend_on_hour(drawn_reads(Truth(change_after_days=12.5)), LEVEL, np.random.default_rng(1)).found


def test_a_plan_that_runs_at_few_hours_is_judged_among_those() -> None:
    """Every eight hours, and those of the night are faster."""
    reads = drawn_reads(Truth(slow_hour=8), n=3_000)
    chosen = reads.take(reads.hours % 8 == 0)
    found = depend_on_hour(chosen, LEVEL, np.random.default_rng(1))
    assert found.found
    assert [level.at for level in found.levels if level.n] == [0, 8, 16]


def test_a_slow_weekday_is_found_and_named() -> None:
    """Thursdays; a month has four of them."""
    found = depend_on_weekday(slow_on(drawn_reads(n=3_000), 3, 0.5), LEVEL, np.random.default_rng(1))
    assert found.found
    assert 3 in [level.at for level in found.levels if level.differs]
    assert found.levels[3].relative == pytest.approx(0.55, abs=0.1)


def test_without_one_there_is_none() -> None:
    """At 5 % it fires on 5 of 100 months, ± 4 by chance."""
    fired = [depend_on_weekday(drawn_reads(seed=seed), 0.05, np.random.default_rng(seed)).found for seed in range(100)]
    assert np.mean(fired) <= 0.09


def test_a_few_days_say_why_nothing_is_told() -> None:
    """A slow afternoon is no afternoon."""
    reads = drawn_reads(days=2, n=100)
    assert depend_on_hour(reads, LEVEL, np.random.default_rng(1)).reason == "2 days < 7"
    assert depend_on_weekday(reads, LEVEL, np.random.default_rng(1)).reason == "1 weeks < 3"
    nothing = reads.take(np.zeros(reads.n, np.bool_))
    assert depend_on_hour(nothing, LEVEL, np.random.default_rng(1)).p_value is None


NO_HOURS = TransferDependence(levels=())
START = datetime.fromtimestamp(START_NS / 1e9, UTC)


def find(reads: Reads, level: float = LEVEL) -> tuple[TransferChange, ...]:
    """Return its changes."""
    return find_changes(reads, NO_HOURS, level, np.random.default_rng(1))[0]


def test_a_change_is_found_with_its_time_and_size() -> None:
    """After day 12 the rate is 0.7 times what it was."""
    (change,) = find(draw_from_s3(Truth(change_after_days=12)))
    assert abs(change.at - (START + timedelta(days=12))) < timedelta(hours=6)
    assert change.earliest <= START + timedelta(days=12) <= change.latest
    assert change.ratio.value == pytest.approx(0.7, abs=0.03)
    assert change.ratio.low is not None
    assert change.ratio.high is not None
    assert change.ratio.low <= 0.7 <= change.ratio.high
    assert change.after / change.before == pytest.approx(change.ratio.value)
    assert is_notable(change)


def test_two_changes_are_found_in_order() -> None:
    """Each level is that between its neighbours."""
    reads = draw_from_s3(Truth(change_after_days=8))
    columns = reads.columns
    later = columns.began_at_ns >= START_NS + 20 * 86_400 * 10**9
    times = np.where(later, columns.transfer_ns * 0.5, columns.transfer_ns).astype(np.int64)
    first, second = find(Reads(replace(columns, transfer_ns=times)))
    assert first.at < second.at
    assert first.after == pytest.approx(second.before)
    assert second.ratio.value == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("noise", ["normal", "autocorrelated"])
def test_where_nothing_changes_nothing_is_found(noise: str) -> None:
    """At 5 % it fires on at most 5 of 60 months; slow afternoons are no change."""
    assert sum(bool(find(draw_from_s3(seed=seed, noise=noise), 0.05)) for seed in range(60)) <= 7


def test_a_slow_hour_hides_no_change() -> None:
    """What it makes is taken off before."""
    reads = draw_from_s3(Truth(change_after_days=12, change_factor=0.9, slow_hour=3, hour_factor=0.3), n=1_500)
    hours = depend_on_hour(reads, LEVEL, np.random.default_rng(1))
    changes, _ = find_changes(reads, hours, LEVEL, np.random.default_rng(1))
    assert hours.found
    assert len(changes) == 1


def test_few_transfers_say_why_nothing_is_told() -> None:
    """And so do those of a few days of their ratio's interval."""
    assert find_changes(draw_from_s3(n=39), NO_HOURS, LEVEL, np.random.default_rng(1)) == ((), "n=39 < 40")
    (change,) = find(draw_from_s3(Truth(change_after_days=2.9, change_factor=0.4), n=1_500))
    assert change.ratio.reason == "3 days < 5"

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from tests.samples.planted_transfers import NOTHING, START_NS, Simulation, Truth

from stepbench.contracts.transfer.result import TransferChange, TransferDependence
from stepbench.experiments.transfer.analysis.calendar_levels import depend_on_hour
from stepbench.experiments.transfer.analysis.changes import find_changes, is_notable
from stepbench.experiments.transfer.analysis.reads import Reads, pairs_of

LEVEL = 0.0025
NO_HOURS = TransferDependence(levels=())
START = datetime.fromtimestamp(START_NS / 1e9, UTC)


def draw(truth: Truth = NOTHING, n: int = 720, seed: int = 1, noise: str = "normal") -> Reads:
    """Return a month of transfers from S3 to Lambda."""
    simulation = Simulation(0, 0, n, noise=noise, marks=False)  # type: ignore[arg-type]
    ((_, reads),) = pairs_of(simulation.draw(truth, np.random.default_rng(seed))[0])
    return reads.measured


def find(reads: Reads, level: float = LEVEL) -> tuple[TransferChange, ...]:
    """Return its changes."""
    return find_changes(reads, NO_HOURS, level, np.random.default_rng(1))[0]


def test_a_change_is_found_with_its_time_and_size() -> None:
    """After day 12 the rate is 0.7 times what it was."""
    (change,) = find(draw(Truth(change_after_days=12)))
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
    reads = draw(Truth(change_after_days=8))
    columns = reads.columns
    later = columns.began_at_ns >= START_NS + 20 * 86_400 * 10**9
    times = np.where(later, columns.transfer_ns * 0.5, columns.transfer_ns).astype(np.int64)
    first, second = find(Reads(type(columns)(**{**vars(columns), "transfer_ns": times})))
    assert first.at < second.at
    assert first.after == pytest.approx(second.before)
    assert second.ratio.value == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("noise", ["normal", "autocorrelated"])
def test_where_nothing_changes_nothing_is_found(noise: str) -> None:
    """At 5 % it fires on at most 5 of 60 months; slow afternoons are no change."""
    assert sum(bool(find(draw(seed=seed, noise=noise), 0.05)) for seed in range(60)) <= 7


def test_a_slow_hour_hides_no_change() -> None:
    """What it makes is taken off before."""
    reads = draw(Truth(change_after_days=12, change_factor=0.9, slow_hour=3, hour_factor=0.3), n=1_500)
    hours = depend_on_hour(reads, LEVEL, np.random.default_rng(1))
    changes, _ = find_changes(reads, hours, LEVEL, np.random.default_rng(1))
    assert hours.found
    assert len(changes) == 1


def test_few_transfers_say_why_nothing_is_told() -> None:
    """And so do those of a few days of their ratio's interval."""
    assert find_changes(draw(n=39), NO_HOURS, LEVEL, np.random.default_rng(1)) == ((), "n=39 < 40")
    (change,) = find(draw(Truth(change_after_days=2.9, change_factor=0.4), n=1_500))
    assert change.ratio.reason == "3 days < 5"

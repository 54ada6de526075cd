from __future__ import annotations

import numpy as np
import pytest
from tests.samples.planted_transfers import NOTHING, Simulation, Truth

from stepbench.experiments.transfer.analysis.reads import Reads, pairs_of
from stepbench.experiments.transfer.analysis.variance import split_variance


def draw(truth: Truth = NOTHING, n: int = 900, source: int = 0, days: int = 30) -> Reads:
    """Return a month of transfers to Lambda."""
    simulation = Simulation(0, source, n, days=days, marks=False)
    ((_, reads),) = pairs_of(simulation.draw(truth, np.random.default_rng(1))[0])
    return reads.measured


def test_sizes_make_most_of_what_rates_from_s3_vary() -> None:
    """The rate rises with the size; shares that are told add up to the whole."""
    found = split_variance(draw())
    shares = [found.size.value or 0, found.hour.value or 0, found.rest.value or 0]
    assert sum(shares) == pytest.approx(1)
    assert shares[0] > 0.9
    assert shares[1] < 0.01


def test_a_slow_hour_has_its_share() -> None:
    """Log(0.2)² / 24 = 0.108 beside that of the noise, 8 / 9 of 0.15² and 1 / 9 of 0.3²: 0.78 of the two."""
    found = split_variance(draw(Truth(slow_hour=3, hour_factor=0.2), source=1, n=3_000))
    assert found.hour.value is not None
    assert found.rest.value is not None
    assert found.hour.value / (found.hour.value + found.rest.value) == pytest.approx(0.78, abs=0.06)
    assert found.hour.low is not None


def test_sandboxes_of_one_transfer_each_are_not_told() -> None:
    """What they make is in the rest, and the report must not call it chance."""
    assert split_variance(draw()).sandbox.reason == "each made one transfer, or all were made by one"


def test_sandboxes_of_several_transfers_are() -> None:
    """A third of them at a fifth of the rate: log(5)² · 2 / 9 = 0.58 beside 0.03 of the noise, 0.95 of the two."""
    columns = draw(source=1).columns
    sandbox = np.arange(900) // 3
    times = np.where(sandbox % 3 == 0, columns.transfer_ns * 5, columns.transfer_ns)
    texts = type(columns.sandbox)(sandbox, tuple(map(str, range(300))))
    found = split_variance(Reads(type(columns)(**{**vars(columns), "sandbox": texts, "transfer_ns": times})))
    assert found.sandbox.value is not None
    assert found.rest.value is not None
    assert found.sandbox.value / (found.sandbox.value + found.rest.value) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(("n", "days", "reason"), [(29, 30, "n=29 < 30"), (100, 5, "5 days < 10")])
def test_few_transfers_or_days_say_why(n: int, days: int, reason: str) -> None:
    """Without days to leave out there is no interval, and without transfers no number."""
    assert split_variance(draw(n=n, days=days)).rest.reason == reason


def test_rows_that_tell_no_sandbox_say_so() -> None:
    """Those of others: whether each was made by a sandbox of its own nobody knows."""
    columns = draw().columns
    texts = type(columns.sandbox)(np.zeros(900, np.int64), ("",))
    found = split_variance(Reads(type(columns)(**{**vars(columns), "sandbox": texts})))
    assert found.sandbox.reason == "which made which is untold"

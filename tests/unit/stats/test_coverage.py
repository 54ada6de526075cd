"""
Do 95 % intervals hold the truth in 94-97 % of 10,000 seeded samples? Each case says of what the truth is known.

Of the cases that take seconds each, `make test` runs one of each kind; `make nightly PART=statistics` has all.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
import scipy
from benchmarks.coverage import coverage
from tests.samples.estimates import order_statistic_interval

from stepbench.stats.bootstrap import block_index, block_weights, bootstrap_levels
from stepbench.stats.estimates import Sample
from stepbench.stats.quantiles import at_level, quantile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

SIMULATIONS = 10_000
NIGHTLY = pytest.mark.nightly("statistics")


def lognormal(n: int, seed: int, count: int = SIMULATIONS) -> Iterator[NDArray[np.float64]]:
    """Yield samples skewed as latencies are; their quantiles are exp of the normal's."""
    rng = np.random.default_rng(seed)
    for _ in range(count // 100):
        yield from np.exp(rng.standard_normal((100, n)))


@pytest.mark.parametrize(("n", "q"), [(20, 0.5), (200, 0.5), (200, 0.9), (200, 0.95), (368, 0.99), (400, 0.99)])
def test_order_statistic_intervals_cover(n: int, q: float) -> None:
    """Conservative ones would cover up to 98 % here, and be wider than they say."""
    truth = math.exp(scipy.stats.norm.ppf(q))
    hits = 0
    for values in lognormal(n, seed=n):
        low, high = order_statistic_interval(np.sort(values), q)
        hits += low <= truth <= high
    assert 0.94 <= hits / SIMULATIONS <= 0.97


def test_order_statistic_intervals_cover_at_the_smallest_sample_for_p999() -> None:
    """Uniform values, whose order statistics can be drawn without the 3,688 values below them."""
    rng = np.random.default_rng(1)
    n, tail = 3_700, 60
    # The largest `tail` of n uniform values: sums of exponentials from above (David & Nagaraja, section 2.5).
    gaps = rng.exponential(size=(SIMULATIONS, tail)) / np.arange(n, n - tail, -1)
    top = np.exp(-np.cumsum(gaps, axis=1))
    hits = 0
    for largest in top:
        values = np.concatenate([np.zeros(n - tail), largest[::-1]])
        low, high = order_statistic_interval(values, 0.999)
        hits += low <= 0.999 <= high
    assert 0.94 <= hits / SIMULATIONS <= 0.97


@pytest.mark.parametrize("q", [pytest.param(0.5, marks=NIGHTLY), 0.9, pytest.param(0.99, marks=NIGHTLY)])
def test_block_bootstrap_intervals_cover_autocorrelated_values(q: float) -> None:
    """AR(1), phi = 0.5, at 50/s over 60 s, blocks of 1 s: intervals for independent values cover 79 % at p50."""
    n, blocks, phi = 3_000, 60, 0.5
    rng = np.random.default_rng(11)
    truth = float(scipy.stats.norm.ppf(q))
    weights = block_weights(blocks, rng)
    block = block_index(np.arange(n) / 50, 60, blocks)
    hits = 0
    for _ in range(SIMULATIONS // 50):
        noise = rng.standard_normal((50, n + 50))
        for values in scipy.signal.lfilter([math.sqrt(1 - phi**2)], [1, -phi], noise)[:, 50:]:
            ascending = np.sort(values)
            levels = bootstrap_levels(values <= quantile(ascending, q), block, weights, q)
            hits += at_level(ascending, levels.low) <= truth <= at_level(ascending, levels.high)
    assert 0.94 <= hits / SIMULATIONS <= 0.97


@pytest.mark.parametrize(
    ("simulations", "chance"), [(2_000, 0.01), pytest.param(SIMULATIONS, 0.0, marks=NIGHTLY)], ids=["some", "all"]
)
def test_the_whole_procedure_covers_for_two_hundred_events(simulations: int, chance: float) -> None:
    """
    Test for autocorrelation, choice of interval and interval together, as a quick run uses them.

    `chance`: two standard errors of 2,000 samples, 0.01, are added to the limits for 10,000.
    """
    truths = {q: math.exp(scipy.stats.norm.ppf(q)) for q in (0.5, 0.9, 0.95)}
    at_s, rng = np.arange(200) / 20, np.random.default_rng(1)
    hits, given = dict.fromkeys(truths, 0), dict.fromkeys(truths, 0)
    for values in lognormal(200, seed=17, count=simulations):
        measured = Sample(values, at_s, 10, 120, rng)
        for q, truth in truths.items():
            found = measured.estimate(q)
            given[q] += found.value is not None
            hits[q] += found.low is not None and found.high is not None and found.low <= truth <= found.high
    assert min(given.values()) >= 0.99 * simulations
    for q in truths:
        assert 0.94 - chance <= hits[q] / given[q] <= 0.97 + chance, q


@pytest.mark.parametrize(
    ("phi", "shares"),
    [
        pytest.param(0.2, (0.99, 0.99, 0.9), marks=NIGHTLY),
        (0.5, (0.99, 0.9, 0.3)),
        pytest.param(0.8, (0.99, 0, 0), marks=NIGHTLY),
        pytest.param(0.9, (0.95, 0, 0), marks=NIGHTLY),
    ],
)
def test_short_autocorrelated_windows_get_honest_intervals(phi: float, shares: tuple[float, float, float]) -> None:
    """
    AR(1), 200 events in 10 s: at most some 7 of 100 windows state an interval that misses the truth.

    `shares`: how many of them get an interval for p50, p90, p95 at least.
    """
    count, rng = 1_000, np.random.default_rng(5)
    wrong, given = np.zeros(3), np.zeros(3)
    noise = rng.standard_normal((count, 500))
    for values in scipy.signal.lfilter([math.sqrt(1 - phi**2)], [1, -phi], noise)[:, 300:]:
        measured = Sample(values, np.arange(200) / 20, 10, 120, rng)
        for place, q in enumerate((0.5, 0.9, 0.95)):
            found, truth = measured.estimate(q), float(scipy.stats.norm.ppf(q))
            if found.low is not None and found.high is not None:
                given[place] += 1
                wrong[place] += not found.low <= truth <= found.high
    assert (wrong / count <= 0.075).all()
    assert (given / count >= shares).all()


@pytest.mark.parametrize("phi", [*(pytest.param(phi, marks=NIGHTLY) for phi in (0.3, 0.5, 0.7)), 0.9])
def test_the_whole_procedure_covers_autocorrelated_windows_that_hold_blocks(phi: float) -> None:
    """AR(1), 60 s at 50/s: 600 windows of what `benchmarks/coverage.py` does with 10,000; ± 0.9 points by chance."""
    pairs = coverage(phi, 60, 50, 600, (0.5, 0.95))
    for held, given in pairs:
        assert given >= 590
        assert 0.925 <= held / given <= 0.975

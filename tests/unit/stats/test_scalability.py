from __future__ import annotations

import math
import random
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from stepbench.errors import InsufficientSampleError
from stepbench.stats.scalability import Usl, fit, scalability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.contracts.measures import Estimate

LADDER = [1.0, 2, 5, 10, 20, 50, 100]
BENT = Usl(1_000, 0.05, 0.0005)
"""Its knee is sqrt(0.95 / 0.0005) = 43.6 clients."""
SIMULATIONS, DRAWS = 200, 100


def seeded(number: int) -> random.Random:
    """Return a generator of random numbers, the same each time."""
    return random.Random(number)  # noqa: S311 -- no secret


def exact(curve: Usl, clients: Sequence[float] = LADDER) -> list[float]:
    """Return runs without noise."""
    return [curve.throughput(each) for each in clients]


def noisy(curve: Usl, clients: Sequence[float], rng: random.Random, noise: float) -> list[float]:
    """Return runs with relative noise."""
    return [each * math.exp(rng.gauss(0, noise)) for each in exact(curve, clients)]


def has(estimate: Estimate, truth: float) -> bool:
    """Return whether the interval holds the truth; a missing limit does not exclude it."""
    low = -math.inf if estimate.low is None else estimate.low
    high = math.inf if estimate.high is None else estimate.high
    return low <= truth <= high


def test_the_law_by_hand() -> None:
    """X(10) = 1,000 * 10 / (1 + 0.05 * 9 + 0.0005 * 90) = 10,000 / 1.495."""
    assert exact(BENT, [1.0, 10]) == pytest.approx([1_000, 10_000 / 1.495])
    assert BENT.knee == pytest.approx(43.589, abs=0.001)


@pytest.mark.parametrize("curve", [BENT, Usl(26_062, 0, 0), Usl(5, 0.3, 0), Usl(995.6, 0.02671, 0.000769)])
def test_what_was_made_without_noise_is_found_again(curve: Usl) -> None:
    """It holds at the bounds too: linear scaling, and contention alone. The last are Schwartz's Cisco figures' size."""
    found = fit(LADDER, exact(curve))
    assert tuple(found) == pytest.approx(tuple(curve), rel=1e-6, abs=1e-9)


def test_a_report_is_imported_without_scipy() -> None:
    """SciPy's optimizers take two thirds as long as all else there: only a run with a curve waits for them."""
    script = """
import sys
sys.modules |= {"scipy": None, "numpy": None}
import stepbench.stages.render_report
print("stepbench.stats.scalability" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.strip() == "True", done.stderr


def test_the_unit_of_throughput_does_not_matter() -> None:
    """A minute or a second: sigma and kappa are the same, lambda sixty times as large."""
    runs = noisy(BENT, LADDER, seeded(1), 0.05)
    a_second, a_minute = fit(LADDER, runs), fit(LADDER, [60 * each for each in runs])
    assert a_minute[1:] == pytest.approx(a_second[1:])
    assert a_minute.lambda_per_s == pytest.approx(60 * a_second.lambda_per_s)


def test_the_order_of_runs_does_not_matter() -> None:
    """Trials are interleaved or shuffled."""
    runs, order = noisy(BENT, LADDER, seeded(1), 0.05), (3, 6, 0, 1, 5, 2, 4)
    shuffled = fit([LADDER[at] for at in order], [runs[at] for at in order])
    assert tuple(shuffled) == pytest.approx(tuple(fit(LADDER, runs)))


def test_superlinear_runs_are_not_made_negative_contention() -> None:
    """Caches warm up with more clients; the law has no share below nothing."""
    assert fit(LADDER, [100 * each**1.2 for each in LADDER]).sigma == 0


@pytest.mark.parametrize(
    ("repeats", "noise"), [(1, 0.05), pytest.param(3, 0.15, marks=pytest.mark.nightly("statistics"))]
)
def test_intervals_hold_the_truth(repeats: int, noise: float) -> None:
    """
    They do in 88...99 % of 200 simulations each, for 95 % intervals of few points (measured: 91-96 %).

    Without the widening for few degrees of freedom those of seven points hold it in 74-78 %.
    """
    rng, clients = seeded(3), LADDER * repeats
    hits = np.zeros(4)
    for _ in range(SIMULATIONS):
        found = scalability(clients, noisy(BENT, clients, rng, noise), rng, DRAWS)
        estimates = (found.lambda_per_s, found.sigma, found.kappa, found.knee)
        hits += [has(estimate, truth) for estimate, truth in zip(estimates, (*BENT, BENT.knee), strict=True)]
    assert np.all(hits / SIMULATIONS >= 0.89)
    assert np.all(hits / SIMULATIONS <= 0.99)


def test_more_runs_make_shorter_intervals() -> None:
    """Nine times the runs, a third of the length, within a factor of two."""
    few, many = (
        scalability(clients, noisy(BENT, clients, seeded(5), 0.05), seeded(7)) for clients in (LADDER * 2, LADDER * 18)
    )
    lengths = [found.sigma.high - found.sigma.low for found in (few, many)]  # type: ignore[operator]
    assert 1.5 < lengths[0] / lengths[1] < 6


def test_a_knee_that_was_passed_has_a_value_and_an_interval() -> None:
    """It is at 44, and was measured up to 100 clients."""
    clients = LADDER * 3
    knee = scalability(clients, noisy(BENT, clients, seeded(5), 0.02), seeded(7)).knee
    assert knee.reason is None
    assert knee.low < 43.589 < knee.high  # type: ignore[operator]


@pytest.mark.parametrize(
    ("curve", "reason"),
    [
        (Usl(100, 0.1, 0), "no knee: throughput rises as far as was measured"),
        (Usl(100, 0.01, 0.00001), "no knee up to 100 clients; the curve's is at 315, beyond what was measured"),
        (Usl(100, 0.9, 0.5), "no knee: throughput does not rise beyond one client's"),
    ],
)
def test_where_there_is_no_knee_it_says_why(curve: Usl, reason: str) -> None:
    """An extrapolated knee would send somebody to buy hardware."""
    knee = scalability(LADDER, exact(curve), seeded(7), 50).knee
    assert (knee.value, knee.reason) == (None, reason)


@pytest.mark.parametrize(("least", "wanted"), [(10, None), (2, 3.742)])
def test_a_knee_below_the_smallest_number_of_clients_is_none(least: float, wanted: float | None) -> None:
    """Throughput that falls from 10 clients on does not say that 3.742 are best."""
    clients = [least, 20, 50, 100, 200, 400]
    knee = scalability(clients, exact(Usl(1_000, 0.3, 0.05), clients), seeded(7), 50).knee
    assert knee.value == (wanted if wanted is None else pytest.approx(wanted, abs=0.001))
    reason = "no knee: throughput falls from the smallest number of clients measured, 10"
    assert knee.reason == (reason if wanted is None else None)


def test_too_few_points_are_refused_with_the_reason() -> None:
    """Seed 5 has P = 1, 10, 100: three parameters go through any three points."""
    few = [1.0, 10, 100] * 3
    with pytest.raises(InsufficientSampleError, match="3 different numbers of clients, and the fit needs 4"):
        scalability(few, exact(BENT, few), seeded(7))
    with pytest.raises(InsufficientSampleError, match="5 points, and the fit needs 6"):
        scalability(LADDER[:5], exact(BENT, LADDER[:5]), seeded(7))


@pytest.mark.parametrize("broken", [0, -1, math.nan])
def test_a_run_without_throughput_is_refused(broken: float) -> None:
    """A failed run is no point on the curve."""
    runs = exact(BENT)
    runs[2] = broken
    with pytest.raises(ValueError, match="leave failed runs out"):
        scalability(LADDER, runs, seeded(7))


@pytest.mark.parametrize("noise", [0.6, 4])
def test_noise_beyond_reason_gives_wide_intervals_and_no_error(noise: float) -> None:
    """A throttled store may do anything; the report has to be written all the same."""
    rng = seeded(0)
    for _ in range(30):
        found = scalability(LADDER, noisy(BENT, LADDER, rng, noise), rng, 20)
        assert all(map(math.isfinite, found.curve))
        limits = (each for each in (found.knee.low, found.knee.high) if each is not None)
        assert all(map(math.isfinite, limits))

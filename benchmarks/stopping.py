"""
What stopping when sure costs the interval that one stops at: its coverage, for independent and AR(1) series.

    python -m benchmarks.stopping [--simulations 1000] [--metric p50 p90 p99] [--phi 0 0.6] [--rate 50]

Each simulation looks as CheckPrecision does, and stops by its rule; the interval that counts is that of the report,
which holds what was offered between the last look's cut and the stop as well. Beside it, the interval at the last look
itself, and that of a phase of the same series whose length was fixed before, at the mean of the others. Values are
log-normal, exp(N / 2), so that a wanted width means something. Prints a Markdown row per metric and strength: coverage,
standard error some 0.7 % of 1,000 simulations; share that was sure before `--longest-s`. Seeded. Minutes per row.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy
from benchmarks.coverage import ar1_series

from stepbench.analysis.impossible import SETTLE_S
from stepbench.analysis.precision import next_look_s, relative_width
from stepbench.contracts.experiment import QUANTILES
from stepbench.contracts.phase import LoadStep, Phase, Until
from stepbench.stages.check_precision import STOP_LEAD_S
from stepbench.stats.estimates import Sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from stepbench.contracts.measures import Estimate

_SIGMA = 0.5
_WANTED = {"p50": 0.04, "p90": 0.08, "p95": 0.1, "p99": 0.2}


class Stopped(NamedTuple):
    """A simulation has the interval at the last look, that of the report, its length, and whether it was sure."""

    look: Estimate
    report: Estimate
    length_s: float
    sure: bool


def simulate(values: NDArray[np.float64], phase: Phase, q: float, rng: np.random.Generator) -> Stopped:
    """Offer the series until sure."""
    until, rate = phase.until, phase.load[-1].rate_per_s
    wanted = until.relative_width if until else 0.0
    cut_s = phase.shortest_s
    while True:
        found = _estimate(values, rate, cut_s, q, rng)
        if (relative_width(found) or math.inf) <= wanted:
            length_s = min(cut_s + SETTLE_S + STOP_LEAD_S, phase.length_s)
            return Stopped(found, _estimate(values, rate, length_s, q, rng), length_s, sure=True)
        look_s = next_look_s(phase, cut_s)
        if look_s >= phase.length_s:
            return Stopped(found, _estimate(values, rate, phase.length_s, q, rng), phase.length_s, sure=False)
        cut_s = look_s - SETTLE_S


def _estimate(
    values: NDArray[np.float64], rate: float, length_s: float, q: float, rng: np.random.Generator
) -> Estimate:
    n = round(length_s * rate)
    return Sample(values[:n], np.arange(n) / rate, length_s, 120, rng).estimate(q)


def _series(phi: float, n: int, count: int) -> Iterator[NDArray[np.float64]]:
    rng = np.random.default_rng([2, round(phi * 1_000)])
    return (np.exp(_SIGMA * normal) for normal in ar1_series(phi, n, count, rng))


def _share(estimates: list[Estimate], truth: float) -> str:
    given = [(each.low, each.high) for each in estimates if each.low is not None and each.high is not None]
    return f"{sum(low <= truth <= high for low, high in given) / len(given):.3f}" if given else "none"


def row(metric: str, phi: float, phase: Phase, simulations: int) -> str:
    """Return one line of the table."""
    began, q, rate = time.monotonic(), QUANTILES[metric], phase.load[-1].rate_per_s
    truth, rng = math.exp(_SIGMA * float(scipy.stats.norm.ppf(q))), np.random.default_rng(3)
    n = round(phase.length_s * rate)
    ended = [simulate(values, phase, q, rng) for values in _series(phi, n, simulations)]
    mean_s = float(np.mean([each.length_s for each in ended]))
    fixed = [_estimate(values, rate, mean_s, q, rng) for values in _series(phi, n, simulations)]
    sure = sum(each.sure for each in ended) / simulations
    cells = [
        metric,
        f"{phi:g}",
        f"{100 * (phase.until.relative_width if phase.until else 0):g} %",
        f"{mean_s:.0f} s",
        f"{sure:.0%}",
        _share([each.look for each in ended if each.sure], truth),
        _share([each.report for each in ended], truth),
        _share(fixed, truth),
        f"{time.monotonic() - began:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Coverage of intervals that one stopped at.")
    parser.add_argument("--simulations", type=int, default=1_000)
    parser.add_argument("--metric", nargs="+", default=["p50", "p90", "p99"], choices=sorted(_WANTED))
    parser.add_argument("--phi", type=float, nargs="+", default=[0, 0.6])
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--shortest-s", type=float, default=10)
    parser.add_argument("--longest-s", type=float, default=300)
    asked = parser.parse_args()
    print("| metric | φ | wanted | mean length | sure | last look | report | fixed length | seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    for metric in asked.metric:
        for phi in asked.phi:
            most = round(asked.longest_s * asked.rate)
            until = Until(metric=metric, relative_width=_WANTED[metric], max_events=most)
            load = (LoadStep(rate_per_s=asked.rate, duration_s=asked.shortest_s),)
            phase = Phase(name="simulated", load=load, until=until)
            print(row(metric, phi, phase, asked.simulations), flush=True)


if __name__ == "__main__":
    main()

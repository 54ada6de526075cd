"""
How many 95 % intervals hold the truth, for AR(1) series of several strengths. Run by hand; minutes per line.

    python benchmarks/coverage.py [--compare] [--simulations 10000] [--length-s 60] [--rate 50] [--phi 0.3 0.5 0.7 0.9]

Prints a Markdown row per strength: coverage of the intervals of `stats.estimates` at p50, p90, p95 and p99, or with
`--compare` of those of `stats.comparison` for two windows of one series each; in brackets the share that got one, where
below 99 %. The series are Gaussian; quantiles are indifferent to a monotone
transformation, so what is printed holds for log-normal latencies as well. Seeded: the same command prints the same.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import scipy

from stepbench.stats.comparison import compare
from stepbench.stats.estimates import Sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stepbench.contracts.measures import Estimate

QUANTILES = (0.5, 0.9, 0.95, 0.99)
_BURN_IN = 500
_AT_ONCE = 100
_LEVEL = 10


def coverage(
    phi: float, length_s: float, rate_per_s: float, simulations: int, qs: Sequence[float] = QUANTILES
) -> list[tuple[int, int]]:
    """Return how many intervals held the truth, and how many were given, for each quantile."""
    truths = [float(scipy.stats.norm.ppf(q)) for q in qs]
    tally = _Tally(len(qs))
    for sample in _samples(phi, length_s, rate_per_s, simulations):
        tally.add([sample.estimate(q) for q in qs], truths)
    return tally.pairs()


def comparison_coverage(phi: float, length_s: float, rate_per_s: float, simulations: int) -> list[tuple[int, int]]:
    """Return such pairs of median shift, median ratio, IQR ratio and tail ratio between windows of the same series."""
    tally = _Tally(4)
    series = _samples(phi, length_s, rate_per_s, 2 * simulations)
    samples = (replace(sample, values=_LEVEL + sample.values) for sample in series)
    for a, b in zip(samples, samples, strict=True):
        tally.add(compare(a, b, b.rng), [0.0, 1.0, 1.0, 1.0])
    return tally.pairs()


class _Tally:
    def __init__(self, measures: int) -> None:
        self._held, self._given = [0] * measures, [0] * measures

    def add(self, estimates: Sequence[Estimate], truths: Sequence[float]) -> None:
        for place, (found, truth) in enumerate(zip(estimates, truths, strict=True)):
            if found.low is not None and found.high is not None:
                self._given[place] += 1
                self._held[place] += found.low <= truth <= found.high

    def pairs(self) -> list[tuple[int, int]]:
        return list(zip(self._held, self._given, strict=True))


def _samples(phi: float, length_s: float, rate_per_s: float, count: int) -> Iterator[Sample]:
    """Yield windows of AR(1) series, with one generator for all."""
    rng = np.random.default_rng([1, round(phi * 1_000)])
    n = round(length_s * rate_per_s)
    for values in ar1_series(phi, n, count, rng):
        yield Sample(values, np.arange(n) / rate_per_s, length_s, 120, rng)


def ar1_series(phi: float, n: int, count: int, rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
    """Yield AR(1) series of mean 0 and deviation 1, shape (n,) each."""
    for first in range(0, count, _AT_ONCE):
        noise = rng.standard_normal((min(_AT_ONCE, count - first), n + _BURN_IN))
        yield from scipy.signal.lfilter([math.sqrt(1 - phi**2)], [1, -phi], noise)[:, _BURN_IN:]


def _cell(held: int, given: int, simulations: int) -> str:
    if given == 0:
        return "none"
    share = given / simulations
    return f"{held / given:.4f}" + (f" [{share:.0%}]" if share < 0.99 else "")  # noqa: PLR2004 (as the docstring says)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Coverage of the intervals on AR(1) series.")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--simulations", type=int, default=10_000)
    parser.add_argument("--length-s", type=float, default=60)
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--phi", type=float, nargs="+", default=[0.3, 0.5, 0.7, 0.9])
    asked = parser.parse_args()
    measures = "median shift | median ratio | IQR ratio | tail ratio" if asked.compare else "p50 | p90 | p95 | p99"
    measure = comparison_coverage if asked.compare else coverage
    print(f"| φ | window | {measures} | seconds |\n|---|---|---|---|---|---|---|")
    for phi in asked.phi:
        began = time.monotonic()
        pairs = measure(phi, asked.length_s, asked.rate, asked.simulations)
        cells = [_cell(*pair, asked.simulations) for pair in pairs]
        seconds = time.monotonic() - began
        print(
            f"| {phi:g} | {asked.length_s:g} s x {asked.rate:g}/s | {' | '.join(cells)} | {seconds:.0f} |", flush=True
        )


if __name__ == "__main__":
    main()

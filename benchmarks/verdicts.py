"""
How often a verdict is right: 1,000 simulated plans whose truth is known, through the product's own code.

Each plan compares two settings, of which the second is the same, 5 %, 20 % or 100 % slower, with one, three or five
runs of each, events that are independent or autocorrelated, and runs that differ from one another or not. A verdict is
wrong if it says the opposite of the truth, a difference where there is none, or "the same within 10 %" where there is
more. `python -m benchmarks.verdicts [PLANS] [SEED]`.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from typing import NamedTuple

import numpy as np

from stepbench.analysis.effects import OF_INTEREST, finding_of
from stepbench.contracts.measures import Estimate
from stepbench.stats.estimates import Sample
from stepbench.stats.over_runs import MIN_RUNS, ratio

QUANTILES = (0.5, 0.9, 0.99)
EVENTS, RATE_PER_S = 2_000, 100.0


class Condition(NamedTuple):
    """What the plans of one row have in common; `between` is the standard deviation of runs, as a logarithm."""

    slower: float
    runs: int
    correlated: bool
    between: float


CONDITIONS = [
    Condition(*each) for each in itertools.product((1.0, 1.05, 1.2, 2.0), (1, 3, 5), (False, True), (0.0, 0.03))
]


def simulate(median_ms: float, condition: Condition, rng: np.random.Generator) -> list[Estimate]:
    """Return one run's estimates of the quantiles: lognormal latencies, of which neighbours may resemble each other."""
    noise = rng.standard_normal(EVENTS)
    if condition.correlated:
        for place in range(1, EVENTS):
            noise[place] = 0.8 * noise[place - 1] + 0.6 * noise[place]
    shift = rng.normal(0, condition.between)
    values = median_ms * np.exp(0.3 * noise + shift)
    at_s = np.arange(EVENTS) / RATE_PER_S
    sample = Sample(values, at_s, EVENTS / RATE_PER_S, 30.0, rng)
    return [sample.estimate(q) for q in QUANTILES]


def judge(finding: str, slower: float) -> str:
    """Return `right`, `wrong` or `undecided`."""
    if finding in {"undecided", "unknown"}:
        return "undecided"
    if finding == "same":
        return "right" if slower < OF_INTEREST else "wrong"
    return "right" if finding == "higher" and slower > 1 else "wrong"


def main(plans: int, seed: int) -> None:
    """Simulate so many plans, spread over the conditions, and print a row for each of them."""
    rng = np.random.default_rng(seed)
    rows: dict[Condition, Counter[str]] = {condition: Counter() for condition in CONDITIONS}
    for number in range(plans):
        condition = CONDITIONS[number % len(CONDITIONS)]
        sides = [
            [simulate(median_ms, condition, rng) for _ in range(condition.runs)] for median_ms in (condition.slower, 1)
        ]
        for place in range(len(QUANTILES)):
            above, below = ([run[place] for run in side] for side in sides)
            rows[condition][
                judge(finding_of(ratio(above, below), over_runs=condition.runs >= MIN_RUNS), condition.slower)
            ] += 1
    sys.stdout.write("truth  runs  events          runs differ   right  wrong  undecided\n")
    total: Counter[str] = Counter()
    for condition, found in rows.items():
        total += found
        events = "autocorrelated" if condition.correlated else "independent"
        differ = f"{100 * condition.between:.0f} %"
        counts = "".join(f"{found[each]:>8}" for each in ("right", "wrong", "undecided"))
        sys.stdout.write(f"{condition.slower:>4} ×  {condition.runs:>4}  {events:<14}  {differ:>11}  {counts}\n")  # noqa: RUF001
    for name, wanted in (("all", CONDITIONS), ("speaking of these runs alone, which differ",
                         [each for each in CONDITIONS if each.runs == 1 and each.between])):  # fmt: skip
        found = sum((rows[each] for each in wanted), Counter())
        sys.stdout.write(f"{name}: {dict(found)}, wrong {100 * found['wrong'] / found.total():.1f} %\n")


if __name__ == "__main__":
    main(int((sys.argv[1:] or ["1000"])[0]), int((sys.argv[2:] or ["7"])[0]))

"""Under injected clock skew, the interval of the trial's clock offset never misses the true one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from stepbench.analysis.clock import clock
from stepbench.analysis.evidence import gather
from stepbench.clock_offset import Exchange, estimate
from stepbench.contracts.tasks import StateError
from stepbench.records.clock_sample import ClockSample
from stepbench.stats.clocks import Reading, offset_between
from stepbench.testing.analysed_trials import AnalysedTrial

RUNS = 3_000
ROUNDS = 8
SECOND_NS = 1_000_000_000
NEVER_FASTER_NS = 15_000
"""One way over the shortest wire; a clock that drifts by 200 ppm moves by 0.2 % of it meanwhile."""
DRIFT_PPM = 200
LENGTH_S = 180


class SkewedClock:
    """A clock that is off by up to half a second at time zero and, every other one, drifts."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._offset_ns = int(rng.integers(-500_000_000, 500_000_000))
        self._drift_ppm = float(rng.uniform(-DRIFT_PPM, DRIFT_PPM)) * int(rng.integers(0, 2))

    def error_ns(self, true_ns: float) -> float:
        """How far it is ahead of the reference."""
        return self._offset_ns + true_ns * self._drift_ppm / 1e6

    def read(self, true_ns: float) -> int:
        """What it shows."""
        return round(true_ns + self.error_ns(true_ns))


def reading(one: SkewedClock, at_ns: int, rng: np.random.Generator) -> Reading:
    """As a sandbox measures: eight exchanges, each way with a delay of its own, in half of the cases one way only."""
    exchanges, now_ns = [], float(at_ns)
    congested = rng.choice([(1.0, 1.0), (1.0, 0.0), (0.0, 1.0)], p=[0.5, 0.25, 0.25])
    for _ in range(ROUNDS):
        there_ns, back_ns = NEVER_FASTER_NS + rng.exponential(400_000, 2) * congested
        asked_ns, received_ns = now_ns, now_ns + there_ns
        sent_ns = received_ns + rng.exponential(5_000)
        now_ns = sent_ns + back_ns
        exchanges.append(Exchange(one.read(asked_ns), round(received_ns), round(sent_ns), one.read(now_ns)))
    found = estimate(exchanges)
    assert found is not None
    return Reading(found.offset_ns, found.bound_ns)


def test_the_offset_interval_never_misses_the_true_offset() -> None:
    """
    Offsets up to half a second, drifts up to 200 ppm, delays that are all on one side: the bound is hard, so 0 misses.

    The truth is looked at between the first and the last reading of each side, where latencies are.
    """
    misses, misses_of_half = 0, 0
    for seed in range(RUNS):
        rng = np.random.default_rng(seed)
        sides = []
        for sandboxes in rng.integers(1, 3, 2):
            clocks = [SkewedClock(rng) for _ in range(sandboxes)]
            times_ns = [[0, int(rng.uniform(60, LENGTH_S) * SECOND_NS), LENGTH_S * SECOND_NS] for _ in clocks]
            readings = [reading(one, at, rng) for one, ats in zip(clocks, times_ns, strict=True) for at in ats]
            sides.append((clocks, readings))
        (writers, of_writers), (receivers, of_receivers) = sides
        offset = offset_between(of_receivers, of_writers)
        assert offset is not None
        true_ns = [
            receiver.error_ns(at_ns) - writer.error_ns(at_ns)
            for at_ns in (0, rng.uniform(0, LENGTH_S * SECOND_NS), LENGTH_S * SECOND_NS)
            for receiver in receivers
            for writer in writers
        ]
        furthest_ns = max(abs(each - offset.offset_ns) for each in true_ns)
        misses += furthest_ns > offset.bound_ns
        misses_of_half += furthest_ns > offset.bound_ns / 2
    assert misses == 0
    assert misses_of_half > RUNS / 10  # half of the width would not do, so the interval is not just wide


def test_one_sided_delay_without_drift_uses_the_bound_up() -> None:
    """All of the round trip on one way: the estimate is wrong by the whole bound, and not by more."""
    found = estimate([Exchange(1_000, 1_500, 1_500, 1_500)])
    assert found is not None
    assert (found.offset_ns, found.bound_ns) == (-250, 250)


def test_the_trials_clock_says_the_same_in_milliseconds() -> None:
    """The interval that a report shows is this one: receiver 7 ms ahead ± 2, writer 3 ms behind ± 1."""
    trial = AnalysedTrial().finish()
    spec = trial.memory.services.trial(trial.ref)
    receiver = ClockSample("receiver", "r", 1, 7_000_000, 2_000_000)
    writer = ClockSample("writer", "w", 1, -3_000_000, 1_000_000)
    evidence = replace(gather(spec, StateError(), trial.memory.services), clocks=(receiver, writer))
    assert (clock(evidence).offset_ms, clock(evidence).bound_ms) == (10.0, 3.0)

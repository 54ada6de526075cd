"""Looks at the machine's own cores; what they find there depends on the machine, and decides nothing here."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from stepbench.load.machine_speed import SLICE_NS, SPEED_CHECK_S, check_core, check_cores, count_work, find_slow_spells


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not let threads choose a core")
def test_each_core_is_looked_at_and_the_thread_is_free_again() -> None:
    """A process that stayed on one core would share it with all that it starts."""
    before = os.sched_getaffinity(0)
    found = check_cores(seconds=0.02)
    assert os.sched_getaffinity(0) == before
    assert found.looked_s >= 0.02 * min(2, len(before))
    assert 0 <= found.share <= 1
    assert check_cores((max(before),), seconds=0.02).looked_s >= 0.02


def test_without_a_way_to_choose_one_look_has_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS."""
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    assert check_cores(seconds=0.02).looked_s >= 0.02


MS = 1_000_000
STEP_NS = 100_000
"""What one round of the loop takes at full speed."""
Speed = Callable[[float], float]
"""Of the time in ms; 0: the thread does not run."""


@dataclass
class SlowClock:
    """The clock of a thread whose rounds take longer while it is slow; it stands still for no look at it."""

    speed: Speed
    at_ns: int = 0
    cpu_ns: int = 0

    def now_ns(self) -> int:
        """Let one round pass, and return the time."""
        while (speed := self.speed(self.at_ns / MS)) == 0:
            self.at_ns += STEP_NS
        took_ns = round(STEP_NS / speed)
        self.at_ns += took_ns
        self.cpu_ns += took_ns
        return self.at_ns


def every(period_ms: float, length_ms: float, speed: float, first_ms: float = 0) -> Speed:
    """Return the speed of a machine that is slow for so long, once a period."""
    return lambda at_ms: speed if (at_ms - first_ms) % period_ms < length_ms else 1.0


def heated(first_ms: float, speed: float) -> Speed:
    """Return the speed of a machine that throttles from some moment on."""
    return lambda at_ms: speed if at_ms > first_ms else 1.0


SHAPES: dict[str, tuple[Callable[[float], Speed], float, float]] = {
    "a tenth for 50 ms, twice in 1.3 s": (lambda first: every(650, 50, 0.09, first), 0.077, 50),
    "half for 30 ms, every 0.3 s": (lambda first: every(300, 30, 0.45, first), 0.1, 30),
    "stopped for 5 ms, every 40 ms": (lambda first: every(40, 5, 0, first), 0.2, 10),
    "stopped for 20 ms, every 100 ms": (lambda first: every(100, 20, 0, first), 0.21, 22),
    "throttled by heat": (lambda first: heated(600 + first, 0.4), 0.5, 650),
    "a quota of 1.4 in 20 ms": (lambda first: every(20, 18.6, 0, first), 1, 1_300),
    "a quota of 6 in 20 ms": (lambda first: every(20, 14, 0, first), 0.75, 1_250),
}
"""What makes it, the share of time in slow slices, and the longest spell in ms, both about: slices count as a whole."""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(5))
def test_planted_spells_are_named(shape: str, seed: int) -> None:
    """With their share, and for how long the machine was slow at most, wherever in its course the look begins."""
    make, share, longest_ms = SHAPES[shape]
    clock = SlowClock(make(float(np.random.default_rng(seed).uniform(0, 200))))
    found = check_core(SPEED_CHECK_S, clock.now_ns, lambda: clock.cpu_ns)
    assert found.matter
    assert found.share == pytest.approx(share, rel=0.35, abs=0.01)
    assert found.longest_ms == pytest.approx(longest_ms, rel=0.35, abs=5)


def noisy(rng: np.random.Generator) -> Speed:
    """Return the speed of a quiet machine: jitter, and the preemptions or the change of clock of one of its kinds."""
    jitter = rng.normal(1, rng.uniform(0.005, 0.08), 4_000).clip(0.75, 1.2)
    stops = sorted((float(at), float(rng.uniform(0.3, 4))) for at in rng.uniform(0, 1_400, rng.integers(0, 4)))
    start, end, until_ms = [(1, 1, 1), (1, 0.7, 1_000), (0.4, 1, 80), (1, 0.72, 30)][rng.integers(4)]

    def speed(at_ms: float) -> float:
        if any(at <= at_ms < at + length for at, length in stops):
            return 0.0
        ramp = start + (end - start) * min(1.0, at_ms / until_ms)
        return float(jitter[int(at_ms) % jitter.size] * ramp)

    return speed


@pytest.mark.parametrize("seed", range(50))
def test_none_is_named_on_a_quiet_machine(seed: int) -> None:
    """A word that stands beside every run is read by nobody."""
    clock = SlowClock(noisy(np.random.default_rng(seed)))
    assert not check_core(SPEED_CHECK_S, clock.now_ns, lambda: clock.cpu_ns).matter


def test_one_long_interruption_is_named_only_if_it_is_a_large_part() -> None:
    """A program that ran once, for 40 ms, is no property of the machine; half a second is worth a word."""
    for length_ms, named in ((40, False), (500, True)):
        clock = SlowClock(every(10_000, length_ms, 0, 300))
        assert check_core(SPEED_CHECK_S, clock.now_ns, lambda: clock.cpu_ns).matter is named  # noqa: B023 -- called at once


def test_a_spell_goes_on_until_what_it_held_up_can_be_worked_off() -> None:
    """30 ms slow, 10 ms at speed and 5 ms slow are one spell of 45 ms; 50 ms later another one begins."""
    pattern = [1] * 6 + [10] * 2 + [1] + [10] * 10 + [1] * 2 + [10] * 79
    edges = [5 * MS * number for number in range(101)]
    found = find_slow_spells(edges, pattern, 0)
    assert (found.looked_s, found.share, found.longest_ms, found.spells) == (0.5, 0.09, 45, 2)


def test_slices_cover_all_of_the_time_and_all_of_the_work() -> None:
    """What falls between two slices would be in no share."""
    clock = SlowClock(every(40, 5, 0))
    edges_ns, work = count_work(100 * MS, clock.now_ns)
    assert edges_ns[-1] - edges_ns[0] >= 100 * MS
    assert len(edges_ns) == len(work) + 1
    assert min(after - before for before, after in pairwise(edges_ns)) >= SLICE_NS
    assert sum(work) + len(work) == (clock.cpu_ns // STEP_NS) - 1

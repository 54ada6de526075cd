"""Floors: which arrivals count, and at which pace the probes go."""

from __future__ import annotations

from stepbench.contracts.identity import CANARY_PHASE
from stepbench.local.floors import EVENTS, arrivals, pace
from stepbench.records.t4 import Entry, pack
from stepbench.testing.fake_clock import FakeClock


def entry(sequence: int, t4_ns: int) -> Entry:
    """One arrival."""
    return Entry(CANARY_PHASE, 0, 0, 0, 0, sequence, t4_ns)


def test_the_first_arrival_counts_and_warm_up_does_not() -> None:
    """Events from EVENTS on are warm-up; one that never arrived has no latency; a duplicate is no second event."""
    t1_ns = {0: 100, 1: 200, 2: 300, EVENTS: 50}
    packed = [pack([entry(1, 260), entry(0, 190)]), pack([entry(0, 150), entry(EVENTS, 60)])]
    assert arrivals(packed, t1_ns) == [50, 60]


def test_probes_take_turns_at_half_the_gap() -> None:
    """Two probes at 20/s: something is sent every 25 ms, each probe's events 50 ms apart."""
    clock = FakeClock()
    start_ns = clock.now_ns()
    sent: list[tuple[str, int, int]] = []

    def note(name: str, sequence: int) -> None:
        sent.append((name, sequence, (clock.now_ns() - start_ns) // 1_000_000))

    pace([lambda sequence: note("a", sequence), lambda sequence: note("b", sequence)], clock)
    assert sent[:4] == [("a", 0, 0), ("b", 0, 25), ("a", 1, 50), ("b", 1, 75)]
    assert len(sent) == 2 * EVENTS


def test_no_probe_takes_no_time() -> None:
    """A plan whose stores have endpoints of their own needs no floor."""
    clock = FakeClock()
    before_ns = clock.now_ns()
    pace([], clock)
    assert clock.now_ns() == before_ns

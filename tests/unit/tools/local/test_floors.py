"""Floors: which arrivals count, and at which pace the probes go."""

from __future__ import annotations

from functools import partial

from tests.support.fake_clock import FakeClock

from stepbench.contracts.identity import CANARY_PHASE
from stepbench.records.formats.t4 import Entry, pack
from stepbench_tools.local.floors import EVENTS, PER_S, WARM_UP, arrivals, pace


def entry(sequence: int, t4_ns: int) -> Entry:
    """Return one arrival."""
    return Entry(CANARY_PHASE, 0, 0, 0, 0, sequence, t4_ns)


def test_the_first_arrival_counts_and_warm_up_does_not() -> None:
    """Event 3 is warm-up; one that never arrived has no latency; a duplicate is no second event."""
    t1_ns = {0: 100, 1: 200, 2: 300, 3: 50}
    packed = [pack([entry(1, 260), entry(0, 190)]), pack([entry(0, 150), entry(3, 60)])]
    assert arrivals(packed, t1_ns, 3) == [50, 60]


def test_probes_take_turns_at_half_the_gap() -> None:
    """
    Of two probes at 20/s something is sent every 25 ms; each probe's events are 50 ms apart.

    An emulator that has just started takes its first events slowly: numbers from EVENTS on are not measured.
    """
    clock = FakeClock()
    start_ns = clock.now_ns()
    sent: list[tuple[str, int, int]] = []

    async def note(name: str, sequence: int) -> None:
        sent.append((name, sequence, (clock.now_ns() - start_ns) // 1_000_000))

    clock.run(pace([partial(note, "a"), partial(note, "b")], clock))
    measured = sent[2 * WARM_UP :]
    warm_up_ms = 1_000 * WARM_UP // PER_S
    assert [(name, n, ms - warm_up_ms) for name, n, ms in measured[:4]] == [
        ("a", 0, 0),
        ("b", 0, 25),
        ("a", 1, 50),
        ("b", 1, 75),
    ]
    assert [n for name, n, _ in sent if name == "a"] == [*range(EVENTS, EVENTS + WARM_UP), *range(EVENTS)]
    assert len(measured) == 2 * EVENTS


def test_no_probe_takes_no_time() -> None:
    """A plan whose stores have endpoints of their own needs no floor."""
    clock = FakeClock()
    before_ns = clock.now_ns()
    clock.run(pace([], clock))
    assert clock.now_ns() == before_ns

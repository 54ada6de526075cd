"""The anchor of a writer's clock, spans of time, and a clock's offset to its reference."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.samples.finished_trials import AnalysedTrial

from stepbench.analysis.clocks import SandboxOffset, measure_clock, offset_between
from stepbench.analysis.evidence import Stored, gather
from stepbench.clock import (
    AnchoredClock,
    ClockOffset,
    SntpExchange,
    SystemClock,
    covered,
    estimate_offset,
    measure_offset,
    read_answer,
    sntp_answer,
    sntp_request,
)
from stepbench.contracts.tasks import StateError
from stepbench.costs.standing import Deployment
from stepbench.records.storage.layout import ClockSample

if TYPE_CHECKING:
    from collections.abc import Sequence

OFFSET_NS = 10**18


class Interrupted:
    """Stands for `time`: each reading takes 100 ns, and after some of them the process waits for 32 ms."""

    def __init__(self, waits_after: Sequence[int]) -> None:
        self._waits_after = frozenset(waits_after)
        self._readings = 0
        self._now_ns = 0

    def monotonic_ns(self) -> int:
        """Return the time."""
        self._readings += 1
        now_ns = self._now_ns
        self._now_ns += 100 + 32_000_000 * (self._readings in self._waits_after)
        return now_ns

    def time_ns(self) -> int:
        """Return the time of the other clock."""
        return self.monotonic_ns() + OFFSET_NS


@pytest.mark.parametrize("waits_after", [(), (1,), (2,), (1, 5, 8, 11)])
def test_an_interruption_in_the_middle_of_a_look_moves_no_anchor(
    monkeypatch: pytest.MonkeyPatch, waits_after: Sequence[int]
) -> None:
    """On a busy machine it would put all writes of a slice off by 16 ms."""
    clock = Interrupted(waits_after)
    monkeypatch.setattr("stepbench.clock.time", clock)
    anchored = AnchoredClock()
    assert anchored.now_ns() - clock.time_ns() == pytest.approx(0, abs=200)
    assert anchored.drift_ns() == pytest.approx(0, abs=200)


@pytest.mark.parametrize(
    ("spans", "length"),
    [
        ([], 0),
        ([(3, 5)], 2),
        ([(7, 9), (0, 4)], 6),
        ([(0, 10), (2, 3), (10, 15)], 15),
        ([(-4, -1), (-2, 2)], 6),
        ([(5, 5), (6, 5)], 0),
        ([(0.5, 1.5), (1.0, 2.25)], 1.75),
    ],
)
def test_time_counts_once(spans: list[tuple[float, float]], length: float) -> None:
    """Apart, within each other, side by side, before zero, and empty."""
    assert covered(spans) == length


NOW_NS = 1_700_000_000_123_456_789


def test_the_offset_is_ours_minus_the_references() -> None:
    """By hand, we are 5 behind, and it takes 3 there, 1 inside, 1 back: -5 - (3 - 1) / 2 = -6, within 2."""
    exchange = SntpExchange(asked_ns=100, received_ns=108, sent_ns=109, answered_ns=105)
    assert exchange.round_trip_ns == 4
    assert estimate_offset([exchange]) == ClockOffset(-6, 2)


def test_the_smallest_round_trip_wins() -> None:
    """A packet that queued says little about the clock; without any the report says "unmeasured", never 0."""
    good = SntpExchange(100, 110, 110, 120)
    queued = SntpExchange(100, 500, 500, 520)
    assert estimate_offset([queued, good, queued]) == ClockOffset(0, 10)
    assert estimate_offset([]) is None


@given(
    offset=st.integers(-(10**12), 10**12),
    delays=st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**6)), min_size=1),
)
def test_the_truth_lies_within_the_bound(offset: int, delays: list[tuple[int, int, int]]) -> None:
    """It does so however unequal the two ways are."""
    exchanges = [
        SntpExchange(NOW_NS, NOW_NS - offset + there, NOW_NS - offset + there + inside, NOW_NS + there + inside + back)
        for there, back, inside in delays
    ]
    found = estimate_offset(exchanges)
    assert found is not None
    assert abs(found.offset_ns - offset) <= found.bound_ns + 1


@given(st.integers(0, 2_500_000_000 * 10**9), st.integers(0, 10**9))
def test_times_survive_the_packet(received_ns: int, inside_ns: int) -> None:
    """NTP's era ends in 2036; its fraction resolves a quarter of a nanosecond."""
    question = sntp_request(NOW_NS)
    packet = sntp_answer(question, received_ns, received_ns + inside_ns)
    assert packet is not None
    assert read_answer(question, packet) == (received_ns, received_ns + inside_ns)


@pytest.mark.parametrize(
    "change",
    [
        lambda packet: packet[:47],
        lambda packet: bytes([packet[0] | 0xC0]) + packet[1:],
        lambda packet: bytes([0x23]) + packet[1:],
        lambda packet: packet[:1] + b"\x00" + packet[2:],
        lambda packet: packet[:1] + b"\x10" + packet[2:],
        lambda packet: packet[:24] + b"\x00" * 8 + packet[32:],
    ],
    ids=["cut", "unsynchronised", "not a server's", "kiss of death", "stratum 16", "answers another question"],
)
def test_a_bad_answer_counts_as_none(change: Callable[[bytes], bytes]) -> None:
    """A forged or late packet would shift every latency."""
    question = sntp_request(NOW_NS)
    packet = sntp_answer(question, NOW_NS, NOW_NS)
    assert packet is not None
    assert read_answer(question, change(packet)) is None


def test_only_questions_are_answered() -> None:
    """The responder is a socket like any other."""
    assert sntp_answer(b"hello", NOW_NS, NOW_NS) is None


@contextmanager
def responder(reply: Callable[[bytes], bytes | None]) -> Iterator[str]:
    """Serve UDP on loopback, and yield host:port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.bind(("127.0.0.1", 0))
        port = wire.getsockname()[1]

        def serve() -> None:
            while (packet := wire.recvfrom(512))[0] != b"end":
                if answered := reply(packet[0]):
                    wire.sendto(answered, packet[1])

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{port}"
        wire.sendto(b"end", ("127.0.0.1", port))
        thread.join(5)


def test_one_host_has_no_offset_to_itself() -> None:
    """On loopback the truth is 0, so the bound has to cover the estimate."""
    clock = SystemClock()
    with responder(lambda packet: sntp_answer(packet, clock.now_ns(), clock.now_ns())) as reference:
        found = measure_offset(reference, clock)
    assert found is not None
    assert abs(found.offset_ns) <= found.bound_ns
    assert found.bound_ns < 50_000_000


@pytest.mark.parametrize(
    "reply", [pytest.param(b"nonsense", id="answers nonsense"), pytest.param(None, id="silent, for half a second")]
)
def test_a_reference_without_good_answers_is_given_up_after_two(reply: bytes | None) -> None:
    """A receiver must not hang on it."""
    asked: list[bytes] = []

    def lose(packet: bytes) -> bytes | None:
        asked.append(packet)
        return reply

    with responder(lose) as reference:
        assert measure_offset(reference, SystemClock()) is None
    assert len(asked) == 2


@pytest.mark.parametrize("reference", ["", "localhost", "host:port", ":123", "127.0.0.1:99999", "no-such.invalid:123"])
def test_without_a_usable_reference_the_offset_stays_unmeasured(reference: str) -> None:
    """A setting may be empty or mistyped; the run goes on and says so."""
    assert measure_offset(reference, SystemClock()) is None


def test_a_closed_port_is_given_up() -> None:
    """Nobody listens there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.bind(("127.0.0.1", 0))
        port = wire.getsockname()[1]
    assert measure_offset(f"127.0.0.1:{port}", SystemClock()) is None


RUNS = 3_000
ROUNDS = 8
SECOND_NS = 1_000_000_000
NEVER_FASTER_NS = 15_000
"""One way over the shortest wire; a clock that drifts by 200 ppm moves by 0.2 % of it meanwhile."""
DRIFT_PPM = 200
LENGTH_S = 180


class SkewedClock:
    """The clock is off by up to half a second at time zero and, every other one, drifts."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._offset_ns = int(rng.integers(-500_000_000, 500_000_000))
        self._drift_ppm = float(rng.uniform(-DRIFT_PPM, DRIFT_PPM)) * int(rng.integers(0, 2))

    def error_ns(self, true_ns: float) -> float:
        """Return how far it is ahead of the reference."""
        return self._offset_ns + true_ns * self._drift_ppm / 1e6

    def read(self, true_ns: float) -> int:
        """Return what it shows."""
        return round(true_ns + self.error_ns(true_ns))


def reading(one: SkewedClock, at_ns: int, rng: np.random.Generator) -> SandboxOffset:
    """Measure as a sandbox: eight exchanges, each way with a delay of its own, in half of the cases one way only."""
    exchanges, now_ns = [], float(at_ns)
    congested = rng.choice([(1.0, 1.0), (1.0, 0.0), (0.0, 1.0)], p=[0.5, 0.25, 0.25])
    for _ in range(ROUNDS):
        there_ns, back_ns = NEVER_FASTER_NS + rng.exponential(400_000, 2) * congested
        asked_ns, received_ns = now_ns, now_ns + there_ns
        sent_ns = received_ns + rng.exponential(5_000)
        now_ns = sent_ns + back_ns
        exchanges.append(SntpExchange(one.read(asked_ns), round(received_ns), round(sent_ns), one.read(now_ns)))
    found = estimate_offset(exchanges)
    assert found is not None
    return SandboxOffset(found.offset_ns, found.bound_ns)


def test_the_offset_interval_never_misses_the_true_offset() -> None:
    """
    The bound is hard, so with offsets up to 0.5 s, drifts up to 200 ppm and delays on one side only nothing is missed.

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
        offset_ns, bound_ns = offset
        true_ns = [
            receiver.error_ns(at_ns) - writer.error_ns(at_ns)
            for at_ns in (0, rng.uniform(0, LENGTH_S * SECOND_NS), LENGTH_S * SECOND_NS)
            for receiver in receivers
            for writer in writers
        ]
        furthest_ns = max(abs(each - offset_ns) for each in true_ns)
        misses += furthest_ns > bound_ns
        misses_of_half += furthest_ns > bound_ns / 2
    assert misses == 0
    assert misses_of_half > RUNS / 10  # half of the width would not do, so the interval is not just wide


def test_one_sided_delay_without_drift_uses_the_bound_up() -> None:
    """With all of the round trip on one way the estimate is wrong by the whole bound, and not by more."""
    found = estimate_offset([SntpExchange(1_000, 1_500, 1_500, 1_500)])
    assert found is not None
    assert (found.offset_ns, found.bound_ns) == (-250, 250)


def test_the_trials_clock_says_the_same_in_milliseconds() -> None:
    """The interval that a report shows is this one: receiver 7 ms ahead ± 2, writer 3 ms behind ± 1."""
    trial = AnalysedTrial().finish()
    services = trial.memory.services
    spec = services.trial(trial.ref)
    receiver = ClockSample("receiver", "r", 1, 7_000_000, 2_000_000)
    writer = ClockSample("writer", "w", 1, -3_000_000, 1_000_000)
    gathered = gather(Stored(spec, StateError(), services.runs, services.table, services.clock, Deployment()))
    clock = measure_clock(replace(gathered, clocks=(receiver, writer)))
    assert (clock.offset_ms, clock.bound_ms) == (10.0, 3.0)

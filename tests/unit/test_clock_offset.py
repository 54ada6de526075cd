from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepbench.clock import SystemClock
from stepbench.clock_offset import ClockOffset, Exchange, answer, estimate, measure_offset, read_answer, request

NOW_NS = 1_700_000_000_123_456_789


def test_the_offset_is_ours_minus_the_references() -> None:
    """By hand: we are 5 behind; 3 there, 1 inside, 1 back: -5 - (3 - 1) / 2 = -6, within 2."""
    exchange = Exchange(asked_ns=100, received_ns=108, sent_ns=109, answered_ns=105)
    assert exchange.round_trip_ns == 4
    assert estimate([exchange]) == ClockOffset(-6, 2)


def test_the_smallest_round_trip_wins() -> None:
    """A packet that queued says little about the clock."""
    good = Exchange(100, 110, 110, 120)
    queued = Exchange(100, 500, 500, 520)
    assert estimate([queued, good, queued]) == ClockOffset(0, 10)


def test_without_an_exchange_there_is_no_offset() -> None:
    """The report then says "unmeasured", never 0."""
    assert estimate([]) is None


@given(
    offset=st.integers(-(10**12), 10**12),
    delays=st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**6)), min_size=1),
)
def test_the_truth_lies_within_the_bound(offset: int, delays: list[tuple[int, int, int]]) -> None:
    """However unequal the two ways are."""
    exchanges = [
        Exchange(NOW_NS, NOW_NS - offset + there, NOW_NS - offset + there + inside, NOW_NS + there + inside + back)
        for there, back, inside in delays
    ]
    found = estimate(exchanges)
    assert found is not None
    assert abs(found.offset_ns - offset) <= found.bound_ns + 1


@given(st.integers(0, 2_500_000_000 * 10**9), st.integers(0, 10**9))
def test_times_survive_the_packet(received_ns: int, inside_ns: int) -> None:
    """NTP's era ends in 2036; its fraction resolves a quarter of a nanosecond."""
    question = request(NOW_NS)
    packet = answer(question, received_ns, received_ns + inside_ns)
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
    question = request(NOW_NS)
    packet = answer(question, NOW_NS, NOW_NS)
    assert packet is not None
    assert read_answer(question, change(packet)) is None


def test_only_questions_are_answered() -> None:
    """The responder is a socket like any other."""
    assert answer(b"hello", NOW_NS, NOW_NS) is None


@contextmanager
def responder(reply: Callable[[bytes], bytes | None]) -> Iterator[str]:
    """A UDP server on loopback; yields host:port."""
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
    """Loopback: the truth is 0, so the bound has to cover the estimate."""
    clock = SystemClock()
    with responder(lambda packet: answer(packet, clock.now_ns(), clock.now_ns())) as reference:
        found = measure_offset(reference, clock)
    assert found is not None
    assert abs(found.offset_ns) <= found.bound_ns
    assert found.bound_ns < 50_000_000


def test_a_reference_that_answers_nonsense_is_given_up() -> None:
    """After two lost answers; a receiver must not hang on it."""
    asked: list[bytes] = []

    def nonsense(packet: bytes) -> bytes:
        asked.append(packet)
        return b"nonsense"

    with responder(nonsense) as reference:
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


def test_a_silent_reference_is_given_up() -> None:
    """Two time-outs, half a second in all."""
    with responder(lambda _: None) as reference:
        assert measure_offset(reference, SystemClock()) is None

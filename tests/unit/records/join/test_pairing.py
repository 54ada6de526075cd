"""Invocations whose lines name no event, paired with events by order: against planted truth, and by hand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepbench.records.join.pairing import CLOCKS_APART_NS, Pairing, Sends, Starts, pair_by_order

MS = 1_000_000
LIMIT_MS = 1_000
BEGIN_NS = 1_700_000_000 * 10**9


class Planted(NamedTuple):
    """What became of one event in truth: sent so long after the one before, its starts so long after its send."""

    gap_ms: float
    starts_ms: tuple[float, ...]
    clock: float = 0.0
    failures: int = 0


class Truth:
    """Events and their invocations as they were; `pair` sees times of two clocks, and no name of an event."""

    def __init__(self, planted: list[Planted], *, stream_attempts: int = 0) -> None:
        self.attempts = stream_attempts or 1
        self.sent_ns, self.of, first_ns, self.again = [], {}, [], []
        at_ns = BEGIN_NS
        for event, each in enumerate(planted):
            at_ns += round(each.gap_ms * MS)
            self.sent_ns.append(at_ns)
            for place, start_ms in enumerate(each.starts_ms):
                read_ns = at_ns + round(start_ms * MS) + round(each.clock * CLOCKS_APART_NS)
                first_ns.append(read_ns // MS * MS)
                self.of[f"r-{len(first_ns)}"] = event
                self.again.append(place < each.failures)
        self.starts = Starts(list(self.of), np.array(first_ns, np.int64), np.array(self.again, np.bool_))
        sent = np.array(self.sent_ns, np.int64)
        self.sends = Sends(np.arange(sent.size), sent, sent + LIMIT_MS * MS)

    def pair(self) -> Pairing:
        """Return what follows from the order."""
        return pair_by_order(self.sends, self.starts, resolution_ns=MS, attempts=self.attempts)

    def check(self) -> None:
        """Nothing is paired wrongly; what is neither paired nor doubtful is lost; the counts add up."""
        found = self.pair()
        doubtful = set(found.unpaired.tolist())
        for request, event in found.event.items():
            assert event in doubtful or self.of[request] == event
        arrived = set(self.of.values())
        for event in range(len(self.sent_ns)):
            assert event in doubtful or (event in set(found.event.values())) == (event in arrived)


gaps = st.one_of(st.floats(0, 40), st.floats(0, 400), st.floats(LIMIT_MS - 10, LIMIT_MS + 30), st.just(2_500.0))
delays = st.one_of(st.floats(0, 30), st.floats(0, LIMIT_MS), st.floats(LIMIT_MS - 20, LIMIT_MS))
clocks = st.floats(-0.99, 0.99)
arriving = st.builds(lambda gap, delay, clock: Planted(gap, (delay,), clock), gaps, delays, clocks)
lost = st.builds(lambda gap: Planted(gap, ()), gaps)


@given(st.lists(st.one_of(arriving, arriving, arriving, lost), max_size=30))
def test_with_losses_and_clocks_apart_nothing_is_paired_wrongly(planted: list[Planted]) -> None:
    """A wrong pair is a wrong latency that nobody can see. As many are counted as have started."""
    truth = Truth(planted)
    truth.check()
    found = truth.pair()
    assert len(set(found.event.values())) == len(truth.of)


twice = st.builds(
    lambda gap, two, clock: Planted(gap, tuple(sorted(two)), clock), gaps, st.tuples(delays, delays), clocks
)


@given(st.lists(st.one_of(arriving, arriving, twice), max_size=30))
def test_with_events_that_come_twice_nothing_is_paired_wrongly(planted: list[Planted]) -> None:
    """The second start may be taken for the next event's, and so on: the one too many at the end shows it."""
    found = Truth(planted).pair()
    doubtful, truth = set(found.unpaired.tolist()), Truth(planted)
    for request, event in found.event.items():
        assert event in doubtful or truth.of[request] == event


@st.composite
def retried(draw: st.DrawFn) -> Planted:
    """Return an event of a stream that fails up to three times, after which it is given up."""
    failures = draw(st.integers(0, 3))
    count = failures if failures == 3 else failures + 1
    starts = sorted(draw(st.lists(delays, min_size=count, max_size=count)))
    return Planted(draw(gaps), tuple(starts), draw(clocks), failures)


@given(st.lists(st.one_of(arriving, arriving, retried(), lost), max_size=30))
def test_a_streams_retries_are_of_the_event_that_failed(planted: list[Planted]) -> None:
    """Lambda invokes a function for them under new ids, so that they look like other events."""
    Truth(planted, stream_attempts=3).check()


def test_of_events_that_fail_together_none_is_taken_for_given_up() -> None:
    """Each failed once of two times. Were one taken for given up, the last start would contradict the first pair."""
    failing = Planted(100, (20, 60), failures=1), Planted(1, (25, 140), failures=1)
    found = Truth([Planted(0, (5,)), *failing], stream_attempts=2).pair()
    assert found.unpaired.tolist() == [1, 2]


def _apart(count: int, delay_ms: float, gap_ms: float = 100) -> list[Planted]:
    return [Planted(gap_ms, (delay_ms,)) for _ in range(count)]


def test_events_that_are_far_apart_are_all_paired() -> None:
    """50 ms after the send, and 50 ms before the next: more than two clocks may be apart."""
    found = Truth(_apart(100, 50)).pair()
    assert not found.unpaired.size
    assert list(found.event.values()) == list(range(100))


def test_events_that_overlap_are_counted_and_not_paired() -> None:
    """Each starts after the next was sent, so any order would explain them."""
    found = Truth(_apart(100, 150)).pair()
    assert found.unpaired.size == 100
    assert sorted(found.event.values()) == list(range(100))


def test_what_starts_within_the_clocks_doubt_of_the_next_send_is_not_paired() -> None:
    """By hand: 12 ms before the next send is enough: the clocks may be 10 ms apart, and 1 ms is rounded."""
    assert not Truth(_apart(4, 100 - 12)).pair().unpaired.size
    assert Truth(_apart(4, 100 - 10)).pair().unpaired.size == 4


def test_after_a_loss_nothing_is_paired_until_it_can_come_no_more() -> None:
    """Whatever starts within the limit of 1 s may be the lost one's; what is sent after that is paired again."""
    planted = [*_apart(2, 20), Planted(100, ()), *_apart(9, 20), *_apart(5, 20, 1_200)]
    found = Truth(planted).pair()
    assert found.unpaired.tolist() == list(range(2, 12))
    assert len(found.event) == 16


def test_a_start_too_many_puts_all_in_doubt_since_the_last_pause() -> None:
    """The one before the pause of 1.2 s is sure: whatever came of it came before."""
    planted = [*_apart(3, 20), *_apart(1, 20, 1_200), Planted(100, (20, 60)), *_apart(1, 20, 1_200)]
    assert Truth(planted).pair().unpaired.tolist() == [3, 4]


def test_starts_before_the_first_event_are_canaries() -> None:
    """They are sent before the load, and each is awaited."""
    truth = Truth(_apart(2, 20))
    starts = Starts(
        ["canary", *truth.starts.request], np.append(BEGIN_NS, truth.starts.first_ns), np.zeros(3, np.bool_)
    )
    found = pair_by_order(truth.sends, starts, resolution_ns=MS, attempts=1)
    assert found.canaries == {"canary"}
    assert len(found.event) == 2


def test_an_event_of_which_nobody_knows_when_it_was_sent_stays_open() -> None:
    """Its writer died: whatever starts from its due time on may be its."""
    truth = Truth(_apart(5, 20))
    until_ns = truth.sends.open_until_ns.copy()
    until_ns[1] = np.iinfo(np.int64).max
    starts = Starts(["a", "c", "d", "e"], np.delete(truth.starts.first_ns, 1), np.zeros(4, np.bool_))
    found = pair_by_order(truth.sends._replace(open_until_ns=until_ns), starts, resolution_ns=MS, attempts=1)
    assert found.unpaired.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("planted", [[], [Planted(10, ())] * 3])
def test_where_nothing_started_nothing_is_in_doubt(planted: list[Planted]) -> None:
    """All are lost, which is known of each."""
    found = Truth(planted).pair()
    assert (found.event, found.unpaired.size) == ({}, 0)

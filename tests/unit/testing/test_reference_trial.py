"""The reference store's order of deliveries, and that its log says what it did."""

from __future__ import annotations

import heapq
from io import StringIO
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepbench.calibration.truth import Fate, TrueWrite, read_truth
from stepbench.contracts.identity import EventId, trial_tag
from stepbench.contracts.target import ConstantDelay, ReferenceTarget
from stepbench.testing import reference_trial
from stepbench.testing.reference_fates import draw_fate
from stepbench.testing.reference_trial import COPY_AFTER_NS, HOLD_NS, Due, Trial

TAG = trial_tag("run", 0)
MS = 1_000_000
APART_NS = 2 * MS


class Played:
    """A trial whose writes come `APART_NS` apart, played to its end; deliveries are sent when they are made."""

    def __init__(self, target: ReferenceTarget, writers: list[int], seed: int = 1) -> None:
        self.log = StringIO()
        self.trial = Trial(TAG, target, seed, 0, self.log)
        self.order: list[int] = []
        self.times_ns: list[int] = []
        self._serial = count()
        self._due: list[tuple[int, int, Due]] = []
        for place, writer in enumerate(writers):
            self._until(place * APART_NS)
            number = self.trial.next_write()
            event = EventId(TAG, 0, writer, 0, 0, place).text().encode()
            self._queue(self.trial.write(number, event, event, place * APART_NS))
        self._until(10**12)

    @property
    def truth(self) -> tuple[TrueWrite, ...]:
        """As the log tells it."""
        return read_truth(self.log.getvalue().splitlines())

    def _queue(self, due: Due | None) -> None:
        if due is not None:
            heapq.heappush(self._due, (due.due_ns, next(self._serial), due))

    def _until(self, now_ns: int) -> None:
        while self._due and self._due[0][0] <= now_ns:
            at_ns, _, due = heapq.heappop(self._due)
            made, later = self.trial.deliver(due, at_ns)
            self.trial.sent(made, at_ns)
            self.order += [each.write for each in made]
            self.times_ns += [at_ns] * len(made)
            for each in later:
                self._queue(each)


def target(**shares: float) -> ReferenceTarget:
    """Constant 1 ms, unless faults say otherwise."""
    return ReferenceTarget(store="reference", delay=ConstantDelay(kind="constant", ms=1), **shares)


@pytest.fixture
def fated(monkeypatch: pytest.MonkeyPatch) -> dict[int, str]:
    """By sequence, letters: d dropped, 2 duplicated, r reordered. In place of what a seed would draw."""
    fates: dict[int, str] = {}

    def chosen(target: ReferenceTarget, seed: int, event: bytes) -> Fate:
        letters = fates.get(int(event[-8:], 16), "")
        fate = draw_fate(target, seed, event)
        return fate._replace(dropped="d" in letters, duplicated="2" in letters, reordered="r" in letters)

    monkeypatch.setattr(reference_trial, "draw_fate", chosen)
    return fates


@pytest.mark.parametrize(
    ("fates", "writers", "order"),
    [
        ({}, [0, 0, 0], [1, 2, 3]),
        ({1: "d"}, [0, 0, 0], [1, 3]),
        ({1: "2"}, [0, 0, 0], [1, 2, 2, 3]),
        ({1: "r"}, [0, 0, 0], [1, 3, 2]),
        ({0: "r", 1: "r"}, [0, 0, 0], [3, 2, 1]),
        ({0: "r", 1: "d"}, [0, 0, 0], [3, 1]),
        ({0: "r"}, [0, 1, 0], [2, 3, 1]),
        ({0: "r2"}, [0, 0, 0], [2, 1, 1, 3]),
        ({2: "r"}, [0, 0, 0], [1, 2, 3]),
    ],
)
def test_deliveries_come_in_the_order_that_fates_say(
    fated: dict[int, str], fates: dict[int, str], writers: list[int], order: list[int]
) -> None:
    """A reordered write comes after the next of its writer that is not dropped; without one, when its time is up."""
    fated.update(fates)
    played = Played(target(), writers)
    assert played.order == order
    assert played.trial.pending == 0


def test_the_times_are_those_of_the_delay_the_copy_and_the_hold(fated: dict[int, str]) -> None:
    """1 ms after reception; the second delivery 1 ms after the first; the last event is held for its full time."""
    fated.update({0: "2", 1: "r"})
    played = Played(target(), [0, 0])
    assert played.times_ns == [MS, MS + COPY_AFTER_NS, APART_NS + MS + HOLD_NS]


def test_a_write_that_is_not_yet_due_when_its_follower_comes_is_not_held(fated: dict[int, str]) -> None:
    """The follower went before it already: it is late by itself."""
    fated.update({0: "r"})
    trial = Trial(TAG, target(), 1, 0, StringIO())
    events = [EventId(TAG, 0, 0, 0, 0, sequence).text().encode() for sequence in range(2)]
    first, second = (
        trial.write(trial.next_write(), event, event, at) for event, at in zip(events, (9 * MS, 0), strict=True)
    )
    assert first is not None
    assert second is not None
    assert [each.write for each in trial.deliver(second, second.due_ns)[0]] == [2]
    assert [each.write for each in trial.deliver(first, first.due_ns)[0]] == [1]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=40),
    st.tuples(*[st.floats(0, 0.9)] * 3),
    st.integers(0, 2**32),
)
def test_the_log_tells_all_that_happened(writers: list[int], shares: tuple[float, ...], seed: int) -> None:
    """Whatever the fates: each write once, what is dropped never, the rest once or twice, positions without a gap."""
    names = ("drop_share", "duplicate_share", "reorder_share")
    played = Played(target(**dict(zip(names, shares, strict=True))), writers, seed)
    assert [write.number for write in played.truth] == list(range(1, len(writers) + 1))
    for write in played.truth:
        assert len(write.deliveries) == (0 if write.dropped else 2 if write.duplicated else 1)
        assert all(at_ns >= write.due_ns for at_ns in write.deliveries.values())
    positions = sorted(position for write in played.truth for position in write.deliveries)
    assert positions == list(range(1, len(played.order) + 1))
    assert played.trial.pending == 0

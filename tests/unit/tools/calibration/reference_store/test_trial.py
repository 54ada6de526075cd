"""The reference store's order of deliveries, and that its log says what it did."""

from __future__ import annotations

import heapq
import math
from io import StringIO
from itertools import count
from typing import Any

import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from stepbench.contracts.capacity import ConstantDelay, StallDelay
from stepbench.contracts.identity import CANARY_PHASE, EventId, trial_tag
from stepbench.contracts.target import ReferenceTarget
from stepbench_tools.calibration.reference_store import trial as reference_trial
from stepbench_tools.calibration.reference_store.trial import (
    COPY_AFTER_NS,
    HOLD_NS,
    LONGEST_NS,
    Due,
    Trial,
    draw_fate,
    stall_end_ns,
)
from stepbench_tools.calibration.truth import Fate, TrueWrite, read_truth

TAG = trial_tag("run", 0)
MS = 1_000_000
APART_NS = 2 * MS


def head(sequence: int, writer: int = 0, phase: int = 0, tag: str = TAG) -> bytes:
    """Return the head of an event's value."""
    return EventId(tag, phase, writer, 0, 0, sequence).text().encode()


class Played:
    """The trial's writes come `APART_NS` apart; it is played to its end, and sends deliveries when they are made."""

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
            event = head(place, writer)
            self._queue(self.trial.write(number, event, event, place * APART_NS))
        self._until(10**12)

    @property
    def truth(self) -> tuple[TrueWrite, ...]:
        """Return the truth as the log has it."""
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
    """Return a target that delays by 1 ms, and faults as its shares say."""
    return ReferenceTarget(store="reference", delay=ConstantDelay(kind="constant", ms=1), **shares)


@pytest.fixture
def fated(monkeypatch: pytest.MonkeyPatch) -> dict[int, str]:
    """Replace what a seed would draw by letters, by sequence: d dropped, 2 duplicated, r reordered."""
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
    """Delivery is 1 ms after reception, the second 1 ms after the first; the last event is held for its full time."""
    fated.update({0: "2", 1: "r"})
    played = Played(target(), [0, 0])
    assert played.times_ns == [MS, MS + COPY_AFTER_NS, APART_NS + MS + HOLD_NS]


def test_a_write_that_is_not_yet_due_when_its_follower_comes_is_not_held(fated: dict[int, str]) -> None:
    """The follower went before it already: it is late by itself."""
    fated.update({0: "r"})
    trial = Trial(TAG, target(), 1, 0, StringIO())
    first, second = (trial.write(trial.next_write(), head(n), head(n), at) for n, at in enumerate((9 * MS, 0)))
    assert first is not None
    assert second is not None
    assert [each.write for each in trial.deliver(second, second.due_ns)[0]] == [2]
    assert [each.write for each in trial.deliver(first, first.due_ns)[0]] == [1]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=1, max_size=40), st.tuples(*[st.floats(0, 0.9)] * 3), st.integers(0, 2**32))
def test_the_log_tells_all_that_happened(writers: list[int], shares: tuple[float, ...], seed: int) -> None:
    """Whatever the fates, each write is there once, what is dropped never comes, and positions have no gap."""
    names = ("drop_share", "duplicate_share", "reorder_share")
    played = Played(target(**dict(zip(names, shares, strict=True))), writers, seed)
    assert [write.number for write in played.truth] == list(range(1, len(writers) + 1))
    for write in played.truth:
        assert len(write.deliveries) == (0 if write.dropped else 2 if write.duplicated else 1)
        assert all(at_ns >= write.due_ns for at_ns in write.deliveries.values())
    positions = sorted(position for write in played.truth for position in write.deliveries)
    assert positions == list(range(1, len(played.order) + 1))
    assert played.trial.pending == 0


N = 10_000
STALLS = StallDelay(kind="stalls", base_ms=3, stall_ms=300, every_s=2)


def fates(delay: dict[str, Any], seed: int = 1, run: str = "run", **shares: float) -> list[Fate]:
    """Draw the fates of N events of one writer."""
    target = ReferenceTarget.model_validate({"store": "reference", "delay": delay, **shares})
    return [draw_fate(target, seed, head(n, tag=trial_tag(run, 0))) for n in range(N)]


def test_a_constant_delay_is_constant() -> None:
    """It is so to the nanosecond."""
    assert set(fates({"kind": "constant", "ms": 5.5})) == {Fate(5_500_000)}


def test_a_bimodal_delay_has_its_two_modes_in_their_shares() -> None:
    """It has two normal humps, 2 % wide, with sizes within four standard errors."""
    drawn = [fate.delay_ns / MS for fate in fates({"kind": "bimodal", "low_ms": 2, "high_ms": 20, "high_share": 0.3})]
    high, low = [each for each in drawn if each > 10], [each for each in drawn if each < 10]
    assert abs(len(high) / N - 0.3) < 4 * math.sqrt(0.3 * 0.7 / N)
    for mode, mode_ms in ((low, 2.0), (high, 20.0)):
        assert scipy.stats.kstest(mode, scipy.stats.norm(mode_ms, 0.02 * mode_ms).cdf).pvalue > 0.001


def test_a_pareto_delay_has_its_tail() -> None:
    """It follows P(delay > x) = (scale / x) ** shape, and is cut where the contract says."""
    drawn = [fate.delay_ns / MS for fate in fates({"kind": "pareto", "scale_ms": 2, "shape": 1.5})]
    assert scipy.stats.kstest(drawn, scipy.stats.pareto(1.5, scale=2).cdf).pvalue > 0.001
    longest = max(fate.delay_ns for fate in fates({"kind": "pareto", "scale_ms": 9_000, "shape": 0.6}))
    assert longest == LONGEST_NS


def test_faults_have_their_shares_and_what_is_dropped_has_no_other() -> None:
    """They are within four standard errors; a dropped event that came twice would be nonsense in the truth."""
    drawn = fates({"kind": "constant", "ms": 1}, drop_share=0.1, duplicate_share=0.2, reorder_share=0.3)
    kept = [fate for fate in drawn if not fate.dropped]
    assert abs(len(kept) / N - 0.9) < 4 * math.sqrt(0.1 * 0.9 / N)
    for name, share in (("duplicated", 0.2), ("reordered", 0.3)):
        count = sum(getattr(fate, name) for fate in kept)
        assert abs(count / len(kept) - share) < 4 * math.sqrt(share * (1 - share) / len(kept))
    assert {(fate.duplicated, fate.reordered) for fate in drawn if fate.dropped} == {(False, False)}


def test_the_seed_decides_and_the_run_does_not() -> None:
    """A plan has the same losses in every run; repeats differ by seed."""
    pareto = {"kind": "pareto", "scale_ms": 2, "shape": 1.5}
    assert fates(pareto, drop_share=0.5) == fates(pareto, run="other", drop_share=0.5)
    assert fates(pareto, seed=1) != fates(pareto, seed=2)


def test_a_canary_is_delayed_and_nothing_else() -> None:
    """A trial waits for three of them before its load begins."""
    target = ReferenceTarget(store="reference", drop_share=0.99, duplicate_share=0.99, reorder_share=0.99)
    drawn = {draw_fate(target, 1, head(n, phase=CANARY_PHASE)) for n in range(50)}
    assert drawn == {Fate(5 * MS)}


@pytest.mark.parametrize(
    ("due_ms", "end_ms"),
    [(0, 0), (150, 150), (1_999, 1_999), (2_000, 2_300), (2_299, 2_300), (2_300, 2_300), (4_100, 4_300)],
)
def test_what_falls_into_a_stall_comes_at_its_end(due_ms: int, end_ms: int) -> None:
    """It stalls 300 ms every 2 s, first after 2 s; the end itself is free again, and other delays know no stalls."""
    assert stall_end_ns(STALLS, 7, 7 + due_ms * MS) == 7 + end_ms * MS
    assert stall_end_ns(ReferenceTarget(store="reference").delay, 7, due_ms * MS) == due_ms * MS

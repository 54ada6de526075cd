from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest
from tests.samples.steps import MS, Step, ms
from tests.support.fake_clock import START_NS, FakeClock
from tests.support.memory_driver import MemoryDriver

from stepbench.contracts.workload import Kind
from stepbench.load.open_loop import ABANDON_TIMEOUT_S, CANCEL_DRAIN_S, OpenLoop, SliceLimits
from stepbench.load.recorder import Recorder
from stepbench.load.timer import LoopTimer
from stepbench.model.errors import NO_ANSWER, WITHDRAWN
from stepbench.model.request import Outcome, Request
from stepbench.records.formats.columns import UNSENT, Rows


def payload(sequence: int) -> Request:
    """Make a write that says which event it is."""
    return Request(Kind.INSERT, f"key-{sequence}", b"value")


@dataclass
class Slice:
    """A slice that is offered to a store in memory, in no time."""

    t0_ms: Sequence[float]
    store: MemoryDriver
    clock: FakeClock
    max_in_flight: int = 64
    until_ms: float = 60_000
    drain_s: float = 5
    first_row: int = 0
    first_sequence: int = 0
    stop_at_ms: float | None = None
    leave_rest_open: bool = False
    end_at_ms: tuple[float, float] | None = None
    """When it is said, and which events it is about."""
    errors: tuple[str, ...] = field(default=(), init=False)

    def offer(self) -> Rows:
        """Return all rows, in order of sequence."""
        t0_ns = np.array([START_NS + round(each * MS) for each in self.t0_ms], dtype=np.int64)
        recorder = Recorder(t0_ns, self.first_sequence)
        limits = SliceLimits(self.max_in_flight, START_NS + round(self.until_ms * MS), self.drain_s)

        async def run() -> None:
            timer, make = LoopTimer(self.clock), self.store.prepare_request
            engine = OpenLoop(
                lambda sequence: make(payload(sequence)),
                self.clock,
                timer,
                recorder,
                limits=limits,
                first_row=self.first_row,
            )
            if self.stop_at_ms is not None:
                asyncio.get_running_loop().call_later(
                    self.stop_at_ms / 1e3, lambda: engine.stop(leave_rest_open=self.leave_rest_open)
                )
            if self.end_at_ms is not None:
                said_ms, due_ns = self.end_at_ms[0], START_NS + round(self.end_at_ms[1] * MS)
                asyncio.get_running_loop().call_later(said_ms / 1e3, lambda: engine.end_at(due_ns, 100 * MS))
            await engine.run()

        self.clock.run(run())
        self.errors = recorder.errors
        return recorder.take()


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock whose time passes only while the engine waits."""
    return FakeClock()


def test_a_stall_delays_every_arrival_behind_it(clock: FakeClock) -> None:
    """Timed from actual start, three of these four would look like 1 ms."""
    store = MemoryDriver(clock, service_ns=ms(300, 1, 1, 1))
    rows = Slice([0, 100, 200, 300], store, clock, max_in_flight=1).offer()
    assert (rows.t2_ns - rows.t0_ns).tolist() == ms(300, 201, 102, 3)


def test_every_event_is_handed_over_when_it_is_due(clock: FakeClock) -> None:
    """A slow store must not slow the offered load down."""
    store = MemoryDriver(clock, service_ns=ms(5_000))
    rows = Slice([0, 0.5, 0.5, 700, 701], store, clock, max_in_flight=5, drain_s=10).offer()
    assert (rows.t1_ns - START_NS).tolist() == ms(0, 0.5, 0.5, 700, 701)
    assert (rows.t2_ns - rows.t1_ns).tolist() == ms(5_000, 5_000, 5_000, 5_000, 5_000)


def test_the_cap_holds_and_the_queue_keeps_its_order(clock: FakeClock) -> None:
    """More connections than the plan asks for would be another experiment."""
    store = MemoryDriver(clock, service_ns=ms(50, 10, 10, 10, 10, 10))
    Slice([0, 1, 2, 3, 4, 5], store, clock, max_in_flight=2).offer()
    assert store.most_in_flight == 2
    assert [write.key for write in store.offered] == [f"key-{number}" for number in range(6)]


def test_what_found_no_place_by_the_end_of_the_slice_is_unsent(clock: FakeClock) -> None:
    """The next slice has begun by then: two would be offering at once."""
    store = MemoryDriver(clock, service_ns=ms(100))
    rows = Slice([0, 10, 20, 30], store, clock, max_in_flight=1, until_ms=150).offer()
    assert rows.outcome.tolist() == [Outcome.OK, Outcome.OK, UNSENT, UNSENT]
    assert rows.t1_ns.tolist()[2:] == rows.t2_ns.tolist()[2:] == [0, 0]


@pytest.mark.parametrize(
    ("never", "outcome", "error"),
    [("hanging", Outcome.UNKNOWN, NO_ANSWER), ("withdrawn", Outcome.FAILED, WITHDRAWN)],
)
def test_a_write_without_an_answer_by_the_drain_limit_is_unknown_or_failed_if_it_never_left(
    clock: FakeClock, never: str, outcome: Outcome, error: str
) -> None:
    """The former may have happened; the latter waited for a connection, and its arrival cannot come."""
    store = MemoryDriver(clock, **{never: {1}})  # type: ignore[arg-type]
    driven = Slice([0, 10, 20], store, clock, drain_s=3)
    rows = driven.offer()
    assert (rows.outcome.tolist(), rows.t1_ns[1] - START_NS) == ([Outcome.OK, outcome, Outcome.OK], 10 * MS)
    assert (rows.t2_ns[1] - START_NS, driven.errors[rows.error[1]]) == (3_020 * MS, error)


def test_refusals_timeouts_and_a_driver_that_breaks_are_recorded_with_their_reason(clock: FakeClock) -> None:
    """A failed operation is data, grouped by error code; one bug on a rare answer must not cost an hour's records."""
    store = MemoryDriver(clock, outcomes={1: Outcome.FAILED, 2: Outcome.UNKNOWN}, raising={3})
    driven = Slice([0, 10, 20, 30, 40], store, clock)
    rows = driven.offer()
    assert rows.outcome.tolist() == [Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN, Outcome.UNKNOWN, Outcome.OK]
    errors = [driven.errors[index] for index in rows.error]
    assert errors == ["", "refused", "timeout", "KeyError in the driver", ""]
    assert rows.tokens == ("1", "", "", "", "2")


def test_events_that_were_due_before_the_writer_was_ready_are_unsent(clock: FakeClock) -> None:
    """Sent late in a bunch, they would be a burst that the plan does not have."""
    store = MemoryDriver(clock)
    rows = Slice([-20, -10, 10], store, clock, first_row=2).offer()
    assert rows.outcome.tolist() == [UNSENT, UNSENT, Outcome.OK]
    assert [write.key for write in store.offered] == ["key-2"]


def test_a_later_attempt_keeps_the_sequence_numbers_of_the_slice(clock: FakeClock) -> None:
    """Identities name the event of the schedule, whichever attempt offers it."""
    store = MemoryDriver(clock)
    rows = Slice([10, 20], store, clock, first_sequence=40).offer()
    assert (rows.sequence.tolist(), [write.key for write in store.offered]) == ([40, 41], ["key-40", "key-41"])


@pytest.mark.parametrize(("t0_ms", "unsent"), [([0, 10, 1_000, 2_000], 2), ([0, 10], 0)])
def test_stopping_offers_nothing_more_and_accounts_for_the_rest(
    clock: FakeClock, t0_ms: list[float], unsent: int
) -> None:
    """Ctrl-C must leave a store alone at once, and must not wait for the whole drain limit; books balance."""
    store = MemoryDriver(clock, hanging={1})
    rows = Slice(t0_ms, store, clock, drain_s=1_000, stop_at_ms=500).offer()
    assert rows.outcome.tolist() == [Outcome.OK, Outcome.UNKNOWN] + [UNSENT] * unsent
    assert clock.now_ns() - START_NS == 500 * MS + round(CANCEL_DRAIN_S * 1e9)


def test_a_fenced_writer_leaves_no_row_for_what_its_successor_offers(clock: FakeClock) -> None:
    """Two rows for one event would count it twice."""
    store = MemoryDriver(clock)
    rows = Slice([0, 10, 1_000], store, clock, stop_at_ms=500, leave_rest_open=True).offer()
    assert rows.sequence.tolist() == [0, 1]


def test_what_is_due_after_the_phase_s_end_gets_no_row(clock: FakeClock) -> None:
    """`until` is sure: the load ends at a time that was said ahead, and answers are awaited as at any end."""
    store = MemoryDriver(clock, service_ns=ms(2_000))
    rows = Slice([0, 10, 20, 30], store, clock, end_at_ms=(5, 20)).offer()
    assert (rows.sequence.tolist(), rows.outcome.tolist()) == ([0, 1], [Outcome.OK, Outcome.OK])
    assert clock.now_ns() - START_NS == 2_010 * MS


def test_a_phase_that_ends_does_not_wait_for_an_event_that_it_does_not_offer(clock: FakeClock) -> None:
    """At a low rate the next one may be due in minutes."""
    Slice([0, 10, 50_000], MemoryDriver(clock), clock, end_at_ms=(20, 30)).offer()
    assert clock.now_ns() - START_NS < 50 * MS


def test_what_is_queued_before_the_phase_s_end_is_still_offered_for_a_while(clock: FakeClock) -> None:
    """A store that stalls at the end would otherwise lose its slowest answers; 100 ms of grace here."""
    store = MemoryDriver(clock, service_ns=ms(60))
    rows = Slice([0, 1, 2, 3, 900], store, clock, max_in_flight=1, end_at_ms=(0.5, 4)).offer()
    assert rows.outcome.tolist() == [Outcome.OK, Outcome.OK, UNSENT, UNSENT]
    # So it is where a loop that stood still sees the end and what is due before it at the same time.
    stalled = MemoryDriver(clock := FakeClock(), service_ns=ms(500, 1, 1))
    rows = Slice([0, 10, 20, 900], stalled, clock, max_in_flight=1, end_at_ms=(450, 30)).offer()
    assert rows.outcome.tolist() == [Outcome.OK] * 3


def test_what_was_sent_before_the_end_was_seen_keeps_its_row(clock: FakeClock) -> None:
    """It happened."""
    rows = Slice([0, 10, 20, 30, 40], MemoryDriver(clock), clock, end_at_ms=(25, 10)).offer()
    assert (rows.sequence.tolist(), rows.outcome.tolist()) == ([0, 1, 2], [Outcome.OK] * 3)


def test_a_writer_that_comes_after_the_end_accounts_for_what_was_due_before_it(clock: FakeClock) -> None:
    """It came too late for two, and nothing else was offered."""
    rows = Slice([-30, -20, -10, 10], MemoryDriver(clock), clock, first_row=3, end_at_ms=(0, -10)).offer()
    assert rows.outcome.tolist() == [UNSENT, UNSENT]


def test_a_generator_that_fell_behind_catches_up_in_order(clock: FakeClock) -> None:
    """More than one burst is due at once; answers get their turn in between."""
    store = MemoryDriver(clock)
    rows = Slice([0] * 50, store, clock, max_in_flight=64).offer()
    assert [write.key for write in store.offered] == [f"key-{number}" for number in range(50)]
    assert rows.outcome.tolist() == [Outcome.OK] * 50


def test_an_empty_slice_ends_at_once(clock: FakeClock) -> None:
    """Poisson arrivals at a low rate leave slices without any event."""
    rows = Slice([], MemoryDriver(clock), clock).offer()
    assert rows.sequence.size == 0


def offer_steps(
    clock: FakeClock, t0_ms: Sequence[float], max_in_flight: int = 64, after_ms: float | None = 1, breaks: str = ""
) -> tuple[Rows, list[tuple[str, int, float]]]:
    """Return rows, and what was done when."""
    log: list[tuple[str, int, float]] = []
    recorder = Recorder(np.array([START_NS + round(each * MS) for each in t0_ms], dtype=np.int64))
    limits = SliceLimits(max_in_flight, START_NS + 60_000 * MS, 3)

    async def run() -> None:
        make = partial(Step, clock=clock, log=log, after_ms=after_ms, breaks=breaks)
        await OpenLoop(make, clock, LoopTimer(clock), recorder, limits=limits).run()

    clock.run(run())
    return recorder.take(), log


def test_the_next_event_is_made_while_its_time_is_awaited(clock: FakeClock) -> None:
    """Encoding and signing take longer than the send: done when it is due, they would be its lateness."""
    _, log = offer_steps(clock, [10, 30])
    assert log == [("made", 0, 0), ("sent", 0, 10), ("made", 1, 10), ("sent", 1, 30)]


def test_nothing_is_made_ahead_that_has_no_place(clock: FakeClock) -> None:
    """An operation is made for a connection, and all are taken."""
    _, log = offer_steps(clock, [0, 5, 50], max_in_flight=1, after_ms=20)
    assert log == [("made", 0, 0), ("sent", 0, 0), ("made", 1, 20), ("sent", 1, 20), ("made", 2, 50), ("sent", 2, 50)]


def test_the_last_answer_ends_a_slice_that_was_stopped_while_an_event_waited_for_it(clock: FakeClock) -> None:
    """One at a time: whoever waited for the last place is not there any more to notice the end."""
    store = MemoryDriver(clock, service_ns=ms(100))
    Slice([0, 10, 20], store, clock, max_in_flight=1, drain_s=1_000, stop_at_ms=50).offer()
    assert clock.now_ns() - START_NS == 100 * MS


@pytest.mark.parametrize("breaks", ["made", "sent"])
def test_a_driver_that_breaks_in_making_or_sending_costs_its_records_alone(clock: FakeClock, breaks: str) -> None:
    """Against its contract; a slice that ended there would lose the others."""
    rows, _ = offer_steps(clock, [0, 10], breaks=breaks)
    assert rows.outcome.tolist() == [Outcome.UNKNOWN] * 2


def test_a_driver_that_never_says_what_became_of_an_event_holds_the_slice_up_for_a_while_only(clock: FakeClock) -> None:
    """Against its contract, too: given up after the drain limit, it has so long for a last word."""
    rows, log = offer_steps(clock, [0], after_ms=None)
    assert (rows.outcome.tolist(), log[2][0]) == ([Outcome.UNKNOWN], "abandoned")
    assert clock.now_ns() - START_NS == round((3 + ABANDON_TIMEOUT_S) * 1e9)

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.samples.steps import MS, Step, ms
from tests.support.fake_clock import START_NS, FakeClock
from tests.support.memory_driver import MemoryDriver

from stepbench.contracts.workload import Kind
from stepbench.load.closed_loop import (
    BACK_OFF_NS,
    LONGEST_BACK_OFF_NS,
    Client,
    ClosedLoop,
    LoopBounds,
    Offer,
    back_off_ns,
)
from stepbench.load.open_loop import ABANDON_TIMEOUT_S, CANCEL_DRAIN_S
from stepbench.load.recorder import GrowingRecorder
from stepbench.load.timer import LoopTimer
from stepbench.model.errors import NO_ANSWER, WITHDRAWN
from stepbench.model.pending import CoroutineRequest
from stepbench.model.request import Outcome, Request, Result
from stepbench.records.formats.columns import Rows

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock whose time passes only while the engine waits."""
    return FakeClock()


@dataclass
class Load:
    """Clients on a store in memory, in no time."""

    store: MemoryDriver
    clock: FakeClock
    clients: int = 1
    pauses_ns: Iterable[int] = field(default_factory=lambda: repeat(0))
    start_ms: float = 0
    until_ms: float = 1_000
    drain_s: float = 5
    operations: int | None = None
    most: int = 1_000_000
    stop_at_ms: float | None = None
    stops_first: bool = False
    recorder: GrowingRecorder = field(default_factory=GrowingRecorder)
    ended_ms: float = field(default=0, init=False)

    def run(self) -> Rows:
        """Return all rows, in the order in which they began."""
        bounds = LoopBounds(
            START_NS + round(self.start_ms * MS), START_NS + round(self.until_ms * MS), self.drain_s, self.most
        )

        async def run() -> None:
            clients = [
                Client(number, self._maker(number), iter(self.pauses_ns), self.operations)
                for number in range(self.clients)
            ]
            engine = ClosedLoop(clients, self.clock, LoopTimer(self.clock), self.recorder, bounds)
            if self.stop_at_ms is not None:
                asyncio.get_running_loop().call_later(self.stop_at_ms / 1e3, engine.stop)
            if self.stops_first:
                engine.stop()
            await engine.run()
            assert asyncio.all_tasks() == {asyncio.current_task()}

        self.clock.run(run())
        self.ended_ms = (self.clock.now_ns() - START_NS) / MS
        return self.recorder.take()

    def _maker(self, client: int) -> Callable[[int], Offer]:
        make_operation = self.store.prepare_request

        def make(sequence: int) -> Offer:
            operation = Request(Kind(sequence % 2), f"{client}-{sequence}", client=client)
            return Offer(operation.kind, make_operation(operation))

        return make


def run_clients(clock: FakeClock, clients: Sequence[Client], until_ms: int = 1_000) -> Rows:
    """Let these clients run; return their rows."""
    recorder = GrowingRecorder()

    async def run() -> None:
        bounds = LoopBounds(START_NS, START_NS + until_ms * MS, 3, 99)
        await ClosedLoop(clients, clock, LoopTimer(clock), recorder, bounds).run()

    clock.run(run())
    return recorder.take()


def since_start(column: Iterable[int]) -> list[float]:
    """Convert to milliseconds since the start."""
    return [(int(each) - START_NS) / MS for each in column]


def test_the_next_operation_is_due_when_the_last_was_answered_and_the_pause_is_over(clock: FakeClock) -> None:
    """By hand: 30, 10 and 10 ms of service with pauses of 5, 7 and 9 ms."""
    store = MemoryDriver(clock, service_ns=ms(30, 10, 10))
    rows = Load(store, clock, pauses_ns=ms(5, 7, 9)).run()
    assert since_start(rows.t0_ns) == since_start(rows.t1_ns) == [5, 42, 61]
    assert since_start(rows.t2_ns) == [35, 52, 71]


def test_a_client_that_waits_is_ready_when_it_is_told(clock: FakeClock) -> None:
    """An execution's start is acknowledged long before its end: counted from there, each next one would be late."""

    class Later:
        def __init__(self, sequence: int) -> None:
            self.sequence = sequence

        def send(self, done: Callable[[Result], None]) -> None:
            now_ns = clock.now_ns()
            result = Result(now_ns, now_ns + 2 * MS, Outcome.OK)
            asyncio.get_running_loop().call_later(0.1, done, result)

        def abandon(self) -> None:
            """See `PendingRequest`."""

    client = Client(0, lambda own: Offer(1, Later(own)), iter(ms(0, 5, 5)), 3, lambda own: 10 + own, waits=True)
    rows = run_clients(clock, [client])
    assert since_start(rows.t0_ns) == since_start(rows.t1_ns) == [0, 105, 210]
    assert since_start(rows.t2_ns) == [2, 107, 212]
    assert rows.sequence.tolist() == [10, 11, 12]


def test_a_stall_is_seen_by_one_operation_a_client_and_hidden_from_the_others(clock: FakeClock) -> None:
    """The open loop's test has 300, 201, 102, 3 ms for the same store: here three of four look like 1 ms."""
    store = MemoryDriver(clock, service_ns=ms(300, 1, 1, 1))
    rows = Load(store, clock, operations=4).run()
    assert (rows.t2_ns - rows.t0_ns).tolist() == ms(300, 1, 1, 1)
    assert rows.extras["kind"].tolist() == [0, 1, 0, 1]  # reads and writes are analysed apart


def test_clients_begin_together_at_the_barrier(clock: FakeClock) -> None:
    """Whoever is ready early waits; nothing is offered before."""
    load = Load(MemoryDriver(clock, service_ns=ms(10)), clock, clients=3, start_ms=250, operations=1)
    rows = load.run()
    assert since_start(rows.t0_ns) == since_start(rows.t1_ns) == [250, 250, 250]


def test_a_writer_that_comes_late_begins_when_it_comes(clock: FakeClock) -> None:
    """What was not offered meanwhile is no operation that waited."""
    rows = Load(MemoryDriver(clock), clock, start_ms=-40, pauses_ns=ms(3)).run()
    assert since_start(rows.t0_ns) == [3]


def test_no_more_than_one_operation_a_client_is_under_way(clock: FakeClock) -> None:
    """That is what P means; and each client's operations are its own, in order, as many as it was to do."""
    store = MemoryDriver(clock, service_ns=ms(50, 10, 20, 10))
    taken = Load(store, clock, clients=4, operations=25).run()
    assert (store.most_in_flight, taken.sequence.tolist()) == (4, list(range(100)))
    for client in range(4):
        mine = [each.key for each in store.offered if each.client == client]
        assert mine == [f"{client}-{sequence}" for sequence in range(25)]
        its = taken.t0_ns[taken.extras["client"] == client], taken.t2_ns[taken.extras["client"] == client]
        assert its[0].tolist()[1:] == its[1].tolist()[:-1]


def test_nothing_is_offered_from_the_end_on(clock: FakeClock) -> None:
    """At 100 ms a client that is answered at 100 goes home; what began before is awaited."""
    load = Load(MemoryDriver(clock, service_ns=ms(40, 60, 70)), clock, until_ms=100)
    assert since_start(load.run().t0_ns) == [0, 40]
    load = Load(MemoryDriver(clock := FakeClock(), service_ns=ms(40, 59, 70)), clock, until_ms=100)
    assert since_start(load.run().t2_ns) == [40, 99, 169]


def test_a_client_that_pauses_past_the_end_does_not_wait_for_it(clock: FakeClock) -> None:
    """A pause of an hour must not hold the slice."""
    load = Load(MemoryDriver(clock), clock, pauses_ns=ms(10, 3_600_000), until_ms=100)
    assert (load.run().sequence.size, load.ended_ms) == (1, 10)


def test_a_count_ends_each_client_and_may_differ_from_one_to_another(clock: FakeClock) -> None:
    """Ten operations of three clients are 4, 3 and 3."""
    make = MemoryDriver(clock, service_ns=ms(1)).prepare_request
    clients = [
        Client(number, lambda _: Offer(0, make(Request(Kind.READ, ""))), repeat(0), share)
        for number, share in enumerate((4, 3, 3))
    ]
    assert np.bincount(run_clients(clock, clients).extras["client"]).tolist() == [4, 3, 3]


def test_all_clients_together_offer_no_more_than_fits_into_memory(clock: FakeClock) -> None:
    """The analysis holds a trial's records at once; what is under way at the limit is still recorded."""
    store = MemoryDriver(clock, service_ns=ms(1))
    load = Load(store, clock, clients=4, most=10)
    rows = load.run()
    assert (rows.sequence.tolist(), load.ended_ms) == (list(range(10)), 3)


def test_a_client_that_is_refused_pauses_longer_each_time_until_one_works(clock: FakeClock) -> None:
    """By hand, at 1 ms each: refused at 1, so due at 11; refused at 12, due at 32; answered at 33, and due at once."""
    store = MemoryDriver(clock, outcomes={0: Outcome.FAILED, 1: Outcome.UNKNOWN}, service_ns=ms(1))
    rows = Load(store, clock, operations=4).run()
    assert (since_start(rows.t0_ns), since_start(rows.t1_ns)) == ([0, 11, 32, 33], [0, 11, 32, 33])


def test_the_pause_after_failures_doubles_up_to_a_second() -> None:
    """No shift overflows, however long a store is away."""
    assert [back_off_ns(failures) // MS for failures in (0, 1, 2, 3, 7, 8, 10_000)] == [0, 10, 20, 40, 640, 1000, 1000]
    assert (back_off_ns(1), back_off_ns(99)) == (BACK_OFF_NS, LONGEST_BACK_OFF_NS)


@pytest.mark.parametrize(
    ("never", "outcome", "error"),
    [("hanging", Outcome.UNKNOWN, NO_ANSWER), ("withdrawn", Outcome.FAILED, WITHDRAWN)],
)
def test_an_operation_without_an_answer_holds_its_client_up_to_the_drain_limit(
    clock: FakeClock, never: str, outcome: Outcome, error: str
) -> None:
    """
    It was sent, or never left; the others go on.

    A client that took its cancellation for an answer would go on offering, and nobody would wait for it.
    """
    store = MemoryDriver(clock, service_ns=ms(100), **{never: {1}})  # type: ignore[arg-type]
    load = Load(store, clock, clients=2, until_ms=250, drain_s=3)
    taken = load.run()
    assert taken.outcome.tolist() == [Outcome.OK, outcome, Outcome.OK, Outcome.OK]
    assert (since_start(taken.t2_ns)[1], load.recorder.errors[taken.error[1]]) == (3_250, error)
    assert load.ended_ms == 3_250


def test_refusals_and_a_driver_that_breaks_are_data_and_the_client_goes_on(clock: FakeClock) -> None:
    """A throttled store is offered the next operation all the same."""
    outcomes = {1: Outcome.FAILED, 2: Outcome.UNKNOWN}
    load = Load(MemoryDriver(clock, outcomes=outcomes, raising={3}, service_ns=ms(1)), clock, operations=5)
    rows = load.run()
    assert rows.outcome.tolist() == [Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN, Outcome.UNKNOWN, Outcome.OK]
    assert [load.recorder.errors[index] for index in rows.error] == [
        *("", "refused", "timeout", "KeyError in the driver", "")
    ]


def test_stopping_wakes_those_who_pause_and_gives_the_others_a_moment(clock: FakeClock) -> None:
    """Ctrl-C must leave a store alone at once."""
    store = MemoryDriver(clock, hanging={1}, service_ns=ms(1))
    load = Load(store, clock, clients=2, pauses_ns=ms(0, 600_000), until_ms=900_000, stop_at_ms=500)
    taken = load.run()
    assert (taken.outcome.tolist(), load.ended_ms) == ([Outcome.OK, Outcome.UNKNOWN], 500 + CANCEL_DRAIN_S * 1e3)


def test_stopping_ends_at_once_where_nothing_is_under_way(clock: FakeClock) -> None:
    """Nobody waits for a drain limit without a reason; writers that wait for the barrier offer nothing more."""
    load = Load(MemoryDriver(clock), clock, pauses_ns=ms(0, 600_000), until_ms=900_000, stop_at_ms=500)
    assert (load.run().sequence.size, load.ended_ms) == (1, 500)
    load = Load(MemoryDriver(clock := FakeClock()), clock, start_ms=60_000, until_ms=90_000, stops_first=True)
    assert (load.run().sequence.size, load.ended_ms) == (0, 0)


def test_pauses_of_many_clients_share_one_timer_in_order(clock: FakeClock) -> None:
    """The next alarm may be later or earlier than the one that is set."""
    make = MemoryDriver(clock).prepare_request
    clients = [
        Client(number, lambda sequence: Offer(0, make(Request(Kind.READ, f"{sequence}"))), iter(ms(*pauses_ms)))
        for number, pauses_ms in enumerate(((50, 1), (20, 100), (35, 2)))
    ]
    taken = run_clients(clock, clients)
    assert taken.extras["client"].tolist() == [1, 2, 2, 0, 0, 1]
    assert since_start(taken.t0_ns) == since_start(taken.t1_ns) == [20, 35, 37, 50, 51, 120]


def test_answers_that_take_no_waiting_do_not_starve_the_rest(clock: FakeClock) -> None:
    """One may be there without a turn of the loop; the flag to stop has to get through."""
    seen = 0

    async def answer() -> Result:
        nonlocal seen
        seen += 1
        clock.advance(MS)
        return Result(clock.now_ns(), clock.now_ns(), Outcome.OK)

    async def run() -> None:
        clients = [Client(0, lambda _: Offer(0, CoroutineRequest(answer, clock)), repeat(0))]
        bounds = LoopBounds(START_NS, START_NS + 10_000 * MS, 1, 10_000)
        engine = ClosedLoop(clients, clock, LoopTimer(clock), GrowingRecorder(), bounds)
        asyncio.get_running_loop().call_later(0.1, engine.stop)
        await engine.run()

    clock.run(run())
    assert seen < 200


def test_no_clients_end_at_once(clock: FakeClock) -> None:
    """More writers than clients leave some without."""
    assert Load(MemoryDriver(clock), clock, clients=0).run().sequence.size == 0


def run_steps(
    clock: FakeClock, after_ms: float | None, operations: int | None, clients: int = 1
) -> tuple[Rows, list[tuple[str, int, float]]]:
    """Return the clients' rows, and what was done when."""
    log: list[tuple[str, int, float]] = []

    def make(sequence: int) -> Offer:
        return Offer(0, Step(sequence, clock, log, after_ms))

    all_clients = [Client(number, make, repeat(0), operations) for number in range(clients)]
    return run_clients(clock, all_clients, until_ms=30), log


def test_the_next_operation_is_made_while_the_last_is_under_way(clock: FakeClock) -> None:
    """Choosing and encoding it take longer than the send: between two operations, they would slow the load down."""
    _, log = run_steps(clock, after_ms=10, operations=2)
    assert log == [("made", 0, 0), ("sent", 0, 0), ("made", 1, 0), ("sent", 1, 10)]


def test_all_answers_that_are_there_are_followed_by_a_send_before_anything_is_made(clock: FakeClock) -> None:
    """The second client's operation would go out later by the time that making the first one's next takes."""
    _, log = run_steps(clock, after_ms=10, operations=3, clients=2)
    assert [entry for entry in log if entry[2] == 10] == [
        ("sent", 1, 10),
        ("sent", 1, 10),
        ("made", 2, 10),
        ("made", 2, 10),
    ]


def test_what_was_made_and_is_not_offered_any_more_leaves_no_row(clock: FakeClock) -> None:
    """The load ends at 30 ms; what was made for then never left."""
    rows, log = run_steps(clock, after_ms=10, operations=None)
    assert (rows.sequence.tolist(), log[-1]) == ([0, 1, 2], ("made", 3, 20))


def test_a_driver_that_never_says_what_became_of_an_operation_holds_the_slice_up_for_a_while_only(
    clock: FakeClock,
) -> None:
    """Against its contract: given up after the drain limit, it has so long for a last word."""
    rows, log = run_steps(clock, after_ms=None, operations=None)
    assert rows.outcome.tolist() == [Outcome.UNKNOWN]
    assert "abandoned" in [what for what, _, _ in log]
    assert since_start([clock.now_ns()]) == [3_030 + ABANDON_TIMEOUT_S * 1e3]

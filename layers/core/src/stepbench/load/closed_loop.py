"""
The closed-loop engine: each of P clients offers its next operation once the last was answered and a pause has passed.

So t0 is the last answer's t2 plus the pause, and t1 - t0 is what the generator itself adds. The next operation is made
(chosen, encoded, signed) while the last one's answer is awaited. After a refusal, or without an answer, a client
pauses longer, and the more so the more often in a row: a store that refuses at once would be hammered. What a client
offers, its pauses, timer and clock are arguments. A store that stalls is offered less, and the series hides what others
would have waited: `stats.coordinated_omission` says how much.

Source:
    Schroeder, Wierman & Harchol-Balter (2006), Open versus closed: a cautionary tale, NSDI '06.
"""

from __future__ import annotations

import asyncio
import heapq
from typing import TYPE_CHECKING, NamedTuple

from stepbench.drivers.protocol import Outcome
from stepbench.load.making import Broken, broken
from stepbench.load.open_loop import CANCEL_DRAIN_S, LAST_WORD_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stepbench.clock import Clock
    from stepbench.drivers.protocol import Made, Operated
    from stepbench.load.growing_recorder import GrowingRecorder
    from stepbench.load.timer import Timer

_OK = Outcome.OK
BACK_OFF_NS, LONGEST_BACK_OFF_NS = 10_000_000, 1_000_000_000
_MOST_DOUBLINGS = 7
"""With them, the longest is passed."""


class Offer(NamedTuple):
    """An operation that is made; `kind` is noted with the answer."""

    kind: int
    made: Made[Operated]


class Client(NamedTuple):
    """
    One client.

    number: of all writers' clients. make: makes the operation with this sequence number of the client's; asked once for
    each, in order, and for one more than is offered. pauses_ns: before each operation; where they end, the client does.
    operations: so many, if they are bounded.
    """

    number: int
    make: Callable[[int], Offer]
    pauses_ns: Iterator[int]
    operations: int | None = None


class Bounds(NamedTuple):
    """
    When it begins and ends.

    start_at_ns: the barrier, after which the first pause is counted (from now, if that is later). send_until_ns:
    nothing is offered with a t0 from then on. drain_s: how long answers are awaited after `send_until_ns`; what has
    none then is UNKNOWN, unless the driver knows more. most: of all clients together, for the memory of those who read
    the records.
    """

    start_at_ns: int
    send_until_ns: int
    drain_s: float
    most: int


class ClosedLoop:
    """One slice of one writer's clients; `run` it once."""

    def __init__(
        self, clients: Sequence[Client], clock: Clock, timer: Timer, recorder: GrowingRecorder, bounds: Bounds
    ) -> None:
        self._clock = clock
        self._timer = timer
        self._recorder = recorder
        self._bounds = bounds
        self.until_ns = bounds.send_until_ns
        """Nothing is offered with a t0 from then on; 0 once it is stopped."""
        self._pausing: list[tuple[int, int, _Going]] = []
        self._to_prepare: list[_Going] = []
        self._going = {client.number: _Going(client, self, clock, recorder) for client in clients}
        self._ended: asyncio.Future[None] | None = None
        self._drain_alarm: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Let all clients run to their end; every operation that was begun has a row then."""
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        left_s = max(0.0, (self._bounds.send_until_ns - self._clock.now_ns()) / 1e9)
        self._limit_drain(left_s + self._bounds.drain_s if self.until_ns else CANCEL_DRAIN_S)
        try:
            start_ns = max(self._bounds.start_at_ns, self._clock.now_ns())
            for going in list(self._going.values()):
                going.go_on(start_ns, seen_ns=0)
            if self._going:
                await self._ended
        finally:
            self._give_up()
            self._timer.close()
            if self._drain_alarm is not None:
                self._drain_alarm.cancel()
        for going in list(self._going.values()):
            going.close()

    def stop(self) -> None:
        """Offer nothing more, and do not wait long for answers. Call it on the loop's thread."""
        self.until_ns = 0
        pausing, self._pausing = self._pausing, []
        for _, _, going in pausing:
            self.go_home(going)
        if self._ended is not None and not self._ended.done():
            self._limit_drain(CANCEL_DRAIN_S)

    # --- for clients -----------------------------------------------------------------------------------------

    def is_over(self, t0_ns: int) -> bool:
        """Whether an operation that is due then is not to be offered."""
        return t0_ns >= self.until_ns or self._recorder.begun >= self._bounds.most

    def pause(self, due_ns: int, going: _Going) -> None:
        """Let a client's operation wait until it is due."""
        heapq.heappush(self._pausing, (due_ns, going.number, going))
        if self._pausing[0][2] is going:
            self._timer.call_at(due_ns, self._ring)

    def prepare_soon(self, going: _Going) -> None:
        """
        Make a client's next operation once all answers that are there have been taken, and followed by a send.

        What is sent by a task of its own (`drivers.tasked`) goes out behind what is made.
        """
        self._to_prepare.append(going)
        if len(self._to_prepare) == 1:
            asyncio.get_running_loop().call_soon(self._prepare)

    def go_home(self, going: _Going) -> None:
        """A client has come to its end."""
        if self._going.pop(going.number, None) is not None and not self._going:
            self._all_home()

    # ---------------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        waiting, self._to_prepare = self._to_prepare, []
        for going in waiting:
            going.prepare()

    def _ring(self) -> None:
        now_ns = self._clock.now_ns()
        while self._pausing and self._pausing[0][0] <= now_ns:
            due_ns, _, going = heapq.heappop(self._pausing)
            going.begin(due_ns)
        if self._pausing:
            self._timer.call_at(self._pausing[0][0], self._ring)

    def _limit_drain(self, seconds: float) -> None:
        if self._drain_alarm is not None:
            self._drain_alarm.cancel()
        self._drain_alarm = asyncio.get_running_loop().call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        self.until_ns = 0
        for going in list(self._going.values()):
            going.abandon()
        # Whoever has not said by then what became of it breaks its contract; the records of the others are kept.
        self._drain_alarm = asyncio.get_running_loop().call_later(LAST_WORD_S, self._all_home)

    def _all_home(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)


class _Going:
    """A client on its way."""

    def __init__(self, client: Client, loop: ClosedLoop, clock: Clock, recorder: GrowingRecorder) -> None:
        self.number = client.number
        self._make_operation = client.make
        self._pauses_ns = client.pauses_ns
        self._operations = client.operations
        self._loop = loop
        self._clock = clock
        self._recorder = recorder
        self._done = 0
        self._failures = 0
        self._next: Offer | None = None
        self._in_flight: Offer | None = None
        self._row = 0
        self._t0_ns = 0

    def go_on(self, ready_ns: int, seen_ns: int) -> None:
        """
        Offer the next operation, from `ready_ns` on and after a pause; or come to the end.

        seen_ns: so late it is at least.
        """
        pause_ns = next(self._pauses_ns, None)
        if pause_ns is None or self._done == self._operations or self._loop.is_over(ready_ns + pause_ns):
            self._loop.go_home(self)
            return
        due_ns = ready_ns + pause_ns
        if due_ns <= seen_ns or due_ns <= self._clock.now_ns():
            self._send(due_ns)
            return
        if self._next is None:
            self._next = self._make(self._done)
        self._loop.pause(due_ns, self)

    def begin(self, t0_ns: int) -> None:
        """The pause is over."""
        if self._loop.is_over(t0_ns):
            self._loop.go_home(self)
        else:
            self._send(t0_ns)

    def _send(self, t0_ns: int) -> None:
        """Send what is due, and make the one after it."""
        self._in_flight = offer = self._next or self._make(self._done)
        self._next = None
        self._row, self._t0_ns = self._recorder.begin(), t0_ns
        try:
            offer.made.send(self._answered)
        except Exception as error:  # noqa: BLE001 -- see `Broken`
            self._answered(broken(error, self._clock))
        if self._in_flight is offer:
            self._loop.prepare_soon(self)

    def prepare(self) -> None:
        """Make the next operation, if one is in flight and there may be one after it."""
        following = self._done + 1
        if self._in_flight is not None and self._next is None and following != self._operations:
            self._next = self._make(following)

    def abandon(self) -> None:
        """Whatever it does, it is to end."""
        if self._in_flight is not None:
            self._in_flight.made.abandon()

    def close(self) -> None:
        """Write down what was never answered, against the driver's contract."""
        self._answered(broken(TimeoutError(), self._clock))

    def _make(self, sequence: int) -> Offer:
        try:
            return self._make_operation(sequence)
        except Exception as error:  # noqa: BLE001 -- see `Broken`
            return Offer(0, Broken(error, self._clock))

    def _answered(self, operated: Operated) -> None:
        offer, self._in_flight = self._in_flight, None
        if offer is None:
            return  # said after the last word
        row, t0_ns = self._row, self._t0_ns
        self._done += 1
        ready_ns = answered_ns = operated[1]
        if operated[2] is _OK:
            self._failures = 0
        else:
            self._failures += 1
            ready_ns += back_off_ns(self._failures)
        # The next one is on its way before this one is written down: the time for that is nobody's.
        self.go_on(ready_ns, answered_ns)
        self._recorder.record(row, self.number, offer.kind, t0_ns, operated)


def back_off_ns(failures: int) -> int:
    """How much longer a client pauses after so many operations in a row that were not acknowledged."""
    if failures == 0:
        return 0
    return min(LONGEST_BACK_OFF_NS, BACK_OFF_NS << min(failures - 1, _MOST_DOUBLINGS))

"""
The closed-loop engine: each of P clients offers its next operation once the last was answered and a pause has passed.

So t0 is the last answer's t2 plus the pause, and t1 - t0 is what the generator itself adds. The next operation is made
(chosen, encoded, signed) while the last one's answer is awaited. After a refusal, or without an answer, a client
pauses longer, and the more so the more often in a row: a store that refuses at once would be hammered. What a client
offers, its pauses, timer and clock are arguments. A store that stalls is offered less, and the series hides what others
would have waited: `analysis.caveats.windows` says how much.

Source:
    Schroeder, Wierman & Harchol-Balter (2006), Open versus closed: a cautionary tale, NSDI '06.
"""

from __future__ import annotations

import asyncio
import heapq
from typing import TYPE_CHECKING, NamedTuple

from stepbench.load.open_loop import ABANDON_TIMEOUT_S, CANCEL_DRAIN_S
from stepbench.model.request import FailedRequest, Outcome, failed_in_driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stepbench.clock import Clock
    from stepbench.load.recorder import GrowingRecorder
    from stepbench.load.timer import Timer
    from stepbench.model.request import PendingRequest, Result

_OK = Outcome.OK
BACK_OFF_NS, LONGEST_BACK_OFF_NS = 10_000_000, 1_000_000_000
_MOST_DOUBLINGS = 7
"""So many doublings exceed `LONGEST_BACK_OFF_NS`."""


class Offer(NamedTuple):
    """An operation that is made; `kind` is noted with the answer."""

    kind: int
    pending: PendingRequest


class Client(NamedTuple):
    """
    One client of the closed loop.

    number: among all writers' clients. prepare: prepares the operation with this sequence number of the client's; it is
    called once for each, in order, and for one more than is offered. pauses_ns: before each operation; the client ends
    where they do. operations: how many, if they are bounded. numbering: from the client's own sequence numbers to the
    slice's, where operations are numbered before they begin; None: in the order in which they begin. waits: whether the
    client is ready for the next only when it is notified, which may be later than the answer.
    """

    number: int
    prepare: Callable[[int], Offer]
    pauses_ns: Iterator[int]
    operations: int | None = None
    numbering: Callable[[int], int] | None = None
    waits: bool = False


class LoopBounds(NamedTuple):
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
        self, clients: Sequence[Client], clock: Clock, timer: Timer, recorder: GrowingRecorder, bounds: LoopBounds
    ) -> None:
        self._clock = clock
        self._timer = timer
        self._recorder = recorder
        self._bounds = bounds
        self.until_ns = bounds.send_until_ns
        """Nothing is offered with a t0 from then on; 0 once it is stopped."""
        self._pausing: list[tuple[int, int, _RunningClient]] = []
        self._to_prepare: list[_RunningClient] = []
        self._running = {client.number: _RunningClient(client, self, clock, recorder) for client in clients}
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
            for running in list(self._running.values()):
                running.offer_next(start_ns, seen_ns=0)
            if self._running:
                await self._ended
        finally:
            self._abandon_all()
            self._timer.close()
            if self._drain_alarm is not None:
                self._drain_alarm.cancel()
        for running in list(self._running.values()):
            running.close()

    def stop(self) -> None:
        """Offer nothing more, and do not wait long for answers. Call it on the loop's thread."""
        self.until_ns = 0
        pausing, self._pausing = self._pausing, []
        for _, _, running in pausing:
            self.finish(running)
        if self._ended is not None and not self._ended.done():
            self._limit_drain(CANCEL_DRAIN_S)

    # --- for clients -----------------------------------------------------------------------------------------

    def is_over(self, t0_ns: int) -> bool:
        """Return whether an operation that is due then is not to be offered."""
        return t0_ns >= self.until_ns or self._recorder.started >= self._bounds.most

    def pause(self, due_ns: int, running: _RunningClient) -> None:
        """Let a client's operation wait until it is due."""
        heapq.heappush(self._pausing, (due_ns, running.number, running))
        if self._pausing[0][2] is running:
            self._timer.call_at(due_ns, self._start_due)

    def prepare_soon(self, running: _RunningClient) -> None:
        """
        Make a client's next operation once all answers that are there have been taken, and followed by a send.

        What is sent by a task of its own (`CoroutineRequest`) goes out behind what is made.
        """
        self._to_prepare.append(running)
        if len(self._to_prepare) == 1:
            asyncio.get_running_loop().call_soon(self._prepare_waiting)

    def finish(self, running: _RunningClient) -> None:
        """Note that a client has come to its end."""
        if self._running.pop(running.number, None) is not None and not self._running:
            self._end_run()

    # ---------------------------------------------------------------------------------------------------------

    def _prepare_waiting(self) -> None:
        waiting, self._to_prepare = self._to_prepare, []
        for running in waiting:
            running.prepare()

    def _start_due(self) -> None:
        now_ns = self._clock.now_ns()
        while self._pausing and self._pausing[0][0] <= now_ns:
            due_ns, _, running = heapq.heappop(self._pausing)
            running.start(due_ns)
        if self._pausing:
            self._timer.call_at(self._pausing[0][0], self._start_due)

    def _limit_drain(self, seconds: float) -> None:
        if self._drain_alarm is not None:
            self._drain_alarm.cancel()
        self._drain_alarm = asyncio.get_running_loop().call_later(seconds, self._abandon_all)

    def _abandon_all(self) -> None:
        self.until_ns = 0
        for running in list(self._running.values()):
            running.abandon()
        # Whoever has not said by then what became of it breaks its contract; the records of the others are kept.
        self._drain_alarm = asyncio.get_running_loop().call_later(ABANDON_TIMEOUT_S, self._end_run)

    def _end_run(self) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)


class _RunningClient:
    """A client on its way."""

    def __init__(self, client: Client, loop: ClosedLoop, clock: Clock, recorder: GrowingRecorder) -> None:
        self.number = client.number
        self._prepare_request = client.prepare
        self._pauses_ns = client.pauses_ns
        self._operations = client.operations
        self._numbering = client.numbering
        self._waits = client.waits
        self._loop = loop
        self._clock = clock
        self._recorder = recorder
        self._done = 0
        self._failures = 0
        self._next: Offer | None = None
        self._in_flight: Offer | None = None
        self._row = 0
        self._t0_ns = 0

    def offer_next(self, ready_ns: int, seen_ns: int) -> None:
        """
        Offer the next operation, from `ready_ns` on and after a pause; or come to the end.

        seen_ns: so late it is at least.
        """
        pause_ns = next(self._pauses_ns, None)
        if pause_ns is None or self._done == self._operations or self._loop.is_over(ready_ns + pause_ns):
            self._loop.finish(self)
            return
        due_ns = ready_ns + pause_ns
        if due_ns <= seen_ns or due_ns <= self._clock.now_ns():
            self._send(due_ns)
            return
        if self._next is None:
            self._next = self._prepare(self._done)
        self._loop.pause(due_ns, self)

    def start(self, t0_ns: int) -> None:
        """Send the operation whose pause is over, or come to the end."""
        if self._loop.is_over(t0_ns):
            self._loop.finish(self)
        else:
            self._send(t0_ns)

    def _send(self, t0_ns: int) -> None:
        """Send what is due, and make the one after it."""
        self._in_flight = offer = self._next or self._prepare(self._done)
        self._next = None
        numbering = self._numbering
        self._row = self._recorder.start(None if numbering is None else numbering(self._done))
        self._t0_ns = t0_ns
        try:
            offer.pending.send(self._answered)
        except Exception as error:  # noqa: BLE001 -- see `FailedRequest`
            self._answered(failed_in_driver(error, self._clock))
        if self._in_flight is offer:
            self._loop.prepare_soon(self)

    def prepare(self) -> None:
        """Make the next operation, if one is in flight and there may be one after it."""
        following = self._done + 1
        if self._in_flight is not None and self._next is None and following != self._operations:
            self._next = self._prepare(following)

    def abandon(self) -> None:
        """Abandon what is in flight."""
        if self._in_flight is not None:
            self._in_flight.pending.abandon()

    def close(self) -> None:
        """Write down what was never answered, against the driver's contract."""
        self._answered(failed_in_driver(TimeoutError(), self._clock))

    def _prepare(self, sequence: int) -> Offer:
        try:
            return self._prepare_request(sequence)
        except Exception as error:  # noqa: BLE001 -- see `FailedRequest`
            return Offer(0, FailedRequest(error, self._clock))

    def _answered(self, operated: Result) -> None:
        offer, self._in_flight = self._in_flight, None
        if offer is None:
            return  # said after the last word
        row, t0_ns = self._row, self._t0_ns
        self._done += 1
        ready_ns = answered_ns = self._clock.now_ns() if self._waits else operated[1]
        if operated[2] is _OK:
            self._failures = 0
        else:
            self._failures += 1
            ready_ns += back_off_ns(self._failures)
        # The next one is on its way before this one is written down: the time for that is nobody's.
        self.offer_next(ready_ns, answered_ns)
        self._recorder.record(row, self.number, offer.kind, t0_ns, operated)


def back_off_ns(failures: int) -> int:
    """Return how much longer a client pauses after so many operations in a row that were not acknowledged, ns."""
    if failures == 0:
        return 0
    return min(LONGEST_BACK_OFF_NS, BACK_OFF_NS << min(failures - 1, _MOST_DOUBLINGS))

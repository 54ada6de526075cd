"""
The closed-loop engine: each of P clients offers its next operation once the last was answered and a pause has passed.

So t0 is the last answer's t2 plus the pause, and t1 - t0 is what the generator itself adds. After a refusal, or
without an answer, a client pauses longer, and the more so the more often in a row: a store that refuses at once would
be hammered. What a client offers, its
pauses, timer and clock are arguments. A store that stalls is offered less, and the series hides what others would
have waited: `stats.coordinated_omission` says how much.

Source:
    Schroeder, Wierman & Harchol-Balter (2006), Open versus closed: a cautionary tale, NSDI '06.
"""

from __future__ import annotations

import asyncio
import heapq
from typing import TYPE_CHECKING, NamedTuple

from stepbench.drivers.protocol import Operated, Outcome, WithdrawnError
from stepbench.load.open_loop import CANCEL_DRAIN_S, NO_ANSWER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from stepbench.clock import Clock
    from stepbench.load.growing_recorder import GrowingRecorder
    from stepbench.load.timer import Timer

_OK = Outcome.OK
_TURN = 32
"""After so many operations without a pause a client lets others run, should its answers come without waiting."""
BACK_OFF_NS, LONGEST_BACK_OFF_NS = 10_000_000, 1_000_000_000
_MOST_DOUBLINGS = 7
"""With them, the longest is passed."""


class Offer(NamedTuple):
    """An operation under way; `kind` is noted with the answer."""

    kind: int
    answer: Awaitable[Operated]


class Client(NamedTuple):
    """
    One client.

    number: of all writers' clients. offer: begins the operation with this sequence number of the client's.
    pauses_ns: before each operation; where they end, the client does. operations: so many, if they are bounded.
    """

    number: int
    offer: Callable[[int], Offer]
    pauses_ns: Iterator[int]
    operations: int | None = None


class Bounds(NamedTuple):
    """
    When it begins and ends.

    start_at_ns: the barrier, after which the first pause is counted (from now, if that is later). send_until_ns:
    nothing is offered with a t0 from then on. drain_s: how long answers are awaited after `send_until_ns`; what has
    none then is UNKNOWN, unless the driver knows more (`WithdrawnError`). most: of all clients together, for the memory
    of those who read the records.
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
        self._clients = clients
        self._clock = clock
        self._timer = timer
        self._recorder = recorder
        self._bounds = bounds
        self._pausing: list[tuple[int, int, asyncio.Future[None]]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._drain_alarm: asyncio.TimerHandle | None = None
        self._stopped = False

    async def run(self) -> None:
        """Let all clients run to their end; every operation that was begun has a row then."""
        loop = asyncio.get_running_loop()
        left_s = max(0.0, (self._bounds.send_until_ns - self._clock.now_ns()) / 1e9)
        self._tasks = {loop.create_task(self._run(client)) for client in self._clients}
        self._limit_drain(CANCEL_DRAIN_S if self._stopped else left_s + self._bounds.drain_s)
        try:
            if self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            self._give_up()
            self._timer.close()
            if self._drain_alarm is not None:
                self._drain_alarm.cancel()
        for task in self._tasks:
            if not task.cancelled():
                task.result()

    def stop(self) -> None:
        """Offer nothing more, and do not wait long for answers. Call it on the loop's thread."""
        self._stopped = True
        for _, _, pause in self._pausing:
            _wake(pause)
        if self._tasks:
            self._limit_drain(CANCEL_DRAIN_S)

    async def _run(self, client: Client) -> None:
        ready_ns, failures = max(self._bounds.start_at_ns, self._clock.now_ns()), 0
        for done, pause_ns in enumerate(client.pauses_ns):
            t0_ns, now_ns = ready_ns + pause_ns, self._clock.now_ns()
            if self._is_over(t0_ns) or done == client.operations:
                return
            if t0_ns > now_ns or done % _TURN == _TURN - 1:
                await (self._pause(t0_ns, client.number) if t0_ns > now_ns else asyncio.sleep(0))
                if self._is_over(t0_ns):
                    return
                now_ns = self._clock.now_ns()
            operated = await self._operate(client, done, t0_ns, now_ns)
            if operated is None:
                return
            ready_ns, failures = operated.t2_ns, 0 if operated.outcome is _OK else failures + 1
            if failures:
                ready_ns += back_off_ns(failures)

    def _is_over(self, t0_ns: int) -> bool:
        bounds = self._bounds
        return self._stopped or t0_ns >= bounds.send_until_ns or self._recorder.begun >= bounds.most

    async def _operate(self, client: Client, sequence: int, t0_ns: int, began_ns: int) -> Operated | None:
        """What came of it; None if the client is to go home without an answer."""
        number, kind, gone = self._recorder.begin(), 0, False
        try:
            kind, answer = client.offer(sequence)
            operated = await answer
        except WithdrawnError as withdrawn:
            operated, gone = Operated(*withdrawn.answer), True
        except asyncio.CancelledError:
            operated, gone = Operated(began_ns, self._clock.now_ns(), Outcome.UNKNOWN, error=NO_ANSWER), True
        except Exception as error:  # noqa: BLE001 -- a driver that breaks its contract must not cost the other records
            what = f"{type(error).__name__} in the driver"
            operated = Operated(began_ns, self._clock.now_ns(), Outcome.UNKNOWN, error=what)
        self._recorder.record(number, client.number, kind, t0_ns, operated)
        return None if gone else operated

    async def _pause(self, due_ns: int, client: int) -> None:
        pause: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._pausing, (due_ns, client, pause))
        if self._pausing[0][2] is pause:
            self._timer.call_at(due_ns, self._ring)
        await pause

    def _ring(self) -> None:
        now_ns = self._clock.now_ns()
        while self._pausing and self._pausing[0][0] <= now_ns:
            _wake(heapq.heappop(self._pausing)[2])
        if self._pausing:
            self._timer.call_at(self._pausing[0][0], self._ring)

    def _limit_drain(self, seconds: float) -> None:
        if self._drain_alarm is not None:
            self._drain_alarm.cancel()
        self._drain_alarm = asyncio.get_running_loop().call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        for task in self._tasks:
            task.cancel()


def back_off_ns(failures: int) -> int:
    """How much longer a client pauses after so many operations in a row that were not acknowledged."""
    if failures == 0:
        return 0
    return min(LONGEST_BACK_OFF_NS, BACK_OFF_NS << min(failures - 1, _MOST_DOUBLINGS))


def _wake(pause: asyncio.Future[None]) -> None:
    if not pause.done():
        pause.set_result(None)

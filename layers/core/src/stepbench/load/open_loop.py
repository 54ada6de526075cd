"""
The open-loop engine: each event is offered when it is due, whatever became of those before.

Schedule, timer, clock and what is offered, writes or operations, are arguments; this is what holds them together.
Events start in the schedule's order, and the next one is made (encoded, signed) while its time is awaited, so that then
there is nothing left to do but to send it. With `max_in_flight` of them unanswered, the next waits until one is
answered, and its wait counts: t0 stays what the schedule says.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from stepbench.model.request import FailedRequest, failed_in_driver

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.load.recorder import Recorder
    from stepbench.load.timer import Timer
    from stepbench.model.request import PendingRequest, Result

CANCEL_DRAIN_S = 2.0
ABANDON_TIMEOUT_S = 2.0
"""How long after they were abandoned events may take to say what became of them."""
_BURST = 16
"""Events started at one go before answers get their turn, when the generator has fallen behind."""


class SliceLimits(NamedTuple):
    """
    What bounds a slice.

    max_in_flight: unanswered writes. send_until_ns: what has not been started by then is unsent. drain_s: how long
    answers are awaited after the last event was started; what has none then is UNKNOWN, unless the driver knows more.
    """

    max_in_flight: int
    send_until_ns: int
    drain_s: float


class OpenLoop:
    """One slice of one writer; `run` it once."""

    def __init__(  # noqa: PLR0913 -- its parts
        self,
        make: Callable[[int], PendingRequest],
        clock: Clock,
        timer: Timer,
        recorder: Recorder,
        *,
        limits: SliceLimits,
        first_row: int = 0,
    ) -> None:
        """
        Keep the parts.

        `make` makes the event with this sequence number; it is asked once for each, in order, and only while less than
        `max_in_flight` are unanswered. Rows before `first_row` are too late already: unsent.
        """
        self._make = make
        self._clock = clock
        self._timer = timer
        self._recorder = recorder
        self._limits = limits
        self._send_until_ns = limits.send_until_ns
        self._next = first_row
        self._end = recorder.rows
        self._prepared: PendingRequest | None = None
        self._in_flight: dict[int, PendingRequest] = {}
        self._waits_for_answer = False
        self._stopped = False
        self._leaves_rest_open = False
        self._drain_alarm: asyncio.TimerHandle | None = None
        self._offered: asyncio.Future[None] | None = None
        self._answered: asyncio.Future[None] | None = None
        self._last_call: asyncio.TimerHandle | None = None

    async def run(self) -> None:
        """Offer everything, await the answers, close every row."""
        loop = asyncio.get_running_loop()
        self._offered = loop.create_future()
        self._arm_last_call()
        try:
            self._offer_due()
            await self._offered
            self._answered = loop.create_future()
            self._limit_drain(CANCEL_DRAIN_S if self._stopped else self._limits.drain_s)
            if self._in_flight:
                await self._answered
        finally:
            self._timer.close()
            self._abandon()
            for alarm in (self._last_call, self._drain_alarm):
                if alarm is not None:
                    alarm.cancel()
        self._close_rows()

    def stop(self, *, leave_rest_open: bool = False) -> None:
        """
        Offer nothing more, and do not wait long for answers. Call it on the loop's thread.

        leave_rest_open: what was not offered gets no row, because somebody else offers it.
        """
        self._stopped = True
        self._leaves_rest_open = leave_rest_open
        self._stop_offering()
        if self._drain_alarm is not None:
            self._limit_drain(CANCEL_DRAIN_S)

    def end_at(self, due_ns: int, grace_ns: int) -> None:
        """
        Offer only what is due before `due_ns`; what is queued then, or now if that is later, for so much longer.

        Call it on the loop's thread, once.
        What is due later gets no row, unless it has been offered already: the phase ends there.
        """
        self._end = bisect_left(self._recorder.t0_ns, due_ns)
        self._send_until_ns = min(max(due_ns, self._clock.now_ns()) + grace_ns, self._send_until_ns)
        if self._offered is not None and not self._offered.done():
            self._arm_last_call()
        if self._next >= self._end:
            self._stop_offering()

    def _offer_due(self) -> None:
        self._waits_for_answer = False
        for _ in range(_BURST):
            row = self._next
            if row >= self._end:
                self._stop_offering()
                return
            if self._offered is None or self._offered.done():
                return
            has_place = len(self._in_flight) < self._limits.max_in_flight
            due_ns = self._recorder.t0_ns[row]
            if due_ns > self._clock.now_ns():
                self._timer.call_at(due_ns, self._offer_due)
                if self._prepared is None and has_place:
                    self._prepared = self._make_row(row)
                return
            if not has_place:
                self._waits_for_answer = True
                return
            self._start(row)
        asyncio.get_running_loop().call_soon(self._offer_due)

    def _start(self, row: int) -> None:
        prepared = self._prepared or self._make_row(row)
        self._prepared = None
        self._in_flight[row] = prepared
        self._next = row + 1
        try:
            prepared.send(partial(self._ended, row))
        except Exception as error:  # noqa: BLE001 -- see `FailedRequest`
            if row in self._in_flight:
                self._ended(row, failed_in_driver(error, self._clock))

    def _make_row(self, row: int) -> PendingRequest:
        try:
            return self._make(self._recorder.first_sequence + row)
        except Exception as error:  # noqa: BLE001 -- see `FailedRequest`
            return FailedRequest(error, self._clock)

    def _ended(self, row: int, answer: Result) -> None:
        if self._in_flight.pop(row, None) is None:
            return  # said after the last word
        self._recorder.record(row, answer)
        if self._waits_for_answer:
            self._offer_due()
        if not self._in_flight:
            self._all_answered()

    def _all_answered(self) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result(None)

    def _stop_offering(self) -> None:
        if self._offered is not None and not self._offered.done():
            self._offered.set_result(None)

    def _limit_drain(self, seconds: float) -> None:
        if self._drain_alarm is not None:
            self._drain_alarm.cancel()
        self._drain_alarm = asyncio.get_running_loop().call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        self._abandon()
        # Whoever has not said by then what became of it breaks its contract; the records of the others are kept.
        self._drain_alarm = asyncio.get_running_loop().call_later(ABANDON_TIMEOUT_S, self._all_answered)

    def _abandon(self) -> None:
        for pending in list(self._in_flight.values()):
            pending.abandon()

    def _close_rows(self) -> None:
        for row in list(self._in_flight):
            self._ended(row, failed_in_driver(TimeoutError(), self._clock))
        self._recorder.unsent(0, self._next if self._leaves_rest_open else self._end)

    def _arm_last_call(self) -> None:
        if self._last_call is not None:
            self._last_call.cancel()
        seconds = max(0.0, (self._send_until_ns - self._clock.now_ns()) / 1e9)
        self._last_call = asyncio.get_running_loop().call_later(seconds, self._stop_offering)

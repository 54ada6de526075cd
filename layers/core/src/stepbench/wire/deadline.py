"""The time limits of the requests under way on a connection: one timer serves them all."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from stepbench.model.errors import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.wire.socket import OutgoingBytes

NEVER_NS = 2**63


class DeadlineTimer(ABC):
    """
    One timer, set to the earliest deadline of many requests: setting one for each would cost as much as a send.

    due_ns: when it goes off, ns since the epoch; `NEVER_NS` while it is not set, 0 once it has been stopped.
    is_set: whether it need not be set for one more request.
    """

    __slots__ = ("_clock", "_loop", "_timer", "due_ns", "is_set")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.due_ns = NEVER_NS
        self.is_set = False

    def set(self, due_ns: int) -> None:
        """Have the timer go off at this moment, in place of a later one."""
        if self._timer is not None:
            self._timer.cancel()
        self.due_ns, self.is_set = due_ns, True
        self._timer = self._loop.call_later((due_ns - self._clock.now_ns()) / 1e9, self._go_off)

    def stop(self) -> None:
        """Stop it for good; safe to call twice."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.due_ns, self.is_set = 0, True

    @abstractmethod
    def _check(self, now_ns: int) -> int:
        """End what is late; return the next deadline, or `NEVER_NS`."""

    def _go_off(self) -> None:
        self._timer, self.due_ns, self.is_set = None, NEVER_NS, False
        next_ns = self._check(self._clock.now_ns())
        if next_ns < self.due_ns:
            self.set(next_ns)


class AnswerDeadline(DeadlineTimer):
    """
    Ends a connection whose oldest request has waited too long for its answer.

    The wait begins at t1. What the kernel has not taken yet may wait as long once more: there is nothing to answer.

    Args:
        limit_s: the longest wait for an answer.
        clock: the one of the requests' t1.
        find_oldest: returns the request that has been under way longest, or None.
        end: is called with the reason.
    """

    __slots__ = ("_end", "_find_oldest", "_limit_ns", "_stuck")

    def __init__(
        self, limit_s: float, clock: Clock, find_oldest: Callable[[], OutgoingBytes | None], end: Callable[[str], None]
    ) -> None:
        super().__init__(clock)
        self._limit_ns = int(limit_s * 1e9)
        self._find_oldest = find_oldest
        self._end = end
        self._stuck: OutgoingBytes | None = None

    def start(self) -> None:
        """Set the timer for a request that is sent now; call it unless `is_set`."""
        self.set(self._clock.now_ns() + self._limit_ns)

    def stop(self) -> None:
        """Stop it for good; it no longer holds its owner, which would else be left to the garbage collector."""
        super().stop()
        self._find_oldest, self._stuck = _find_nothing, None
        self._end = _end_nothing

    def _check(self, now_ns: int) -> int:
        oldest = self._find_oldest()
        if oldest is None:
            return NEVER_NS
        if oldest.t1_ns:
            due_ns = oldest.t1_ns + self._limit_ns
        else:
            due_ns = now_ns if oldest is self._stuck else now_ns + self._limit_ns
            self._stuck = oldest
        if due_ns > now_ns:
            return due_ns
        self._end(TIMEOUT)
        return NEVER_NS


def _find_nothing() -> None:
    """Stand for `find_oldest` once the timer has been stopped."""


def _end_nothing(_reason: str) -> None:
    """Stand for `end` once the timer has been stopped."""

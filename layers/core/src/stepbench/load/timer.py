"""
Timers that call back at a time of the writer's clock.

asyncio's own timers are 0.5 to 1 ms late (uvloop's count in whole milliseconds); a Linux `timerfd` with the thread's
timer slack at its least is 30 to 60 µs late, and one that goes off early and is then waited for is not late at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.clock import Clock

_SECOND_NS = 1_000_000_000
_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC
_PR_SET_TIMERSLACK = 29
_DEFAULT_SLACK = 0
_LEAST_SLACK_NS = 1
SPIN_NS = 60_000
"""The system nearly always wakes a thread in less."""
MOST_SPINNING = 0.25
"""The share of the thread's time that may be spent spinning."""


class Timer(Protocol):
    """One alarm at a time."""

    def call_at(self, due_ns: int, callback: Callable[[], None]) -> None:
        """Call back once it is `due_ns`; replaces the alarm before."""
        ...

    def close(self) -> None:
        """Cancel the alarm, for good; safe to call twice."""
        ...


class LoopTimer:
    """The event loop's own timer: where there is no timerfd, and in tests, where time is the loop's."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._alarm: asyncio.TimerHandle | None = None

    def call_at(self, due_ns: int, callback: Callable[[], None]) -> None:
        """See `Timer`."""
        self.close()
        self._alarm = self._loop.call_later((due_ns - self._clock.now_ns()) / _SECOND_NS, callback)

    def close(self) -> None:
        """See `Timer`."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


class TimerFd:
    """
    A Linux timerfd, and the least timer slack for the calling thread while it is open.

    Args:
        clock: whose times `call_at` takes.
        spin_ns: the alarm goes off so much early, and the rest is waited for without sleeping; 0: not. The loop goes
            round meanwhile, so that answers are taken as they come.

    Raises:
        OSError: the system has none.
    """

    def __init__(self, clock: Clock, spin_ns: int = 0) -> None:
        self._clock = clock
        self._spin_ns = spin_ns
        self._due_ns = 0
        self._callback: Callable[[], None] | None = None
        self._libc = _libc()
        self._fd = self._libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        # {interval s, interval ns, value s, value ns} (timerfd_settime(2)); made once, since that takes longer than
        # the call.
        self._setting = (ctypes.c_int64 * 4)()
        self._libc.prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(_LEAST_SLACK_NS), 0, 0, 0)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self._ring)

    def call_at(self, due_ns: int, callback: Callable[[], None]) -> None:
        """See `Timer`."""
        self._due_ns, self._callback = due_ns, callback
        # 1 ns at least: 0 would disarm it.
        wait_ns = max(1, due_ns - self._spin_ns - self._clock.now_ns())
        self._setting[2], self._setting[3] = divmod(wait_ns, _SECOND_NS)
        self._libc.timerfd_settime(self._fd, 0, self._setting, None)

    def close(self) -> None:
        """See `Timer`."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
            self._libc.prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(_DEFAULT_SLACK), 0, 0, 0)

    def _ring(self) -> None:
        # Until it is set anew or read, the descriptor stays readable, and the loop comes straight back here.
        if self._clock.now_ns() < self._due_ns:
            return
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()
        if self._callback is None and self._fd >= 0:
            with contextlib.suppress(BlockingIOError):
                os.read(self._fd, 8)


def spin_ns(alarms_per_s: float, cores: float) -> int:
    """
    Return how long to wait for each alarm without sleeping: `SPIN_NS`, or 0 where that would cost too much.

    alarms_per_s: at the most. cores: of this thread (see `process.cores_of`); less than one is stopped by its quota.
    """
    return SPIN_NS if cores >= 1 and alarms_per_s * SPIN_NS <= MOST_SPINNING * _SECOND_NS else 0


def best_timer(clock: Clock, spin_ns: int = 0) -> Timer:
    """Open the most punctual timer that the system has, for the running loop."""
    try:
        return TimerFd(clock, spin_ns)
    except (OSError, AttributeError):
        return LoopTimer(clock)


def _libc() -> ctypes.CDLL:
    # AttributeError where the C library knows no timerfd (anything but Linux).
    libc = ctypes.CDLL(None, use_errno=True)
    for name in ("timerfd_create", "timerfd_settime", "prctl"):
        getattr(libc, name)
    return libc

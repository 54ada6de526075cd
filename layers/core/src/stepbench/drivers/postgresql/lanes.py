"""A writer's connections: some from the start, more on demand up to a cap, and a queue in order beyond it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class AnyLane(Protocol):
    """A connection that one task at a time uses."""

    @property
    def broken(self) -> bool:
        """Whether it has to be replaced."""
        ...

    def close(self) -> None:
        """Drop it, whatever is under way."""
        ...


Lane = TypeVar("Lane", bound=AnyLane)


class Lanes(Generic[Lane]):
    """
    Hands out idle lanes, the one used last first (its backend is warm).

    Where the server lets us have no more connections, those that we have are the cap from then on; unless `insist`:
    then whoever would need another is told so, and may ask again.
    """

    def __init__(self, make: Callable[[], Awaitable[Lane]], cap: int, *, insist: bool = False) -> None:
        self._make = make
        self._cap = cap
        self._insist = insist
        self._lanes: set[Lane] = set()
        self._opening = 0
        self._idle: list[Lane] = []
        self._queue: deque[asyncio.Future[Lane | None]] = deque()

    async def warm_up(self, count: int) -> None:
        """
        Have so many lanes (at most the cap) open and idle.

        Raises:
            TargetUnavailableError: not even one could be opened.
        """
        wanted = min(count, self._cap) - len(self._lanes)
        made = await asyncio.gather(*(self._open() for _ in range(wanted)), return_exceptions=True)
        for lane in made:
            if not isinstance(lane, BaseException):
                self.release(lane)
        failures = [lane for lane in made if isinstance(lane, BaseException)]
        if failures and not self._lanes:
            raise failures[0]

    def take(self) -> Lane | None:
        """An idle lane, if there is one now."""
        while self._idle:
            lane = self._idle.pop()
            if not lane.broken:
                return lane
            self._discard(lane)
        return None

    async def acquire(self) -> Lane:
        """
        An idle lane, sooner or later.

        Raises:
            TargetUnavailableError: there is none, and none can be opened.
        """
        while True:
            lane = self.take()
            if lane is not None:
                return lane
            if len(self._lanes) + self._opening < self._cap:
                try:
                    return await self._open()
                except TargetUnavailableError:
                    if self._insist or not self._lanes:
                        self._wake_next()
                        raise
                    self._cap = len(self._lanes)
            lane = await self._wait()
            if lane is not None:
                return lane

    def release(self, lane: Lane) -> None:
        """Give a lane back, to whoever has waited longest. A broken one is closed, and its place is free."""
        if lane.broken:
            self._discard(lane)
            self._wake_next()
            return
        while self._queue:
            waiting = self._queue.popleft()
            if not waiting.done():
                waiting.set_result(lane)
                return
        self._idle.append(lane)

    def close(self) -> None:
        """Close every lane; writes under way end as lost."""
        for lane in list(self._lanes):
            self._discard(lane)
        self._idle.clear()

    async def _open(self) -> Lane:
        self._opening += 1
        try:
            lane = await self._make()
        finally:
            self._opening -= 1
        self._lanes.add(lane)
        return lane

    async def _wait(self) -> Lane | None:
        waiting: asyncio.Future[Lane | None] = asyncio.get_running_loop().create_future()
        self._queue.append(waiting)
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and (lane := waiting.result()) is not None:
                self.release(lane)
            raise

    def _wake_next(self) -> None:
        """There is no lane to give, but a place: whoever waits longest may try to open one."""
        while self._queue:
            waiting = self._queue.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return

    def _discard(self, lane: Lane) -> None:
        self._lanes.discard(lane)
        lane.close()

"""A store in memory, with an answer time and failures to order: a driver for tests of everything above drivers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stepbench.contracts.identity import parse_event_id
from stepbench.drivers.protocol import Change, ChangeBatch, Outcome, Write, Written
from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import Scale


class MemoryDriver:
    """
    `Driver`, `Watchable` and `Scalable` in one.

    Args:
        clock: by which it stamps, and waits.
        service_ns: how long each write takes, in order of arrival; the last one holds for all that follow.
        outcomes: by arrival order (0 = first), where not OK: FAILED is answered "refused", UNKNOWN "timeout".
        hanging: writes that are never answered.
        raising: writes at which the driver itself breaks, against its contract.
        ready_after: how many times `ready` says no first.
        unavailable: `open` and `prepare` raise TargetUnavailableError.
    """

    def __init__(  # noqa: PLR0913 -- one per thing that can go differently
        self,
        clock: Clock,
        *,
        service_ns: Sequence[int] = (0,),
        outcomes: Mapping[int, Outcome] | None = None,
        hanging: Collection[int] = (),
        raising: Collection[int] = (),
        ready_after: int = 0,
        unavailable: bool = False,
    ) -> None:
        self._clock = clock
        self._service_ns = service_ns
        self._outcomes = outcomes or {}
        self._hanging = hanging
        self._raising = raising
        self._ready_after = ready_after
        self._unavailable = unavailable
        self._changed = asyncio.Event()
        self._watch_ends = ""
        self.calls: list[str] = []
        self.offered: list[Write] = []
        self.stored: dict[str, bytes] = {}
        self.changes: list[Change] = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def open(self) -> None:
        """Note the call, or be unavailable."""
        self._call("open")

    async def prepare(self) -> None:
        """Note the call, or be unavailable."""
        self._call("prepare")

    async def ready(self) -> bool:
        """True after `ready_after` refusals."""
        self.calls.append("ready")
        self._ready_after -= 1
        return self._ready_after < 0

    async def write(self, write: Write) -> Written:
        """Wait for the service time, then answer as ordered."""
        number = len(self.offered)
        self.offered.append(write)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._answer(number, write)
        finally:
            self.in_flight -= 1

    async def _answer(self, number: int, write: Write) -> Written:
        t1_ns = self._clock.now_ns()
        if number in self._raising:
            message = f"write {number} breaks"
            raise KeyError(message)
        if number in self._hanging:
            await asyncio.Event().wait()
        await self._clock.sleep_async(self._service_ns[min(number, len(self._service_ns) - 1)] / 1e9)
        outcome = self._outcomes.get(number, Outcome.OK)
        if outcome is not Outcome.OK:
            error = "refused" if outcome is Outcome.FAILED else "timeout"
            return Written(t1_ns, self._clock.now_ns(), outcome, error=error)
        if write.delete:
            self.remove(write.key)
        else:
            self.put(write.key, write.value)
        return Written(t1_ns, self._clock.now_ns(), outcome, token=str(len(self.changes)))

    def put(self, key: str, value: bytes) -> None:
        """Change the store from outside; watches see it, unless it is not to pass a filter."""
        self.stored[key] = value
        self._tell(value)

    def remove(self, key: str) -> None:
        """Delete from outside; watches see the key, if there was one."""
        if self.stored.pop(key, None) is not None:
            self._tell(key.encode())

    def _tell(self, value: bytes) -> None:
        event = parse_event_id(value.decode(errors="replace"))
        if event is None or event.matching:
            self.changes.append(Change(value, len(self.changes) + 1))
            self._changed.set()

    async def tear_down(self) -> bool:
        """Forget everything."""
        self.calls.append("tear_down")
        self.stored.clear()
        return True

    async def close(self) -> None:
        """Note the call."""
        self.calls.append("close")

    async def provider(self) -> str:
        """What it is."""
        return "memory"

    async def watch(self, from_position: int | None) -> AsyncIterator[ChangeBatch]:
        """Changes after a position as they come, all that there are at a time in one batch."""
        self.calls.append(f"watch from {from_position}")
        seen = len(self.changes) if from_position is None else from_position
        yield ChangeBatch(self._clock.now_ns(), ())
        while True:
            if self._watch_ends:
                raise TargetUnavailableError(self._watch_ends)
            if fresh := self.changes[seen:]:
                seen += len(fresh)
                yield ChangeBatch(self._clock.now_ns(), fresh)
                continue
            self._changed.clear()
            await self._changed.wait()

    def end_watch(self, reason: str) -> None:
        """Let the store end all watches."""
        self._watch_ends = reason
        self._changed.set()

    async def scale(self, scale: Scale) -> bool:
        """Note the capacity."""
        self.calls.append(f"scale to {scale.capacity.mode}")
        return True

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self._unavailable:
            message = "the store in memory is told to be unavailable"
            raise TargetUnavailableError(message)

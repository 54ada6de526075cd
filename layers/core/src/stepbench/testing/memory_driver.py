"""
A store in memory, with an answer time and failures to order: a driver for tests of everything above drivers.

It takes writes, whose changes can be watched, and operations on records, of which a watch sees nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stepbench.contracts.identity import parse_event_id
from stepbench.contracts.workload import Kind
from stepbench.drivers.protocol import (
    WITHDRAWN,
    Change,
    ChangeBatch,
    Connecting,
    Operated,
    Operation,
    Outcome,
    WithdrawnError,
    Write,
    Written,
)
from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import Scale


READING = frozenset({Kind.READ, Kind.OVERWRITE, Kind.UPDATE, Kind.READ_MODIFY_WRITE})
"""Operations on a record that has to be there."""


class MemoryDriver:
    """
    `Driver`, `Operable`, `Watchable` and `Scalable` in one.

    Args:
        clock: by which it stamps, and waits.
        service_ns: how long each write or operation takes, in order of arrival; the last one holds for all that follow.
        outcomes: by arrival order (0 = first), where not OK: FAILED is answered "refused", UNKNOWN "timeout".
        hanging: writes that are never answered.
        withdrawn: writes that never leave, and say so when they are cancelled.
        raising: writes at which the driver itself breaks, against its contract.
        ready_after: how many times `ready` says no first.
        unavailable: `open`, `warm_up` and `prepare` raise TargetUnavailableError.
        missing: whether an operation on a record that nobody has stored finds none; otherwise all records are there.
        connecting: what each operation's own connection took; None where they are kept.
        retries: operations that were tried again, and how often.
    """

    def __init__(  # noqa: PLR0913 -- one per thing that can go differently
        self,
        clock: Clock,
        *,
        service_ns: Sequence[int] = (0,),
        outcomes: Mapping[int, Outcome] | None = None,
        hanging: Collection[int] = (),
        withdrawn: Collection[int] = (),
        raising: Collection[int] = (),
        ready_after: int = 0,
        unavailable: bool = False,
        missing: bool = False,
        connecting: Connecting | None = None,
        retries: Mapping[int, int] | None = None,
    ) -> None:
        self._clock = clock
        self._service_ns = service_ns
        self._outcomes = outcomes or {}
        self._hanging = {*hanging, *withdrawn}
        self._withdrawn = withdrawn
        self._raising = raising
        self._ready_after = ready_after
        self._unavailable = unavailable
        self._changed = asyncio.Event()
        self._watch_ends = ""
        self.calls: list[str] = []
        self._missing = missing
        self._connecting = connecting
        self._retries = retries or {}
        self.offered: list[Write] = []
        self.operations: list[Operation] = []
        self.stored: dict[str, bytes] = {}
        self.changes: list[Change] = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def open(self) -> None:
        """Note the call, or be unavailable."""
        self._call("open")

    async def warm_up(self) -> None:
        """Note the call, or be unavailable."""
        self._call("warm_up")

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

    async def operate(self, operation: Operation) -> Operated:
        """The same for an operation; it is stored by key, and a watch sees nothing of it."""
        number = len(self.operations)
        self.operations.append(operation)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        t1_ns = self._clock.now_ns()
        try:
            outcome, error = await self._serve(number)
        finally:
            self.in_flight -= 1
        if self._missing and operation.kind in READING and operation.key not in self.stored and not error:
            outcome, error = Outcome.FAILED, "not_found"
        if outcome is Outcome.OK and operation.value:
            self.stored[operation.key] = operation.value
        retries = self._retries.get(number, 0)
        return Operated(t1_ns, self._clock.now_ns(), outcome, "", error, retries, self._connecting)

    async def _serve(self, number: int) -> tuple[Outcome, str]:
        if number in self._raising:
            message = f"number {number} breaks"
            raise KeyError(message)
        if number in self._hanging:
            await self._hang(number)
        await self._clock.sleep_async(self._service_ns[min(number, len(self._service_ns) - 1)] / 1e9)
        outcome = self._outcomes.get(number, Outcome.OK)
        return outcome, {Outcome.OK: "", Outcome.FAILED: "refused", Outcome.UNKNOWN: "timeout"}[outcome]

    async def _hang(self, number: int) -> None:
        began_ns = self._clock.now_ns()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if number not in self._withdrawn:
                raise
            raise WithdrawnError(Operated(began_ns, self._clock.now_ns(), Outcome.FAILED, error=WITHDRAWN)) from None

    async def _answer(self, number: int, write: Write) -> Written:
        t1_ns = self._clock.now_ns()
        outcome, error = await self._serve(number)
        if error:
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

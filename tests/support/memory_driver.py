"""
A store in memory, with an answer time and failures to order: a driver for tests of everything above drivers.

It takes writes, whose changes can be watched, and operations on records, of which a watch sees nothing.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from stepbench.contracts.identity import parse_event_id
from stepbench.contracts.workload import Kind
from stepbench.errors import TargetUnavailableError
from stepbench.model.errors import NOT_FOUND, WITHDRAWN
from stepbench.model.pending import CoroutineRequest, WithdrawnError
from stepbench.model.request import Change, ChangeBatch, ConnectionParts, Outcome, PendingRequest, Request, Result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.phase import Scale


READING = frozenset({Kind.READ, Kind.OVERWRITE, Kind.UPDATE, Kind.READ_MODIFY_WRITE})
"""Operations on a record that has to be there."""


class MemoryDriver:
    """
    `Driver`, `Warmable`, `Watchable` and `Scalable` in one.

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
        connecting: ConnectionParts | None = None,
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
        self.offered: list[Request] = []
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
        """Return True after `ready_after` refusals."""
        self.calls.append("ready")
        self._ready_after -= 1
        return self._ready_after < 0

    def prepare_request(self, request: Request) -> PendingRequest:
        """Return a request that waits for the service time, then answers as ordered."""
        return CoroutineRequest(partial(self.serve, request), self._clock)

    async def serve(self, request: Request) -> Result:
        """Wait for the service time, change what is stored, and answer as ordered."""
        number = len(self.offered)
        self.offered.append(request)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        t1_ns = self._clock.now_ns()
        try:
            outcome, error = await self._serve(number)
        finally:
            self.in_flight -= 1
        if self._missing and request.kind in READING and request.key not in self.stored and not error:
            outcome, error = Outcome.FAILED, NOT_FOUND
        token = self._apply(request) if outcome is Outcome.OK else ""
        retries = self._retries.get(number, 0)
        return Result(t1_ns, self._clock.now_ns(), outcome, token, error, retries, self._connecting)

    def _apply(self, request: Request) -> str:
        """Change what is stored; the token is the number of the change, which only events have."""
        if request.kind is Kind.DELETE:
            self.remove(request.key)
        elif request.fields is None and request.kind is Kind.INSERT:
            self.put(request.key, request.value)
        elif request.value:
            self.stored[request.key] = request.value
            return ""
        else:
            return ""
        return str(len(self.changes))

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
            raise WithdrawnError(Result(began_ns, self._clock.now_ns(), Outcome.FAILED, error=WITHDRAWN)) from None

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

    def resource_names(self) -> tuple[str, ...]:
        """Name what it forgets."""
        return ("records of the trial",)

    async def close(self) -> None:
        """Note the call."""
        self.calls.append("close")

    async def provider(self) -> str:
        """Name the store."""
        return "memory"

    async def watch(self, from_position: int | None) -> AsyncIterator[ChangeBatch]:
        """Yield the changes after a position, all that there are at a time in one batch."""
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

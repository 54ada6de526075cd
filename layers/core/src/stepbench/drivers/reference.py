"""
The reference store (`stepbench.testing.reference_store`): a store whose every delay is drawn by us, and on record.

Writes go over one connection, many in flight; a watch has a connection of its own. Positions count the trial's
deliveries, so a duplicate has one of its own; a write's token is its number within the trial.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from stepbench.drivers.addresses import Endpoint, endpoint_error, parse_endpoint, resolve
from stepbench.drivers.preload import preload
from stepbench.drivers.protocol import Change, ChangeBatch, Outcome, Write, Written
from stepbench.errors import TargetUnavailableError
from stepbench.wire.framed_socket import FramedSocket
from stepbench.wire.frames import Frame, Kind, encode_frame, encode_write

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.settings import Settings

DEFAULT_PORT = 7300
WRITE_LIMIT_S = 10.0
CONTROL_LIMIT_S = 10.0


class _Answer:
    """What came back for a request: at `at_ns`, a frame or, without one, the reason."""

    def __init__(self, at_ns: int, frame: Frame | None, reason: str = "") -> None:
        self.at_ns = at_ns
        self.frame = frame
        self.reason = reason


class _Link:
    """A connection on which requests find their answers; changes go to `changes`."""

    def __init__(self, clock: Clock) -> None:
        self.changes: asyncio.Queue[ChangeBatch | None] = asyncio.Queue()
        self._clock = clock
        self._pending: dict[int, asyncio.Future[_Answer]] = {}
        self._requests = 0
        self._wire: FramedSocket | None = None

    async def connect(self, endpoint: Endpoint) -> None:
        host = await resolve(endpoint)
        self._wire = await FramedSocket.connect(host, endpoint.port, self._clock, self._arrived, self._lost)

    def next_number(self) -> int:
        self._requests += 1
        return self._requests

    async def exchange(self, number: int, request: bytes, limit_s: float) -> tuple[int, _Answer]:
        """Send; the time of sending, and the answer or the reason why there is none. Bounded by `limit_s`."""
        if self._wire is None or not self._wire.is_open:
            now_ns = self._clock.now_ns()
            return now_ns, _Answer(now_ns, None, "not-connected")
        loop = asyncio.get_running_loop()
        pending: asyncio.Future[_Answer] = loop.create_future()
        self._pending[number] = pending
        time_out = loop.call_later(limit_s, self._settle, number, None, "timeout")
        try:
            t1_ns = self._wire.send(request)
            return t1_ns, await pending
        finally:
            time_out.cancel()
            self._pending.pop(number, None)

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
        self._lost("connection-closed")

    def _arrived(self, now_ns: int, frames: Sequence[Frame]) -> None:
        changes = []
        for frame in frames:
            if frame.kind == Kind.CHANGE:
                changes.append(Change(frame.body, frame.number))
            else:
                self._settle(frame.number, frame, "", now_ns)
        if changes:
            self.changes.put_nowait(ChangeBatch(now_ns, changes))

    def _settle(self, number: int, frame: Frame | None, reason: str, now_ns: int | None = None) -> None:
        pending = self._pending.get(number)
        if pending is not None and not pending.done():
            pending.set_result(_Answer(self._clock.now_ns() if now_ns is None else now_ns, frame, reason))

    def _lost(self, reason: str) -> None:
        for number in list(self._pending):
            self._settle(number, None, reason)
        self.changes.put_nowait(None)


class ReferenceDriver:
    """One trial in a reference store."""

    def __init__(self, spec: TrialSpec, settings: Settings, clock: Clock) -> None:
        endpoint = spec.plan.target.endpoint or settings.reference_endpoint
        if not endpoint:
            remedy = "Give target.endpoint, or the stack's parameter ReferenceEndpoint."
            raise endpoint_error(None, "no reference store is known to this stack", remedy)
        self._endpoint = parse_endpoint(endpoint, DEFAULT_PORT)
        self._spec = spec
        self._clock = clock
        self._link: _Link | None = None

    async def open(self) -> None:
        """Connect, and see that the store answers."""
        await self.close()
        self._link = await self._connect()

    async def close(self) -> None:
        """Close the writers' connection."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    async def write(self, write: Write) -> Written:
        """Write; the token is the write's number within the trial."""
        if self._link is None:
            now_ns = self._clock.now_ns()
            return Written(now_ns, now_ns, Outcome.FAILED, error="not-connected")
        return await _write(self._link, write)

    async def prepare(self) -> None:
        """Tell the store how to treat the trial, and write the keys that updates overwrite."""
        target = self._spec.plan.target.model_dump(mode="json")
        async with self._control() as link:
            await self._ask(link, Kind.CONFIGURE, target=target, seed=self._spec.plan.seed)
            await preload(self._spec, lambda write: _write(link, write), self._clock)

    async def ready(self) -> bool:
        """A trial is ready as soon as it is configured, so an answering store is ready."""
        async with self._control():
            return True

    async def tear_down(self) -> bool:
        """Remove the trial; its truth log stays with the store."""
        async with self._control() as link:
            await self._ask(link, Kind.REMOVE)
        return True

    async def provider(self) -> str:
        """`reference store 0.1.0`."""
        async with self._control() as link:
            return (await self._ask(link, Kind.VERSION)).decode()

    async def status(self) -> tuple[int, int]:
        """How many deliveries are still due in the trial, and the position of the last one made."""
        async with self._control() as link:
            answer = json.loads(await self._ask(link, Kind.STATUS))
        return int(answer["pending"]), int(answer["position"])

    async def watch(self, from_position: int | None) -> AsyncGenerator[ChangeBatch, None]:
        """The trial's deliveries in the order in which they are made; `from_position` has been seen."""
        async with self._control() as link:
            await self._ask(link, Kind.WATCH, after=from_position)
            yield ChangeBatch(self._clock.now_ns(), [])
            while (batch := await link.changes.get()) is not None:
                yield batch
        message = f"the reference store at {self._place} ended the watch on {self._spec.tag}"
        raise TargetUnavailableError(message)

    @property
    def _place(self) -> str:
        return f"{self._endpoint.host}:{self._endpoint.port}"

    async def _connect(self) -> _Link:
        link = _Link(self._clock)
        try:
            await link.connect(self._endpoint)
            await self._ask(link, Kind.VERSION)
        except OSError as error:
            link.close()
            message = f"the reference store at {self._place} cannot be reached: {error or type(error).__name__}"
            raise TargetUnavailableError(message) from error
        except BaseException:
            link.close()
            raise
        return link

    @asynccontextmanager
    async def _control(self) -> AsyncIterator[_Link]:
        """A connection of its own."""
        link = await self._connect()
        try:
            yield link
        finally:
            link.close()

    async def _ask(self, link: _Link, kind: Kind, **question: Any) -> bytes:  # noqa: ANN401 -- JSON
        """The body of DONE; anything else says that the target is unavailable."""
        number = link.next_number()
        body = json.dumps({"tag": self._spec.tag, **question}).encode()
        _, answer = await link.exchange(number, encode_frame(kind, number, body), CONTROL_LIMIT_S)
        if answer.frame is not None and answer.frame.kind == Kind.DONE:
            return answer.frame.body
        reason = answer.reason if answer.frame is None else answer.frame.body.decode("ascii", "replace")
        message = f"the reference store at {self._place} did not do {kind.name}: {reason}"
        raise TargetUnavailableError(message)


async def _write(link: _Link, write: Write) -> Written:
    number = link.next_number()
    request = encode_write(number, write.key.encode(), write.value)
    t1_ns, answer = await link.exchange(number, request, WRITE_LIMIT_S)
    if answer.frame is None:
        outcome = Outcome.FAILED if answer.reason == "not-connected" else Outcome.UNKNOWN
        return Written(t1_ns, answer.at_ns, outcome, error=answer.reason)
    if answer.frame.kind != Kind.DONE:
        return Written(t1_ns, answer.at_ns, Outcome.FAILED, error=answer.frame.body.decode("ascii", "replace"))
    return Written(t1_ns, answer.at_ns, Outcome.OK, answer.frame.body.decode("ascii", "replace"))

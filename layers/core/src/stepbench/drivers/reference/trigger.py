"""
The reference store (`calibration.reference_store`): a store whose every delay is drawn by us, and on record.

Writes go over one connection, many in flight; a watch has a connection of its own. Positions count the trial's
deliveries, so a duplicate has one of its own; a write's token is its number within the trial.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.target import ReferenceTarget
from stepbench.drivers.access import endpoint_error, parse_endpoint, resolve, unavailable
from stepbench.drivers.preload import preload_keys, write_each
from stepbench.drivers.reference.frames import Frame, FramedSocket, FrameKind, encode_frame, encode_write
from stepbench.errors import TargetUnavailableError
from stepbench.model.errors import CONNECTION_CLOSED, NO_ANSWER, TIMEOUT
from stepbench.model.request import Change, ChangeBatch, Outcome, Result

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.access import Endpoint
    from stepbench.model.request import PendingRequest, Request
    from stepbench.settings import Settings

ANSWER_LIMIT_S = 10.0
"""A write without an answer by then is UNKNOWN."""


class Reply(NamedTuple):
    """The end of a request at `at_ns`: the store's frame or, without one, the error."""

    at_ns: int
    frame: Frame | None
    error: str = ""


class ReferenceConnection:
    """A connection that is not made yet; `changes` ends with None when the connection is lost."""

    def __init__(self, clock: Clock) -> None:
        self.changes: asyncio.Queue[ChangeBatch | None] = asyncio.Queue()
        self.clock = clock
        self._waiting: dict[int, tuple[Callable[[Reply], None], asyncio.TimerHandle]] = {}
        self._requests = 0
        self._socket: FramedSocket | None = None

    async def connect(self, endpoint: Endpoint) -> None:
        """Connect. Raises as `resolve` and `FramedSocket.connect`."""
        host = await resolve(endpoint)
        self._socket = await FramedSocket.connect(host, endpoint.port, self.clock, self._arrived, self._lost)

    @property
    def is_open(self) -> bool:
        """Return whether requests can be sent."""
        return self._socket is not None and self._socket.is_open

    def next_number(self) -> int:
        """Return a number for a request."""
        self._requests += 1
        return self._requests

    def send(self, number: int, data: bytes, done: Callable[[Reply], None]) -> int:
        """
        Send a request over the open connection; `done` is called once, within `ANSWER_LIMIT_S`.

        Returns:
            The time just before the send, ns since the epoch.
        """
        if self._socket is None:
            raise ConnectionError(CONNECTION_CLOSED)
        alarm = asyncio.get_running_loop().call_later(ANSWER_LIMIT_S, self.give_up, number, TIMEOUT)
        self._waiting[number] = done, alarm
        return self._socket.send(data)

    def give_up(self, number: int, error: str) -> None:
        """Await a request's answer no longer; nothing happens where it is there."""
        self._reply(number, Reply(self.clock.now_ns(), None, error))

    async def ask(self, kind: FrameKind, body: bytes) -> Reply:
        """Send a request of another kind than WRITE, and wait for its answer."""
        if not self.is_open:
            return Reply(self.clock.now_ns(), None, CONNECTION_CLOSED)
        number = self.next_number()
        replied: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        try:
            self.send(number, encode_frame(kind, number, body), partial(_settle, replied))
            return await replied
        finally:
            self._forget(number)

    def close(self) -> None:
        """Close; requests under way end without an answer."""
        if self._socket is not None:
            self._socket.close()
        self._lost(CONNECTION_CLOSED)

    def _arrived(self, now_ns: int, frames: Sequence[Frame]) -> None:
        changes = []
        for frame in frames:
            if frame.kind == FrameKind.CHANGE:
                changes.append(Change(frame.body, frame.number))
            else:
                self._reply(frame.number, Reply(now_ns, frame))
        if changes:
            self.changes.put_nowait(ChangeBatch(now_ns, changes))

    def _reply(self, number: int, reply: Reply) -> None:
        done = self._forget(number)
        if done is not None:
            done(reply)

    def _forget(self, number: int) -> Callable[[Reply], None] | None:
        waiting = self._waiting.pop(number, None)
        if waiting is None:
            return None
        done, alarm = waiting
        alarm.cancel()
        return done

    def _lost(self, error: str) -> None:
        for number in list(self._waiting):
            self.give_up(number, error)
        self.changes.put_nowait(None)


class PendingWrite:
    """`PendingRequest` of a write; its token is the write's number within the trial."""

    __slots__ = ("_connection", "_data", "_done", "_number", "_reply", "_t1_ns")

    def __init__(self, connection: ReferenceConnection, request: Request) -> None:
        self._connection = connection
        self._number = connection.next_number()
        self._data = encode_write(self._number, request.key.encode(), request.value)
        self._done: Callable[[Result], None] | None = None
        self._t1_ns = 0
        self._reply: Reply | None = None

    def send(self, done: Callable[[Result], None]) -> None:
        """See `PendingRequest`."""
        if not self._connection.is_open:
            now_ns = self._connection.clock.now_ns()
            done(Result(now_ns, now_ns, Outcome.FAILED, error=CONNECTION_CLOSED))
            return
        self._done = done
        self._t1_ns = self._connection.send(self._number, self._data, self._finish)
        if self._reply is not None:  # the connection broke at the send
            self._finish(self._reply)

    def abandon(self) -> None:
        """See `PendingRequest`."""
        self._connection.give_up(self._number, NO_ANSWER)

    def _finish(self, reply: Reply) -> None:
        if not self._t1_ns:
            self._reply = reply
            return
        done, self._done = self._done, None
        if done is not None:
            done(_write_result(self._t1_ns, reply))


def _write_result(t1_ns: int, reply: Reply) -> Result:
    if reply.frame is None:
        return Result(t1_ns, reply.at_ns, Outcome.UNKNOWN, error=reply.error)
    text = reply.frame.body.decode("ascii", "replace")
    if reply.frame.kind != FrameKind.DONE:
        return Result(t1_ns, reply.at_ns, Outcome.FAILED, error=text)
    return Result(t1_ns, reply.at_ns, Outcome.OK, text)


class ReferenceDriver:
    """`Driver` and `Watchable` for one trial in a reference store."""

    def __init__(self, spec: TrialSpec, settings: Settings, clock: Clock) -> None:
        endpoint = spec.offered.target.endpoint or settings.reference_endpoint
        if not endpoint:
            remedy = "Give target.endpoint, or the stack's parameter ReferenceEndpoint."
            raise endpoint_error(None, "no reference store is known to this stack", remedy)
        self._endpoint = parse_endpoint(endpoint, ReferenceTarget.default_port)
        self._spec = spec
        self._clock = clock
        self._connection: ReferenceConnection | None = None

    async def open(self) -> None:
        """Connect, and see that the store answers."""
        await self.close()
        self._connection = await self._connect()

    async def close(self) -> None:
        """Close the writers' connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def prepare_request(self, request: Request) -> PendingRequest:
        """Return a WRITE; without an open connection it is FAILED when it is sent."""
        return PendingWrite(self._connection or ReferenceConnection(self._clock), request)

    async def prepare(self) -> None:
        """Tell the store how to treat the trial, and write the keys that updates overwrite."""
        target = self._spec.offered.target.model_dump(mode="json")
        async with self._control() as connection:
            await self._ask(connection, FrameKind.CONFIGURE, target=target, seed=self._spec.offered.seed)
            await preload_keys(self._spec, write_each(partial(PendingWrite, connection)), self._clock)

    async def ready(self) -> bool:
        """Return True: a trial is ready as soon as it is configured, so an answering store is ready."""
        async with self._control():
            return True

    async def tear_down(self) -> bool:
        """Remove the trial; its truth log stays with the store."""
        async with self._control() as connection:
            await self._ask(connection, FrameKind.REMOVE)
        return True

    def resource_names(self) -> tuple[str, ...]:
        """See `Driver`."""
        return (f"trial {self._spec.tag}",)

    async def provider(self) -> str:
        """Return the store's name and version: `reference store 0.1.0`."""
        async with self._control() as connection:
            return (await self._ask(connection, FrameKind.VERSION)).decode()

    async def status(self) -> tuple[int, int]:
        """Return how many deliveries are still due in the trial, and the position of the last one made."""
        async with self._control() as connection:
            answer = json.loads(await self._ask(connection, FrameKind.STATUS))
        return int(answer["pending"]), int(answer["position"])

    async def watch(self, from_position: int | None) -> AsyncGenerator[ChangeBatch, None]:
        """Yield the trial's deliveries in the order in which they are made; `from_position` has been seen."""
        async with self._control() as connection:
            await self._ask(connection, FrameKind.WATCH, after=from_position)
            yield ChangeBatch(self._clock.now_ns(), [])
            while (batch := await connection.changes.get()) is not None:
                yield batch
        message = f"{self._name} ended the watch on {self._spec.tag}"
        raise TargetUnavailableError(message)

    @property
    def _name(self) -> str:
        return f"the reference store at {self._endpoint.host}:{self._endpoint.port}"

    async def _connect(self) -> ReferenceConnection:
        connection = ReferenceConnection(self._clock)
        try:
            await connection.connect(self._endpoint)
            await self._ask(connection, FrameKind.VERSION)
        except OSError as error:
            connection.close()
            raise unavailable(self._name, error) from error
        except BaseException:
            connection.close()
            raise
        return connection

    @asynccontextmanager
    async def _control(self) -> AsyncIterator[ReferenceConnection]:
        """Have a connection for a block alone."""
        connection = await self._connect()
        try:
            yield connection
        finally:
            connection.close()

    async def _ask(self, connection: ReferenceConnection, kind: FrameKind, **question: Any) -> bytes:  # noqa: ANN401 -- JSON
        """Return the body of DONE. Raises TargetUnavailableError for anything else."""
        reply = await connection.ask(kind, json.dumps({"tag": self._spec.tag, **question}).encode())
        if reply.frame is not None and reply.frame.kind == FrameKind.DONE:
            return reply.frame.body
        reason = reply.error if reply.frame is None else reply.frame.body.decode("ascii", "replace")
        undone = f"{self._name} did not do {kind.name}"
        raise unavailable(undone, reason)


def _settle(replied: asyncio.Future[Reply], reply: Reply) -> None:
    """Give a future its reply, unless its caller was cancelled meanwhile."""
    if not replied.done():
        replied.set_result(reply)

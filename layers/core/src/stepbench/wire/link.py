"""
Connections that a driver keeps, and requests over them.

A driver hands a `Links` a function that connects, and gets for each of its clients a connection that is made before it
is needed, by one caller at a time, and made anew once it has ended. `LinkedRequest` is then the whole of a request that
is one piece of bytes and one answer; the store's own part is two functions, which connect and judge:

    self._links = Links(self._connect, self._clock)
    ...
    def prepare_request(self, request: Request) -> PendingRequest:
        link = self._links[request.client // self._spec.offered.writers]
        return LinkedRequest(link, encode(request), judge)

Clients are numbered over all writers, and client c is one of writer c mod writers; so the division numbers a writer's
own from 0, as `warm_up` does when it connects them. Where a plan reuses no connections, a
request makes one for itself.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from stepbench.errors import StepbenchError, TargetUnavailableError, TargetUnreachableError
from stepbench.model.errors import (
    CONNECTION_CLOSED,
    NO_ANSWER,
    TIMEOUT,
    WITHDRAWN,
    connect_error,
    driver_error,
    is_lasting,
)
from stepbench.model.request import Outcome, Result
from stepbench.wire.socket import OutgoingBytes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from stepbench.clock import Clock
    from stepbench.wire.answers import Judge, OnAnswer


class Closable(Protocol):
    """The part of a connection that a link needs."""

    @property
    def is_open(self) -> bool: ...  # noqa: D102 -- requests can be sent
    def close(self) -> None: ...  # noqa: D102 -- safe to call twice


KeyT = TypeVar("KeyT")
DataT = TypeVar("DataT")
DataT_contra = TypeVar("DataT_contra", contravariant=True)
AnswerT = TypeVar("AnswerT")
AnswerT_co = TypeVar("AnswerT_co", covariant=True)
ConnectionT = TypeVar("ConnectionT", bound=Closable)
ConnectionT_co = TypeVar("ConnectionT_co", bound=Closable, covariant=True)

_DIALLED_AT_ONCE = 32
OPEN_LIMIT_S = 60.0
"""The limit for all connections that are opened ahead; those not begun by then are opened when they are needed."""


class Link(Generic[ConnectionT_co]):
    """
    One connection, shared by whoever asks for it.

    connection: the one that was made last, which may have ended; None before there is one. clock: for requests' times.
    failure_text: why the last attempt to make one failed, in the words of the network or the server; "" if none has.
    failure_is_lasting: whether any other would fail, too, however long we waited.

    Args:
        connect: makes a connection, within a time of its own.
        clock: see above.
        describe: says why there is none, in few words that are the same each time.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[ConnectionT_co]],
        clock: Clock,
        describe: Callable[[BaseException], str] = connect_error,
    ) -> None:
        self.connection: ConnectionT_co | None = None
        self.clock = clock
        self._connect = connect
        self._describe = describe
        self._turn = asyncio.Lock()
        self.failure_text = ""
        self.failure_is_lasting = False
        self._failures = 0
        self._failure = ""
        self._is_closed = False

    def find(self) -> ConnectionT_co | None:
        """Return the open connection, if there is one; costs no time worth measuring."""
        connection = self.connection
        return connection if connection is not None and connection.is_open else None

    async def reach(self) -> ConnectionT_co | str:
        """
        Return an open connection, made if there is none, or why there can be none.

        All who wait for the same attempt share its failure: a host that has vanished would else fail one in 5 s. It is
        text, since an exception would hold frames that only the garbage collector frees, which is off under load.
        """
        connection, failures = self.find(), self._failures
        if connection is not None:
            return connection
        async with self._turn:
            if self._is_closed:
                return CONNECTION_CLOSED
            connection = self.find()
            if connection is not None:
                return connection
            if failures == self._failures:
                return await self._dial()
            return self._failure

    def close(self) -> None:
        """End the connection, and make no other; safe to call twice."""
        self._is_closed = True
        if self.connection is not None:
            self.connection.close()

    async def _dial(self) -> ConnectionT_co | str:
        try:
            connection = await self._connect()
        except (OSError, StepbenchError) as error:
            self._failures += 1
            self.failure_text = str(error) or type(error).__name__
            self.failure_is_lasting = isinstance(error, TargetUnreachableError) or is_lasting(error)
            self._failure = self._describe(error)
            return self._failure
        if self._is_closed:
            connection.close()
        self.connection = connection
        return connection


class Links(dict[KeyT, Link[ConnectionT]]):
    """
    A link for each key, such as a client's number, or a client and a node; it is not connected at first.

    Args:
        connect: makes a key's connection, within a time of its own.
        clock, describe: as `Link`'s.
    """

    def __init__(
        self,
        connect: Callable[[KeyT], Awaitable[ConnectionT]],
        clock: Clock,
        describe: Callable[[BaseException], str] = connect_error,
    ) -> None:
        super().__init__()
        self._connect = connect
        self._clock = clock
        self._describe = describe

    def __missing__(self, key: KeyT) -> Link[ConnectionT]:
        """Make a key's link when it is first asked for; all else is done by the dictionary, in no Python."""
        link = self[key] = Link(partial(self._connect, key), self._clock, self._describe)
        return link

    async def open(self, keys: Iterable[KeyT]) -> None:
        """
        Connect the links of some keys ahead of the load, 32 at a time. A server may let us have fewer than all.

        Raises:
            TargetUnavailableError: there is not one; why, in the words of the network or the server.
        """
        turns = asyncio.Semaphore(_DIALLED_AT_ONCE)

        until_s = asyncio.get_running_loop().time() + OPEN_LIMIT_S

        async def reach(link: Link[ConnectionT]) -> ConnectionT | str:
            async with turns:
                return TIMEOUT if asyncio.get_running_loop().time() > until_s else await link.reach()

        links = [self[key] for key in keys]
        reached = await asyncio.gather(*map(reach, links))
        if links and all(isinstance(each, str) for each in reached):
            kind = TargetUnreachableError if links[0].failure_is_lasting else TargetUnavailableError
            raise kind(links[0].failure_text or str(reached[0]))

    def close(self) -> None:
        """End all connections, and make no others; safe to call twice."""
        for link in self.values():
            link.close()


class AnsweringConnection(Closable, Protocol[DataT_contra, AnswerT_co]):
    """The part of its connection that a request needs; see `InOrderConnection`."""

    def send(self, request: DataT_contra, outgoing: OutgoingBytes, done: OnAnswer[AnswerT_co]) -> None: ...  # noqa: D102
    def withdraw(self, outgoing: OutgoingBytes) -> bool: ...  # noqa: D102


class LinkedRequest(OutgoingBytes, Generic[DataT, AnswerT]):
    """
    `PendingRequest` of one piece of data that gets one answer.

    Where the link has no connection when the request is due, one is made first, before t1; where none can be made, the
    request has FAILED, as nothing was sent.

    At 100 clients our CPU is what limits. A driver for which one Python call a request counts has a subclass with a
    constructor of its own, which sets all fields (`t1_ns` to 0, `_carrier` and `_done` to None), and a `_receive` that
    judges in place.

    _carrier: None until it is sent, then the connection, or the task that makes it. _done: called with the result; None
        before it is sent, and once that has happened.

    Args:
        link: over which.
        data: the request as it is sent. Over a connection that is there it is held until then and no longer, so that
            the next one's is put where it was, which is still in the processor's cache.
        judge: see `Judge`; it is called in the turn in which the answer came.
    """

    __slots__ = ("_carrier", "_data", "_done", "_judge", "_link")
    _data: DataT
    _carrier: AnsweringConnection[DataT, AnswerT] | asyncio.Task[None] | None
    _done: Callable[[Result], None] | None

    def __init__(self, link: Link[AnsweringConnection[DataT, AnswerT]], data: DataT, judge: Judge[AnswerT]) -> None:
        self.t1_ns = 0
        self._link = link
        self._data = data
        self._judge = judge
        self._carrier = None
        self._done = None

    def send(self, done: Callable[[Result], None]) -> None:
        """See `PendingRequest`."""
        connection = self._link.connection
        if connection is None or not connection.is_open:
            self._send_once_connected(done)
        else:
            self._done, self._carrier = done, connection
            data = self._data
            del self._data
            connection.send(data, self, self._receive)

    def abandon(self) -> None:
        """See `PendingRequest`."""
        done, self._done = self._done, None
        carrier = self._carrier
        if done is None or carrier is None:
            return
        now_ns = self._link.clock.now_ns()
        if carrier.cancel() if isinstance(carrier, asyncio.Task) else carrier.withdraw(self):
            done(Result(now_ns, now_ns, Outcome.FAILED, error=WITHDRAWN))
        else:
            done(Result(self.t1_ns or now_ns, now_ns, Outcome.UNKNOWN, error=NO_ANSWER))

    def _send_once_connected(self, done: Callable[[Result], None]) -> None:
        self._done = done
        self._carrier = asyncio.get_running_loop().create_task(self._connect_and_send())

    async def _connect_and_send(self) -> None:
        clock = self._link.clock
        started_ns = clock.now_ns()
        try:
            reached = await self._link.reach()
            if not isinstance(reached, str):
                self._carrier = reached
                reached.send(self._encode_for(reached), self, self._receive)
                return
        except Exception as error:  # noqa: BLE001 -- of the driver; it must not cost the other records
            reached = driver_error(error)
        done, self._done, self._carrier = self._done, None, None
        if done is not None:
            outcome = Outcome.UNKNOWN if self.t1_ns else Outcome.FAILED
            done(Result(self.t1_ns or started_ns, clock.now_ns(), outcome, error=reached))

    def _encode_for(self, connection: Any) -> DataT:  # noqa: ANN401, ARG002 -- the link's; a subclass has a use for it
        """Return what is sent over a connection that was made after the request was prepared."""
        return self._data

    def _receive(self, t2_ns: int, answer: Any, error: str) -> None:  # noqa: ANN401 -- an AnswerT unless there is an error
        done, self._done = self._done, None
        if done is None:
            return
        token = ""
        if error:
            outcome = Outcome.UNKNOWN if self.t1_ns else Outcome.FAILED
        else:
            try:
                outcome, token, error = self._judge(answer)
            except Exception as broken:  # noqa: BLE001 -- of the driver; it must not cost the other records
                outcome, error = Outcome.UNKNOWN, driver_error(broken)
        done(Result(self.t1_ns or t2_ns, t2_ns, outcome, token, error))

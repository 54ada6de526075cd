"""A connection to etcd that many share, made before it is used, and replaced after a fault; and calls over it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stepbench.drivers.etcd.answers import ABANDONED
from stepbench.model.errors import WITHDRAWN, ServerRefusalError
from stepbench.model.request import CoroutineRequest, Outcome, Result, WithdrawnError
from stepbench.wire.http2.grpc_answer import GrpcAnswer, GrpcStatus
from stepbench.wire.http2.grpc_connection import GrpcConnection
from stepbench.wire.link import Link

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from stepbench.drivers.etcd.cluster import EtcdCluster
    from stepbench.wire.addresses import AddressBook, Endpoint
    from stepbench.wire.http2.grpc_call import UnaryCall


RECONNECT_EVERY_NS = 10**9


def first_ready(channels: Sequence[ClientChannel], first: int) -> ClientChannel:
    """
    Return a channel that is connected, the one of that number if it is; if none is, one that may be.

    As etcd's own clients do, so that a member that is down costs the requests that it had, and no others. Channels to
    one and the same member have no use for it: the next request makes the connection anew, and says why it cannot.
    """
    chosen = channels[first % len(channels)]
    if chosen.is_alone or chosen.is_ready():
        return chosen
    others = [channels[(first + step) % len(channels)] for step in range(1, len(channels))]
    ready = next((each for each in others if each.is_ready()), None)
    return ready or next((each for each in (chosen, *others) if not each.is_down), chosen)


class ClientChannel(Link[GrpcConnection]):
    """The connection of some clients; when it breaks, it takes what is under way for all of them along."""

    def __init__(self, cluster: EtcdCluster, endpoint: Endpoint, addresses: AddressBook) -> None:
        super().__init__(self._connect_to_endpoint, cluster.clock)
        self._cluster = cluster
        self.endpoint = endpoint
        self.is_alone = len(cluster.endpoints) == 1
        self.is_down = False
        """The last attempt to connect has failed."""
        self._addresses = addresses
        self._users: dict[GrpcConnection, int] = {}
        """Requests that have started over a connection and not ended, many of more than one call."""
        self._retired: set[GrpcConnection] = set()
        self._reconnecting: asyncio.Task[GrpcConnection | str] | None = None
        self._next_attempt_ns = 0

    def is_ready(self) -> bool:
        """Return whether it is connected; where it is not, have it try that by itself, once a second."""
        if self.find() is not None:
            return True
        now_ns = self.clock.now_ns()
        if now_ns >= self._next_attempt_ns and (self._reconnecting is None or self._reconnecting.done()):
            self._next_attempt_ns = now_ns + RECONNECT_EVERY_NS
            self._reconnecting = asyncio.get_running_loop().create_task(self.reach())
        return False

    async def connected(self) -> GrpcConnection:
        """Return an open connection, a new one where there is none. Raises OSError."""
        reached = await self.reach()
        if isinstance(reached, str):
            raise ServerRefusalError(self.failure_text) if self.failure_is_lasting else ConnectionError(reached)
        return reached

    def acquire(self) -> GrpcConnection | None:
        """Return the open connection for a request's calls, if there is one; `release` follows."""
        connection = self.find()
        if connection is not None:
            self._users[connection] += 1
        return connection

    def release(self, connection: GrpcConnection) -> None:
        """Note that a request has ended, in whatever way."""
        self._users[connection] -= 1
        if self._retired:
            self._end_unused(connection)

    def retire(self, broken: GrpcConnection) -> None:
        """Have the next request make a new connection; the old one ends with the last request that uses it."""
        if self.connection is broken:
            self.connection = None
            self._retired.add(broken)
            self._end_unused(broken)

    async def perform(self, work: Callable[[GrpcConnection], Awaitable[Result]]) -> Result:
        """
        Perform a request over a connection that is made first if need be, before t1.

        Raises:
            WithdrawnError: it was cancelled before it had a connection.
        """
        started_ns = self.clock.now_ns()
        try:
            connection = await self.reach()
        except asyncio.CancelledError:
            withdrawn = Result(started_ns, self.clock.now_ns(), Outcome.FAILED, error=WITHDRAWN)
            raise WithdrawnError(withdrawn) from None
        if isinstance(connection, str):
            return Result(started_ns, self.clock.now_ns(), Outcome.FAILED, error=connection)
        self._users[connection] += 1
        try:
            result = await work(connection)
            if result.outcome is Outcome.UNKNOWN:
                self.retire(connection)
        finally:
            self.release(connection)
        return result

    def close(self) -> None:
        """End all connections; safe to call twice."""
        retired, self._retired = self._retired, set()
        if self._reconnecting is not None:
            self._reconnecting.cancel()
        super().close()
        for each in retired:
            each.close()

    def _end_unused(self, connection: GrpcConnection) -> None:
        if connection in self._retired and not self._users[connection]:
            self._retired.remove(connection)
            del self._users[connection]
            connection.close()

    async def _connect_to_endpoint(self) -> GrpcConnection:
        host, port = self.endpoint.host, self.endpoint.port
        self.is_down = True
        connection = await self._addresses.connect(host, port, self._dial_address)
        self.is_down = False
        if self.connection is not None:  # the server has ended it; what it still answers is awaited
            self.retire(self.connection)
        self._users[connection] = 0
        return connection

    async def _dial_address(self, address: str) -> GrpcConnection:
        return (await self._cluster.dial(self.endpoint, address)).connection


class ChannelCall:
    """
    `PendingRequest` of one call; where there is no connection when it is due, a task makes one first.

    Args:
        channel: over which.
        method: of gRPC.
        message: serialised.
        read: what the answer means.
    """

    __slots__ = ("_call", "_channel", "_connection", "_done", "_message", "_method", "_read", "_task")

    def __init__(
        self, channel: ClientChannel, method: str, message: bytes, read: Callable[[GrpcAnswer], Result]
    ) -> None:
        self._channel = channel
        self._method = method
        self._message = message
        self._read = read
        self._done: Callable[[Result], None] | None = None
        self._connection: GrpcConnection | None = None
        self._call: UnaryCall | None = None
        self._task: CoroutineRequest | None = None

    def send(self, done: Callable[[Result], None]) -> None:
        """See `PendingRequest`."""
        connection = self._channel.acquire()
        if connection is None:
            self._task = CoroutineRequest(self._perform, self._channel.clock)
            self._task.send(done)
            return
        self._done, self._connection = done, connection
        self._call = connection.call(self._method, self._message, self._answered)

    def abandon(self) -> None:
        """See `PendingRequest`."""
        if self._task is not None:
            self._task.abandon()
        elif self._call is not None:
            self._call.give_up(GrpcStatus.CANCELLED, ABANDONED)

    async def _perform(self) -> Result:
        return await self._channel.perform(self._call_and_wait)

    async def _call_and_wait(self, connection: GrpcConnection) -> Result:
        return self._read(await connection.call_and_wait(self._method, self._message))

    def _answered(self, answer: GrpcAnswer) -> None:
        done, connection = self._done, self._connection
        self._done = self._connection = None
        if done is None or connection is None:
            return
        result = self._read(answer)
        if result.outcome is Outcome.UNKNOWN:
            self._channel.retire(connection)
        self._channel.release(connection)
        done(result)

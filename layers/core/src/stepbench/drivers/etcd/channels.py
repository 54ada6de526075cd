"""A connection to etcd that many share, made before use, and replaced after a fault; calls over it; their results."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from stepbench.contracts.workload import Kind
from stepbench.drivers.etcd import etcd_pb2 as pb
from stepbench.model.errors import (
    CONNECTION_CLOSED,
    CONNECTION_RESET,
    GARBAGE,
    NO_ANSWER,
    NOT_FOUND,
    TIMEOUT,
    WITHDRAWN,
    ServerRefusalError,
)
from stepbench.model.pending import CoroutineRequest, WithdrawnError
from stepbench.model.request import Outcome, Result
from stepbench.wire.http2.grpc_answer import GrpcAnswer, GrpcStatus
from stepbench.wire.http2.grpc_connection import GrpcConnection
from stepbench.wire.link import Link

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from stepbench.drivers.access import AddressBook, Endpoint
    from stepbench.drivers.etcd.cluster import EtcdCluster
    from stepbench.model.request import Request
    from stepbench.wire.http2.grpc_call import UnaryCall
    from stepbench.workload.checks import RecordCheck


ABANDONED = "abandoned by the load generator"
_CONNECTION_ENDS = {
    CONNECTION_CLOSED: CONNECTION_CLOSED,
    CONNECTION_RESET: CONNECTION_RESET,
    "the connection has ended": CONNECTION_CLOSED,
    "the server said goodbye": CONNECTION_CLOSED,
    "no answer to a ping": TIMEOUT,
}
"""Why gRPC calls a call UNAVAILABLE that no server has answered, in the words of all drivers."""
_REFUSALS = frozenset(
    {
        # etcd checks these before it proposes the write to its peers, so the write has not happened.
        GrpcStatus.INVALID_ARGUMENT,  # request too large, empty key
        GrpcStatus.RESOURCE_EXHAUSTED,  # space quota exceeded, too many requests
        GrpcStatus.FAILED_PRECONDITION,
        GrpcStatus.PERMISSION_DENIED,
        GrpcStatus.UNAUTHENTICATED,
        GrpcStatus.UNIMPLEMENTED,
        GrpcStatus.NOT_FOUND,
        GrpcStatus.OUT_OF_RANGE,
    }
)


def read_outcome(answer: GrpcAnswer) -> Outcome:
    """
    Return what an answer says about a write.

    The server's UNAVAILABLE is UNKNOWN: a lost leader and etcd's own "request timed out" give it, and then the write
    may have been committed.
    """
    if answer.status is GrpcStatus.OK:
        return Outcome.OK
    is_refused = answer.is_untouched or (answer.is_answered and answer.status in _REFUSALS)
    return Outcome.FAILED if is_refused else Outcome.UNKNOWN


def read_error(answer: GrpcAnswer) -> str:
    """Return gRPC's name for an answer, "" for OK; where no server has answered, one of `model.errors`."""
    if answer.status is GrpcStatus.OK:
        return ""
    if answer.is_answered:
        return answer.status.name
    if answer.message == ABANDONED:
        return WITHDRAWN if answer.is_untouched else NO_ANSWER
    if answer.status is GrpcStatus.DEADLINE_EXCEEDED:
        return TIMEOUT
    return _CONNECTION_ENDS.get(answer.message, answer.status.name)


def write_result(answer: GrpcAnswer) -> Result:
    """
    Return the result of a Put, DeleteRange or Txn; the token is the revision that it made.

    Their answers begin with the same header, and nothing else of them is read. An OK with a body that is no protobuf is
    UNKNOWN: what it was about may have happened.
    """
    if answer.status is not GrpcStatus.OK:
        return Result(answer.t1_ns, answer.t2_ns, read_outcome(answer), error=read_error(answer))
    try:
        revision = pb.PutResponse.FromString(answer.data).header.revision
    except DecodeError:
        return Result(answer.t1_ns, answer.t2_ns, Outcome.UNKNOWN, error=GARBAGE)
    return Result(answer.t1_ns, answer.t2_ns, Outcome.OK, str(revision))


def range_result(check: RecordCheck, request: Request, answer: GrpcAnswer) -> Result:
    """Return the result of the Range that reads a request's record, or scans from it on."""
    outcome, error = read_outcome(answer), read_error(answer)
    try:
        if outcome is Outcome.OK:
            error = judge_range(check, request, pb.RangeResponse.FromString(answer.data))
            outcome = Outcome.FAILED if error else Outcome.OK
    except DecodeError:
        outcome, error = Outcome.UNKNOWN, GARBAGE
    return Result(answer.t1_ns, answer.t2_ns, outcome, error=error)


def judge_range(check: RecordCheck, request: Request, found: pb.RangeResponse) -> str:
    """Return the error of what was found, "" where it is right."""
    if not found.kvs:
        return NOT_FOUND
    if request.kind is Kind.SCAN:
        return check.scan(request, [(each.key.decode("utf-8", "replace"), each.value) for each in found.kvs])
    return check.read(request.key, found.kvs[0].value)


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
        dial = partial(self._cluster.dial, self.endpoint)
        connection = (await self._addresses.connect(host, port, dial)).connection
        self.is_down = False
        if self.connection is not None:  # the server has ended it; what it still answers is awaited
            self.retire(self.connection)
        self._users[connection] = 0
        return connection


class ChannelCall:
    """
    `PendingRequest` of one call; where there is no connection when it is due, a task makes one first.

    `method` is gRPC's, `message` serialised; `read` says what the answer means.
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
            self._task = CoroutineRequest(partial(self._channel.perform, self._call_and_wait), self._channel.clock)
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

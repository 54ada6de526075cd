"""A connection to etcd that many share, made before it is used, and replaced after a fault; and calls over it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Generic

from stepbench.drivers.etcd_cluster import ABANDONED
from stepbench.drivers.protocol import AnswerT, Outcome
from stepbench.errors import PlanError, TargetUnavailableError
from stepbench.wire.grpc_answer import GrpcAnswer, Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.drivers.addresses import Addresses, Endpoint
    from stepbench.drivers.etcd_cluster import EtcdCluster
    from stepbench.drivers.protocol import Made
    from stepbench.wire.grpc_call import Call
    from stepbench.wire.grpc_connection import GrpcConnection


async def locate(endpoint: Endpoint, addresses: Addresses) -> str:
    """
    Its address.

    Raises:
        OSError: it has none that may be asked.
    """
    try:
        return await addresses.of(endpoint.host, endpoint.port)
    except (TargetUnavailableError, PlanError) as error:
        raise ConnectionError(str(error)) from error


class Kept:
    """A connection; `users`: operations that have begun over it and not ended, many of more than one call."""

    __slots__ = ("connection", "users")

    def __init__(self, connection: GrpcConnection) -> None:
        self.connection = connection
        self.users = 0


class ClientChannel:
    """For some clients; a connection that breaks takes what is under way for all of them along."""

    def __init__(self, cluster: EtcdCluster, endpoint: Endpoint, addresses: Addresses) -> None:
        self._cluster = cluster
        self._endpoint = endpoint
        self._addresses = addresses
        self._kept: Kept | None = None
        self._turn = asyncio.Lock()
        self._failure: partial[OSError] | None = None
        self._replaced: set[Kept] = set()

    async def connected(self) -> GrpcConnection:
        """An open connection, a new one where there is none. Raises OSError."""
        kept = self._current()
        if kept is None:
            known = self._failure
            async with self._turn:
                kept = self._current() or await self._dial_unless_failed(known)
        return kept.connection

    async def enter(self) -> Kept:
        """As `connected`, for an operation from its first call to its last; `leave` follows. Raises OSError."""
        await self.connected()
        kept = self.enter_now()
        if kept is None:
            message = "the connection broke at once"
            raise ConnectionResetError(message)
        return kept

    def enter_now(self) -> Kept | None:
        """The same, if there is an open connection."""
        kept = self._current()
        if kept is not None:
            kept.users += 1
        return kept

    def leave(self, kept: Kept) -> None:
        """An operation has ended, in whatever way."""
        kept.users -= 1
        if kept.users == 0 and self._replaced:
            self._end_unused(kept)

    def replace(self, broken: Kept) -> None:
        """Have whoever comes next make a new one; the old one ends with the last operation that has entered it."""
        if self._kept is broken:
            self._kept = None
            self._replaced.add(broken)
            self._end_unused(broken)

    def close(self) -> None:
        """End all connections; safe to call twice."""
        last, self._kept = self._kept, None
        replaced, self._replaced = self._replaced, set()
        for each in (*replaced, *([] if last is None else [last])):
            each.connection.close()

    def _current(self) -> Kept | None:
        kept = self._kept
        return kept if kept is not None and kept.connection.is_open else None

    def _end_unused(self, kept: Kept) -> None:
        if kept.users == 0 and kept in self._replaced:
            self._replaced.remove(kept)
            kept.connection.close()

    async def _dial_unless_failed(self, known: partial[OSError] | None) -> Kept:
        """All who waited for a dial share its failure; a host that has vanished would else fail one in 5 s."""
        if self._failure is not None and self._failure is not known:
            raise self._failure()
        try:
            return await self._dial()
        except OSError as error:
            self._failure = partial(type(error), *error.args)  # not the error: it holds its frames, and they us
            raise

    async def _dial(self) -> Kept:
        address = await locate(self._endpoint, self._addresses)
        try:
            dialled = await self._cluster.dial(self._endpoint, address)
        except OSError:
            self._addresses.forget(self._endpoint.host, self._endpoint.port)
            raise
        if self._kept is not None:  # the server has ended it; what it still answers is awaited
            self.replace(self._kept)
        self._kept = Kept(dialled.connection)
        return self._kept


class MadeCall(Generic[AnswerT]):
    """
    `Made` of one call.

    Args:
        channel: over which.
        method: of gRPC.
        message: serialised.
        read: what the answer means.
        otherwise: how it is done where there is no connection when it is due.
    """

    __slots__ = ("_call", "_channel", "_done", "_kept", "_message", "_method", "_other", "_otherwise", "_read")

    def __init__(
        self,
        channel: ClientChannel,
        method: str,
        message: bytes,
        read: Callable[[GrpcAnswer], AnswerT],
        otherwise: Callable[[], Made[AnswerT]],
    ) -> None:
        self._channel = channel
        self._method = method
        self._message = message
        self._read = read
        self._otherwise = otherwise
        self._done: Callable[[AnswerT], None] | None = None
        self._kept: Kept | None = None
        self._call: Call | None = None
        self._other: Made[AnswerT] | None = None

    def send(self, done: Callable[[AnswerT], None]) -> None:
        """See `Made`."""
        kept = self._channel.enter_now()
        if kept is None:
            self._other = self._otherwise()
            self._other.send(done)
            return
        self._done, self._kept = done, kept
        self._call = kept.connection.call(self._method, self._message, self._answered)

    def abandon(self) -> None:
        """See `Made`."""
        if self._other is not None:
            self._other.abandon()
        elif self._call is not None:
            self._call.give_up(Status.CANCELLED, ABANDONED)

    def _answered(self, answer: GrpcAnswer) -> None:
        done, kept = self._done, self._kept
        self._done = self._kept = None
        if done is None or kept is None:
            return
        answered = self._read(answer)
        if answered.outcome is Outcome.UNKNOWN:
            self._channel.replace(kept)
        self._channel.leave(kept)
        done(answered)

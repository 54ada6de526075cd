"""
An etcd cluster as a driver reaches it: connections, calls, and what is done to it besides the load.

The client is ours (`wire.grpc_connection`), with a minimal proto that is the same on the wire (`etcd.proto`). For a put
of 900 bytes with 100 clients, grpc.aio took four times its CPU, and at one client twice the time.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from google.protobuf.message import DecodeError

from stepbench.drivers import etcd_pb2 as pb
from stepbench.drivers.addresses import Endpoint, endpoint_error, parse_endpoint, resolve
from stepbench.drivers.protocol import WITHDRAWN, Outcome
from stepbench.drivers.tasked import NO_ANSWER
from stepbench.errors import TargetUnavailableError
from stepbench.wire.grpc_answer import GrpcAnswer, Status
from stepbench.wire.grpc_connect import Connected, GrpcEndpoint, connect, tls_context
from stepbench.wire.grpc_connection import GrpcConnection, GrpcLimits

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.settings import Settings

RANGE, PUT, DELETE_RANGE, TXN = (f"/etcdserverpb.KV/{name}" for name in ("Range", "Put", "DeleteRange", "Txn"))
WATCH, STATUS = "/etcdserverpb.Watch/Watch", "/etcdserverpb.Maintenance/Status"
DEFAULT_PORT = 2379
TEAR_DOWN_TURN_S = 20.0
CONNECT_LIMIT_S = 5.0
ABANDONED = "abandoned by the load generator"
GARBAGE = "garbage-answer"
"""The error of an OK with a body that is none of ours: what it was about may have happened."""
_DELETED_AT_ONCE = 10_000


class EtcdLimits(NamedTuple):
    """
    How long things may take.

    write_s: then a write is UNKNOWN. control_s: the same for a call of preparing, watching and clearing up.
    ping_every_s, pong_within_s: a host that vanishes sends no RST, so a connection is pinged, and given up without an
        answer to that. etcd allows a ping every 5 s.
    """

    write_s: float = 10.0
    control_s: float = 10.0
    ping_every_s: float = 10.0
    pong_within_s: float = 5.0


DEFAULT_LIMITS = EtcdLimits()
_REFUSALS = frozenset(
    {
        # etcd checks these before it proposes the write to its peers, so the write has not happened.
        Status.INVALID_ARGUMENT,  # request too large, empty key
        Status.RESOURCE_EXHAUSTED,  # space quota exceeded, too many requests
        Status.FAILED_PRECONDITION,
        Status.PERMISSION_DENIED,
        Status.UNAUTHENTICATED,
        Status.UNIMPLEMENTED,
        Status.NOT_FOUND,
        Status.OUT_OF_RANGE,
    }
)


class CallError(Exception):
    """A call besides the load was not answered with OK."""

    def __init__(self, answer: GrpcAnswer) -> None:
        super().__init__(f"{answer.status.name}: {answer.message}")


def outcome_of(answer: GrpcAnswer) -> Outcome:
    """
    What an answer says about a write.

    The server's UNAVAILABLE is UNKNOWN: a lost leader and etcd's own "request timed out" give it, and then the write
    may have been committed.
    """
    if answer.status is Status.OK:
        return Outcome.OK
    is_refused = answer.is_untouched or (answer.is_answered and answer.status in _REFUSALS)
    return Outcome.FAILED if is_refused else Outcome.UNKNOWN


def error_of(answer: GrpcAnswer) -> str:
    """GRPC's name for it, "" for OK."""
    if answer.status is Status.OK:
        return ""
    if answer.message == ABANDONED and not answer.is_answered:
        return WITHDRAWN if answer.is_untouched else NO_ANSWER
    return answer.status.name


class EtcdCluster:
    """A trial's cluster; what is not load goes to its first endpoint."""

    def __init__(self, spec: TrialSpec, settings: Settings, clock: Clock, limits: EtcdLimits) -> None:
        endpoints = spec.plan.target.endpoint or settings.etcd_endpoint
        if not endpoints:
            remedy = "Give target.endpoint, or the stack's parameter EtcdEndpoint."
            raise endpoint_error(None, "no etcd is known to this stack", remedy)
        self.endpoints = [parse_endpoint(each.strip(), DEFAULT_PORT) for each in endpoints.split(",")]
        self._clock = clock
        self._limits = limits

    async def dial(
        self, endpoint: Endpoint, address: str, answer_s: float | None = None, *, passing: bool = False
    ) -> Connected:
        """
        A connection to an endpoint at its address.

        Args:
            endpoint: one of ours.
            address: numeric.
            answer_s: how long its calls take at most; as writes, if it is not given.
            passing: it serves one operation, and leaves nothing behind.

        Raises:
            OSError: nobody is there, or nobody whom we trust, or not in time.
        """
        limits, host = self._limits, endpoint.host
        authority = f"[{host}]:{endpoint.port}" if ":" in host else f"{host}:{endpoint.port}"
        waits = GrpcLimits(limits.write_s if answer_s is None else answer_s, limits.ping_every_s, limits.pong_within_s)
        tls = self._tls if endpoint.scheme == "https" else None
        asked = GrpcEndpoint(address, endpoint.port, authority, tls, host, CONNECT_LIMIT_S, waits, passing)
        return await connect(asked, self._clock)

    @asynccontextmanager
    async def control(self) -> AsyncIterator[GrpcConnection]:
        """A connection of its own to the first endpoint, which answers; errors of its calls are told as unavailable."""
        endpoint = self.endpoints[0]
        address = await resolve(endpoint)
        try:
            connection = (await self.dial(endpoint, address, self._limits.control_s)).connection
        except OSError as error:
            raise unavailable(endpoint, error) from error
        try:
            await ask(connection, STATUS, b"")
            yield connection
        except (CallError, DecodeError) as error:
            raise unavailable(endpoint, error) from error
        finally:
            connection.close()

    async def provider(self) -> str:
        """`etcd 3.5.1`. Raises TargetUnavailableError."""
        async with self.control() as connection:
            return f"etcd {pb.StatusResponse.FromString(await ask(connection, STATUS, b'')).version}"

    async def remove(self, prefix: bytes) -> bool:
        """Delete all keys that begin so in portions, for some 20 s a call; etcd keeps the history until it compacts."""
        deadline_ns = self._clock.now_ns() + int(TEAR_DOWN_TURN_S * 1e9)
        async with self.control() as connection:
            while self._clock.now_ns() < deadline_ns:
                listing = pb.RangeRequest(
                    key=prefix, range_end=end_of(prefix), limit=_DELETED_AT_ONCE, keys_only=True
                ).SerializeToString()
                answer = await ask(connection, RANGE, listing)
                keys = [entry.key for entry in pb.RangeResponse.FromString(answer).kvs]
                if not keys:
                    return True
                deletion = pb.DeleteRangeRequest(key=keys[0], range_end=keys[-1] + b"\0").SerializeToString()
                await ask(connection, DELETE_RANGE, deletion)
        return False

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return tls_context()


async def ask(connection: GrpcConnection, method: str, message: bytes) -> bytes:
    """
    One call besides the load.

    Raises:
        CallError: it was not answered with OK.
    """
    answer = await connection.ask(method, message)
    if answer.status is not Status.OK:
        raise CallError(answer)
    return answer.data


def end_of(prefix: bytes) -> bytes:
    """The first key after those that begin so: etcd's way to name a prefix."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def unavailable(endpoint: Endpoint, error: Exception) -> TargetUnavailableError:
    """The same, as control methods tell it."""
    reason = str(error) or type(error).__name__
    return TargetUnavailableError(f"etcd at {endpoint.host}:{endpoint.port}: {reason}")

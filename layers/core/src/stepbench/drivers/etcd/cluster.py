"""
An etcd cluster as a driver reaches it: connections, calls, and what is done to it besides the load.

The client is ours (`wire.http2`), with a minimal proto that is the same on the wire (`etcd.proto`). For a put
of 900 bytes with 100 clients, grpc.aio took four times its CPU, and at one client twice the time.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from google.protobuf.message import DecodeError

from stepbench.contracts.target import EtcdTarget
from stepbench.drivers import access
from stepbench.drivers.access import Endpoint, parse_endpoint, resolve
from stepbench.drivers.etcd import etcd_pb2 as pb
from stepbench.errors import TargetUnavailableError
from stepbench.model.errors import ServerRefusalError
from stepbench.wire.connect import ServerAddress
from stepbench.wire.http2.grpc_answer import GrpcAnswer, GrpcStatus
from stepbench.wire.http2.grpc_connection import (
    GrpcConnected,
    GrpcConnection,
    GrpcLimits,
    connect_grpc,
    http2_tls_context,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.settings import Settings

RANGE, PUT, DELETE_RANGE, TXN = (f"/etcdserverpb.KV/{name}" for name in ("Range", "Put", "DeleteRange", "Txn"))
WATCH, STATUS = "/etcdserverpb.Watch/Watch", "/etcdserverpb.Maintenance/Status"
TEAR_DOWN_TURN_S = 20.0
"""How long deleting may take in one call, and again compacting; the next call goes on."""
CONNECT_LIMIT_S = 5.0
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


_LASTING = frozenset(
    {
        GrpcStatus.INVALID_ARGUMENT,  # "user name is empty"
        GrpcStatus.PERMISSION_DENIED,
        GrpcStatus.UNAUTHENTICATED,
        GrpcStatus.UNIMPLEMENTED,
    }
)


class CallError(ServerRefusalError):
    """A call besides the load was not answered with OK."""

    def __init__(self, answer: GrpcAnswer) -> None:
        self.status = answer.status
        super().__init__(f"{answer.status.name}: {answer.message}")

    @property
    def is_lasting(self) -> bool:
        """Return whether waiting is of no use: the server wants to know who we are, or is no etcd."""
        return self.status in _LASTING


class EtcdCluster:
    """A trial's cluster; what is not load goes to the first endpoint that answers, and then to that one again."""

    def __init__(self, spec: TrialSpec, settings: Settings, clock: Clock, limits: EtcdLimits) -> None:
        endpoints = access.choose_endpoint(spec, settings.etcd_endpoint, "etcd")
        self.endpoints = [parse_endpoint(each.strip(), EtcdTarget.default_port) for each in endpoints.split(",")]
        self.clock = clock
        self._limits = limits
        self._answered: Endpoint | None = None

    async def dial(
        self, endpoint: Endpoint, address: str, answer_s: float | None = None, *, passing: bool = False
    ) -> GrpcConnected:
        """
        Connect to an endpoint at its address.

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
        server = ServerAddress(address, endpoint.port, tls, host, passing)
        return await connect_grpc(server, authority, self.clock, waits, connect_s=CONNECT_LIMIT_S)

    @asynccontextmanager
    async def control(self, endpoint: Endpoint | None = None) -> AsyncIterator[GrpcConnection]:
        """
        Have a connection to an endpoint, or to the first that answers; its calls' errors become TargetUnavailableError.

        Raises:
            TargetUnavailableError: that one does not answer, or none does.
        """
        # A frozen member before the one that answers would cost its time-out at every call.
        by_last_answer = sorted(self.endpoints, key=lambda each: each != self._answered)
        found, connection = await self._reach_first([endpoint] if endpoint else by_last_answer)
        try:
            yield connection
        except (CallError, DecodeError) as error:
            raise unavailable(found, error) from error
        finally:
            connection.close()

    async def _reach_first(self, endpoints: Sequence[Endpoint]) -> tuple[Endpoint, GrpcConnection]:
        failures = []
        for endpoint in endpoints:
            try:
                connection = await self._reach(endpoint)
            except TargetUnavailableError as error:
                failures.append(error)
            else:
                self._answered = endpoint
                return endpoint, connection
        raise failures[0]

    async def _reach(self, endpoint: Endpoint) -> GrpcConnection:
        address = await resolve(endpoint)
        try:
            connection = (await self.dial(endpoint, address, self._limits.control_s)).connection
        except OSError as error:
            raise unavailable(endpoint, error) from error
        try:
            await make_call(connection, STATUS, b"")
        except BaseException as error:
            connection.close()
            if isinstance(error, CallError):
                raise unavailable(endpoint, error) from error
            raise
        return connection

    async def provider(self) -> str:
        """Return the name and version, `etcd 3.5.1`, and how many members are used. Raises TargetUnavailableError."""
        count = len(self.endpoints)
        async with self.control() as connection:
            version = pb.StatusResponse.FromString(await make_call(connection, STATUS, b"")).version
        return f"etcd {version}" + (f" ({count} members)" if count > 1 else "")

    async def remove(self, prefix: bytes) -> bool:
        """Delete all keys that begin so in portions, for some 20 s a call; etcd keeps their history."""
        deadline_ns = self.clock.now_ns() + int(TEAR_DOWN_TURN_S * 1e9)
        async with self.control() as connection:
            while self.clock.now_ns() < deadline_ns:
                listing = pb.RangeRequest(
                    key=prefix, range_end=end_of(prefix), limit=_DELETED_AT_ONCE, keys_only=True
                ).SerializeToString()
                answer = await make_call(connection, RANGE, listing)
                keys = [entry.key for entry in pb.RangeResponse.FromString(answer).kvs]
                if not keys:
                    return True
                deletion = pb.DeleteRangeRequest(key=keys[0], range_end=keys[-1] + b"\0").SerializeToString()
                await make_call(connection, DELETE_RANGE, deletion)
        return False

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return http2_tls_context()


async def make_call(connection: GrpcConnection, method: str, message: bytes, limit_s: float | None = None) -> bytes:
    """
    Make a call besides the load, and return its answer's message.

    Raises:
        CallError: it was not answered with OK.
    """
    answer = await connection.call_and_wait(method, message, limit_s)
    if answer.status is not GrpcStatus.OK:
        raise CallError(answer)
    return answer.data


def end_of(prefix: bytes) -> bytes:
    """Return the first key after those with a prefix: etcd's way to name them."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def unavailable(endpoint: Endpoint, error: Exception) -> TargetUnavailableError:
    """Return an error of a call as what control methods raise."""
    return access.unavailable(f"etcd at {endpoint.host}:{endpoint.port}", error)

"""
An etcd cluster as a driver reaches it: channels, raw calls, and what is done to it besides the load.

The client is grpc.aio with a minimal proto that is the same on the wire (`etcd.proto`). On two cores, for a put of
900 bytes, grpc.aio takes 0.53 to 0.66 ms at p50 and 120 to 190 us of CPU; `stub.Put.future()` with
`call_soon_threadsafe` takes 0.82 to 0.96 ms and 170 to 240 us, since each answer crosses two threads.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
import grpc.aio

from stepbench.drivers import etcd_pb2 as pb
from stepbench.drivers.addresses import Endpoint, endpoint_error, parse_endpoint, resolve
from stepbench.drivers.protocol import Outcome
from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.settings import Settings

Channel = Any
"""grpc.aio's channels and calls: the stubs for them are of another age."""
_aio: Any = grpc.aio

DEFAULT_PORT = 2379
TEAR_DOWN_TURN_S = 20.0
_DELETED_AT_ONCE = 10_000
_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),  # a channel is a connection of its own
    ("grpc.enable_retries", 0),  # a refusal is a result, not something to hide in a latency
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
)


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
        grpc.StatusCode.INVALID_ARGUMENT,  # request too large, empty key
        grpc.StatusCode.RESOURCE_EXHAUSTED,  # space quota exceeded, too many requests
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.OUT_OF_RANGE,
    }
)


def outcome_of(code: grpc.StatusCode) -> Outcome:
    """
    What a gRPC status says about a write.

    UNAVAILABLE is UNKNOWN although it covers a refused connection: it is also what a broken connection, a lost
    leader and etcd's own "request timed out" give, and then the write may have been committed.
    """
    return Outcome.FAILED if code in _REFUSALS else Outcome.UNKNOWN


class EtcdCluster:
    """A trial's cluster; what is not load goes to its first endpoint."""

    def __init__(self, spec: TrialSpec, settings: Settings, limits: EtcdLimits) -> None:
        endpoints = spec.plan.target.endpoint or settings.etcd_endpoint
        if not endpoints:
            remedy = "Give target.endpoint, or the stack's parameter EtcdEndpoint."
            raise endpoint_error(None, "no etcd is known to this stack", remedy)
        self.endpoints = [parse_endpoint(each.strip(), DEFAULT_PORT) for each in endpoints.split(",")]
        self._limits = limits

    async def open(self, number: int) -> Channel:
        """A channel to one of the endpoints, by turns, that has been seen to answer; see `connect`."""
        endpoint = self.endpoints[number % len(self.endpoints)]
        channel = await connect(endpoint, self._limits)
        try:
            await _status(channel, endpoint, self._limits.control_s)
        except BaseException:
            await channel.close()
            raise
        return channel

    @asynccontextmanager
    async def control(self) -> AsyncIterator[Channel]:
        """A connection of its own to the first endpoint; gRPC's errors in it say that the target is unavailable."""
        channel = await self.open(0)
        try:
            yield channel
        except grpc.aio.AioRpcError as error:
            raise _unavailable(self.endpoints[0], error) from error
        finally:
            await channel.close()

    async def provider(self) -> str:
        """`etcd 3.5.1`. Raises TargetUnavailableError."""
        async with self.control() as channel:
            return f"etcd {await _status(channel, self.endpoints[0], self._limits.control_s)}"

    async def remove(self, prefix: bytes, clock: Clock) -> bool:
        """Delete all keys that begin so in portions, for some 20 s a call; etcd keeps the history until it compacts."""
        deadline_ns = clock.now_ns() + int(TEAR_DOWN_TURN_S * 1e9)
        async with self.control() as channel:
            while clock.now_ns() < deadline_ns:
                listing = pb.RangeRequest(
                    key=prefix, range_end=end_of(prefix), limit=_DELETED_AT_ONCE, keys_only=True
                ).SerializeToString()
                answer = await unary(channel, "KV/Range")(listing, timeout=self._limits.control_s)
                keys = [entry.key for entry in pb.RangeResponse.FromString(answer).kvs]
                if not keys:
                    return True
                deletion = pb.DeleteRangeRequest(key=keys[0], range_end=keys[-1] + b"\0").SerializeToString()
                await unary(channel, "KV/DeleteRange")(deletion, timeout=self._limits.control_s)
        return False


def end_of(prefix: bytes) -> bytes:
    """The first key after those that begin so: etcd's way to name a prefix."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


async def connect(endpoint: Endpoint, limits: EtcdLimits) -> Channel:
    """A channel, which connects with its first call. Raises TargetUnavailableError: the name has no address now."""
    return channel_to(endpoint, await resolve(endpoint), limits)


def channel_to(endpoint: Endpoint, host: str, limits: EtcdLimits) -> Channel:
    """As `connect`, to an endpoint whose address, `host`, is known."""
    address = f"[{host}]:{endpoint.port}" if ":" in host else f"{host}:{endpoint.port}"
    options: tuple[tuple[str, object], ...] = (
        *_OPTIONS,
        ("grpc.keepalive_time_ms", round(limits.ping_every_s * 1e3)),
        ("grpc.keepalive_timeout_ms", round(limits.pong_within_s * 1e3)),
        ("grpc.http2.ping_timeout_ms", round(limits.pong_within_s * 1e3)),  # else 60 s, whatever the one above says
        ("grpc.http2.max_pings_without_data", 0),  # else an idle watch is pinged once a minute after two pings
    )
    if endpoint.scheme != "https":
        return _aio.insecure_channel(address, options=options)
    options = (*options, ("grpc.ssl_target_name_override", endpoint.host))
    return _aio.secure_channel(address, grpc.ssl_channel_credentials(), options=options)


def unary(channel: Channel, method: str) -> Any:  # noqa: ANN401 -- as `Channel`
    """A call from bytes to bytes, so that times can be stamped after serialising and before parsing."""
    return channel.unary_unary(f"/etcdserverpb.{method}")


async def _status(channel: Channel, endpoint: Endpoint, limit_s: float) -> str:
    """The member's version; also the proof that it answers."""
    try:
        raw = await unary(channel, "Maintenance/Status")(pb.StatusRequest().SerializeToString(), timeout=limit_s)
    except grpc.aio.AioRpcError as error:
        raise _unavailable(endpoint, error) from error
    return str(pb.StatusResponse.FromString(raw).version)


def _unavailable(endpoint: Endpoint, error: grpc.aio.AioRpcError) -> TargetUnavailableError:
    message = f"etcd at {endpoint.host}:{endpoint.port}: {error.code().name}: {error.details()}"
    return TargetUnavailableError(message)

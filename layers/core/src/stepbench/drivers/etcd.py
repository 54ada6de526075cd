"""
etcd: writes are Puts, changes come from a Watch on the trial's prefix `<tag>/`.

The Watch's range of keys is the filter: events that it is to hold back have keys with another head, outside the range.

The client is grpc.aio with a minimal proto that is the same on the wire (`etcd.proto`). On two cores, for a put of
900 bytes, grpc.aio takes 0.53 to 0.66 ms at p50 and 120 to 190 us of CPU; `stub.Put.future()` with
`call_soon_threadsafe` takes 0.82 to 0.96 ms and 170 to 240 us, since each answer crosses two threads.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
import grpc.aio

from stepbench.contracts.identity import matching_head
from stepbench.drivers import etcd_pb2 as pb
from stepbench.drivers.addresses import Endpoint, endpoint_error, parse_endpoint, resolve
from stepbench.drivers.preload import preloads
from stepbench.drivers.protocol import Change, ChangeBatch, Outcome, Write, Written
from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.settings import Settings

Channel = Any
"""grpc.aio's channels and calls: the stubs for them are of another age."""
_aio: Any = grpc.aio

DEFAULT_PORT = 2379
TEAR_DOWN_TURN_S = 20.0
_PRELOADS_IN_FLIGHT = 64
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


_DEFAULT_LIMITS = EtcdLimits()
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


class EtcdDriver:
    """One trial's keys in an etcd cluster; its endpoints are used in turn for writes, the first one for the rest."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, limits: EtcdLimits = _DEFAULT_LIMITS
    ) -> None:
        endpoints = spec.plan.target.endpoint or settings.etcd_endpoint
        if not endpoints:
            remedy = "Give target.endpoint, or the stack's parameter EtcdEndpoint."
            raise endpoint_error(None, "no etcd is known to this stack", remedy)
        self._endpoints = [parse_endpoint(each.strip(), DEFAULT_PORT) for each in endpoints.split(",")]
        self._spec = spec
        self._clock = clock
        self._limits = limits
        self._watched = matching_head(spec.tag).encode()
        self._everything = spec.tag.encode()
        self._channels: list[Channel] = []
        self._deletes = spec.plan.record.operation == "delete"
        self._next_put: cycle[Any] = cycle(())
        self._next_delete: cycle[Any] = cycle(())

    async def open(self) -> None:
        """Connect to every endpoint and see that it answers."""
        await self.close()
        for endpoint in self._endpoints:
            channel = await _connect(endpoint, self._limits)
            self._channels.append(channel)
            await _status(channel, endpoint, self._limits.control_s)
        self._next_put = cycle([_unary(channel, "KV/Put") for channel in self._channels])
        self._next_delete = cycle([_unary(channel, "KV/DeleteRange") for channel in self._channels])

    async def close(self) -> None:
        """Close the writers' connections."""
        channels, self._channels = self._channels, []
        self._next_put = self._next_delete = cycle(())
        for channel in channels:
            await channel.close()

    async def write(self, write: Write) -> Written:
        """Put or delete; the token is the revision that it made."""
        if write.delete:
            call, request = next(self._next_delete), pb.DeleteRangeRequest(key=write.key.encode()).SerializeToString()
        else:
            call = next(self._next_put)
            request = pb.PutRequest(key=write.key.encode(), value=write.value).SerializeToString()
        t1_ns = self._clock.now_ns()
        try:
            answer = await call(request, timeout=self._limits.write_s)
        except grpc.aio.AioRpcError as error:
            return Written(t1_ns, self._clock.now_ns(), outcome_of(error.code()), error=error.code().name)
        t2_ns = self._clock.now_ns()
        # Both answers begin with the same header, and nothing else of them is read.
        revision = pb.PutResponse.FromString(answer).header.revision
        return Written(t1_ns, t2_ns, Outcome.OK, str(revision))

    async def prepare(self) -> None:
        """Put the keys that updates overwrite and deletes remove; a cluster needs nothing else."""
        async with self._control() as channel:
            put = _unary(channel, "KV/Put")
            writes = preloads(self._spec)
            while portion := list(islice(writes, _PRELOADS_IN_FLIGHT)):
                puts = [pb.PutRequest(key=each.key.encode(), value=each.value) for each in portion]
                requests = [each.SerializeToString() for each in puts]
                await asyncio.gather(*(put(request, timeout=self._limits.control_s) for request in requests))

    async def ready(self) -> bool:
        """A Watch is active as soon as it is asked for, so an answering cluster is ready."""
        async with self._control():
            return True

    async def tear_down(self) -> bool:
        """Delete all keys of the trial in portions, for some 20 s a call; etcd keeps the history until it compacts."""
        deadline_ns = self._clock.now_ns() + int(TEAR_DOWN_TURN_S * 1e9)
        async with self._control() as channel:
            while self._clock.now_ns() < deadline_ns:
                listing = pb.RangeRequest(
                    key=self._everything, range_end=_end(self._everything), limit=_DELETED_AT_ONCE, keys_only=True
                )
                answer = await _unary(channel, "KV/Range")(listing.SerializeToString(), timeout=self._limits.control_s)
                keys = [entry.key for entry in pb.RangeResponse.FromString(answer).kvs]
                if not keys:
                    return True
                deletion = pb.DeleteRangeRequest(key=keys[0], range_end=keys[-1] + b"\0")
                await _unary(channel, "KV/DeleteRange")(deletion.SerializeToString(), timeout=self._limits.control_s)
        return False

    async def provider(self) -> str:
        """`etcd 3.5.1`."""
        async with self._control() as channel:
            return f"etcd {await _status(channel, self._endpoints[0], self._limits.control_s)}"

    async def watch(self, from_position: int | None) -> AsyncGenerator[ChangeBatch, None]:
        """
        Puts below the prefix, or deletions in a trial of those, in order of revision.

        Positions are revisions, and `from_position` has been seen.
        """
        create = pb.WatchCreateRequest(
            key=self._watched,
            range_end=_end(self._watched),
            start_revision=0 if from_position is None else from_position + 1,
            filters=[pb.WatchCreateRequest.NOPUT if self._deletes else pb.WatchCreateRequest.NODELETE],
        )
        async with self._control() as channel:
            call = channel.stream_stream("/etcdserverpb.Watch/Watch")()
            await call.write(pb.WatchRequest(create_request=create).SerializeToString())
            arrived: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue()
            pump = asyncio.create_task(_pump(call, self._clock, arrived))
            try:
                while (stamped := await arrived.get()) is not None:
                    batch = parse_watch(*stamped)
                    if batch is not None:
                        yield batch
                await pump
            finally:
                pump.cancel()
                call.cancel()
        message = f"etcd at {self._endpoints[0].host} ended the watch on {self._spec.tag}/"
        raise TargetUnavailableError(message)

    @asynccontextmanager
    async def _control(self) -> AsyncIterator[Channel]:
        """A connection of its own to the first endpoint; gRPC's errors in it say that the target is unavailable."""
        endpoint = self._endpoints[0]
        channel = await _connect(endpoint, self._limits)
        try:
            await _status(channel, endpoint, self._limits.control_s)
            yield channel
        except grpc.aio.AioRpcError as error:
            raise _unavailable(endpoint, error) from error
        finally:
            await channel.close()


def _end(prefix: bytes) -> bytes:
    """The first key after those that begin so: etcd's way to name a prefix."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


async def _pump(call: Channel, clock: Clock, arrived: asyncio.Queue[tuple[int, bytes] | None]) -> None:
    """Stamp answers as they come, however long whoever takes the batches is busy with the one before; None ends."""
    try:
        while (raw := await call.read()) is not _aio.EOF:
            arrived.put_nowait((clock.now_ns(), raw))
    finally:
        arrived.put_nowait(None)


def parse_watch(t4_ns: int, raw: bytes) -> ChangeBatch | None:
    """
    The batch in one answer: empty when it says that the watch is made, None for an answer without news.

    Raises:
        TargetUnavailableError: the server has cancelled the watch; it names the compacted revision if that is why.
    """
    answer = pb.WatchResponse.FromString(raw)
    if answer.canceled:
        reason = answer.cancel_reason or "no reason given"
        if answer.compact_revision:
            reason = f"{reason} (compacted up to revision {answer.compact_revision})"
        message = f"etcd cancelled the watch: {reason}"
        raise TargetUnavailableError(message)
    changes = [
        Change(event.kv.key if event.type == pb.Event.DELETE else event.kv.value, event.kv.mod_revision)
        for event in answer.events
    ]
    return ChangeBatch(t4_ns, changes) if changes or answer.created else None


async def _connect(endpoint: Endpoint, limits: EtcdLimits) -> Channel:
    host = await resolve(endpoint)
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


def _unary(channel: Channel, method: str) -> Any:  # noqa: ANN401 -- as `Channel`
    """A call from bytes to bytes, so that times can be stamped after serialising and before parsing."""
    return channel.unary_unary(f"/etcdserverpb.{method}")


async def _status(channel: Channel, endpoint: Endpoint, limit_s: float) -> str:
    """The member's version; also the proof that it answers."""
    try:
        raw = await _unary(channel, "Maintenance/Status")(pb.StatusRequest().SerializeToString(), timeout=limit_s)
    except grpc.aio.AioRpcError as error:
        raise _unavailable(endpoint, error) from error
    return str(pb.StatusResponse.FromString(raw).version)


def _unavailable(endpoint: Endpoint, error: grpc.aio.AioRpcError) -> TargetUnavailableError:
    message = f"etcd at {endpoint.host}:{endpoint.port}: {error.code().name}: {error.details()}"
    return TargetUnavailableError(message)

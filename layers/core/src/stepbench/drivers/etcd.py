"""
etcd: writes are Puts, changes come from a Watch on the trial's prefix `<tag>/`.

The Watch's range of keys is the filter: events that it is to hold back have keys with another head, outside the range.
"""

from __future__ import annotations

import asyncio
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from stepbench.contracts.identity import matching_head
from stepbench.drivers import etcd_pb2 as pb
from stepbench.drivers.etcd_cluster import (
    DEFAULT_LIMITS,
    Channel,
    EtcdCluster,
    EtcdLimits,
    end_of,
    outcome_of,
    unary,
)
from stepbench.drivers.preload import preloads
from stepbench.drivers.protocol import Change, ChangeBatch, Outcome, Write, Written
from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.settings import Settings

_aio: Any = grpc.aio
_PRELOADS_IN_FLIGHT = 64


class EtcdDriver:
    """One trial's keys in an etcd cluster; its endpoints are used in turn for writes, the first one for the rest."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, limits: EtcdLimits = DEFAULT_LIMITS
    ) -> None:
        self._cluster = EtcdCluster(spec, settings, limits)
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
        for number in range(len(self._cluster.endpoints)):
            self._channels.append(await self._cluster.open(number))
        self._next_put = cycle([unary(channel, "KV/Put") for channel in self._channels])
        self._next_delete = cycle([unary(channel, "KV/DeleteRange") for channel in self._channels])

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
        async with self._cluster.control() as channel:
            put = unary(channel, "KV/Put")
            writes = preloads(self._spec)
            while portion := list(islice(writes, _PRELOADS_IN_FLIGHT)):
                puts = [pb.PutRequest(key=each.key.encode(), value=each.value) for each in portion]
                requests = [each.SerializeToString() for each in puts]
                await asyncio.gather(*(put(request, timeout=self._limits.control_s) for request in requests))

    async def ready(self) -> bool:
        """A Watch is active as soon as it is asked for, so an answering cluster is ready."""
        async with self._cluster.control():
            return True

    async def tear_down(self) -> bool:
        """Delete all keys of the trial in portions, for some 20 s a call; etcd keeps the history until it compacts."""
        return await self._cluster.remove(self._everything, self._clock)

    async def provider(self) -> str:
        """`etcd 3.5.1`."""
        return await self._cluster.provider()

    async def watch(self, from_position: int | None) -> AsyncGenerator[ChangeBatch, None]:
        """
        Puts below the prefix, or deletions in a trial of those, in order of revision.

        Positions are revisions, and `from_position` has been seen.
        """
        create = pb.WatchCreateRequest(
            key=self._watched,
            range_end=end_of(self._watched),
            start_revision=0 if from_position is None else from_position + 1,
            filters=[pb.WatchCreateRequest.NOPUT if self._deletes else pb.WatchCreateRequest.NODELETE],
        )
        async with self._cluster.control() as channel:
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
        message = f"etcd at {self._cluster.endpoints[0].host} ended the watch on {self._spec.tag}/"
        raise TargetUnavailableError(message)


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

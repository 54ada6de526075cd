"""
etcd: writes are Puts, changes come from a Watch on the trial's prefix `<tag>/`.

The Watch's range of keys is the filter: events that it is to hold back have keys with another head, outside the range.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from stepbench.contracts.identity import matching_head
from stepbench.contracts.workload import Kind
from stepbench.drivers.etcd import etcd_pb2 as pb
from stepbench.drivers.etcd.channels import ChannelCall, ClientChannel, first_ready, write_result
from stepbench.drivers.etcd.cluster import DELETE_RANGE, PUT, STATUS, WATCH, CallError, end_of, make_call, unavailable
from stepbench.drivers.etcd.store import PRELOAD_LANES, EtcdStore, Preloading
from stepbench.drivers.preload import preload_keys
from stepbench.errors import TargetUnavailableError
from stepbench.model.request import Change, ChangeBatch
from stepbench.wire.http2.grpc_answer import GrpcAnswer, GrpcStatus

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from stepbench.model.request import PendingRequest, Request
    from stepbench.workload.values import PreparedValues


class EtcdDriver(EtcdStore):
    """`Driver` and `Watchable` for one trial's keys; the endpoints that are connected are used in turn for writes."""

    _turns: count[int] = count()
    _values: PreparedValues | None = None

    def use_values(self, values: PreparedValues) -> None:
        """See `TakesValues`."""
        self._values = values

    async def open(self) -> None:
        """Connect to every endpoint and see that one answers."""
        await self.close()
        endpoints = self._cluster.endpoints
        for endpoint in endpoints:
            await self._addresses.find(endpoint.host, endpoint.port)
        self._channels = [ClientChannel(self._cluster, endpoint, self._addresses) for endpoint in endpoints]
        self._turns = count()
        failures = []
        for channel in self._channels:
            try:
                await make_call(await channel.connected(), STATUS, b"")
            except OSError as error:
                failures.append(error)
        if len(failures) == len(endpoints):
            await self.close()
            raise unavailable(endpoints[0], failures[0]) from failures[0]

    async def prepare(self) -> None:
        """Put the keys that updates overwrite and deletes remove; a cluster needs nothing else."""
        record = self._spec.offered.record
        async with self._cluster.control() as connection:
            preloading = Preloading(connection, record.key_bytes + record.largest_value_bytes)
            write, batch = preloading.write, preloading.batch
            await preload_keys(self._spec, write, self._clock, batch=batch, lanes=PRELOAD_LANES, values=self._values)

    def prepare_request(self, request: Request) -> PendingRequest:
        """Return a Put or a deletion; the token is the revision that it makes."""
        key = request.key.encode()
        if request.kind is Kind.DELETE:
            method, message = DELETE_RANGE, pb.DeleteRangeRequest(key=key).SerializeToString()
        else:
            method, message = PUT, pb.PutRequest(key=key, value=request.value).SerializeToString()
        return ChannelCall(first_ready(self._channels, next(self._turns)), method, message, write_result)

    async def watch(self, from_position: int | None) -> AsyncGenerator[ChangeBatch, None]:
        """
        Yield puts below the prefix, or deletions in a trial of those, in order of revision.

        Positions are revisions, and `from_position` has been seen. Answers are stamped when they arrive, however long
        the watcher is busy with the batch before.
        """
        watched = matching_head(self._spec.tag).encode()
        record = self._spec.offered.record
        deletes = record.operation == "delete"
        create = pb.WatchCreateRequest(
            key=watched,
            range_end=end_of(watched),
            start_revision=0 if from_position is None else from_position + 1,
            filters=[pb.WatchCreateRequest.NOPUT if deletes else pb.WatchCreateRequest.NODELETE],
        )
        question = pb.WatchRequest(create_request=create).SerializeToString()
        arrived: asyncio.Queue[tuple[int, bytes] | GrpcAnswer] = asyncio.Queue()
        async with self._cluster.control() as connection:
            watching = connection.subscribe(
                WATCH, question, lambda t4_ns, raw: arrived.put_nowait((t4_ns, raw)), arrived.put_nowait
            )
            try:
                while not isinstance(stamped := await arrived.get(), GrpcAnswer):
                    batch = parse_watch(*stamped, by_key=record.values is not None)
                    if batch is not None:
                        yield batch
            finally:
                watching.give_up(GrpcStatus.CANCELLED, "the watcher has seen enough")
            if stamped.status is not GrpcStatus.OK:
                raise CallError(stamped)
        message = f"etcd at {self._cluster.endpoints[0].host} ended the watch on {self._spec.tag}/"
        raise TargetUnavailableError(message)


def parse_watch(t4_ns: int, raw: bytes, *, by_key: bool = False) -> ChangeBatch | None:
    """
    Return the batch in one answer: empty when it says that the watch is made, None for an answer without news.

    by_key: events are named by their keys, since the values are the user's own.

    Raises:
        TargetUnavailableError: the server has cancelled the watch, and names the compacted revision if that is why; or
            this is no answer to a watch.
    """
    try:
        answer = pb.WatchResponse.FromString(raw)
    except DecodeError as error:
        message = f"etcd's answer to the watch cannot be read: {error}"
        raise TargetUnavailableError(message) from error
    if answer.canceled:
        reason = answer.cancel_reason or "no reason given"
        if answer.compact_revision:
            reason = f"{reason} (compacted up to revision {answer.compact_revision})"
        message = f"etcd cancelled the watch: {reason}"
        raise TargetUnavailableError(message)
    changes = [
        Change(event.kv.key if by_key or event.type == pb.Event.DELETE else event.kv.value, event.kv.mod_revision)
        for event in answer.events
    ]
    return ChangeBatch(t4_ns, changes) if changes or answer.created else None

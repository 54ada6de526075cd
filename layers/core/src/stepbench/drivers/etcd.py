"""
etcd: writes are Puts, changes come from a Watch on the trial's prefix `<tag>/`.

The Watch's range of keys is the filter: events that it is to hold back have keys with another head, outside the range.
"""

from __future__ import annotations

import asyncio
from itertools import cycle, islice
from typing import TYPE_CHECKING, cast

from google.protobuf.message import DecodeError

from stepbench.contracts.identity import matching_head
from stepbench.drivers import etcd_pb2 as pb
from stepbench.drivers.addresses import Addresses
from stepbench.drivers.etcd_channels import ClientChannel, MadeCall
from stepbench.drivers.etcd_cluster import (
    DEFAULT_LIMITS,
    DELETE_RANGE,
    GARBAGE,
    PUT,
    STATUS,
    WATCH,
    CallError,
    EtcdCluster,
    EtcdLimits,
    ask,
    end_of,
    error_of,
    outcome_of,
    unavailable,
)
from stepbench.drivers.preload import preloads
from stepbench.drivers.protocol import WITHDRAWN, Change, ChangeBatch, Outcome, WithdrawnError, Write, Written
from stepbench.drivers.tasked import Tasked
from stepbench.errors import TargetUnavailableError
from stepbench.wire.grpc_answer import GrpcAnswer, Status

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Made
    from stepbench.settings import Settings

_PRELOADS_IN_FLIGHT = 64


class EtcdDriver:
    """One trial's keys in an etcd cluster; its endpoints are used in turn for writes, the first one for the rest."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, limits: EtcdLimits = DEFAULT_LIMITS
    ) -> None:
        self._cluster = EtcdCluster(spec, settings, clock, limits)
        self._spec = spec
        self._clock = clock
        self._watched = matching_head(spec.tag).encode()
        self._everything = spec.tag.encode()
        self._deletes = spec.plan.record.operation == "delete"
        self._addresses = Addresses()
        self._channels: list[ClientChannel] = []
        self._next_channel: cycle[ClientChannel] = cycle(())

    async def open(self) -> None:
        """Connect to every endpoint and see that it answers."""
        await self.close()
        for endpoint in self._cluster.endpoints:
            channel = ClientChannel(self._cluster, endpoint, self._addresses)
            self._channels.append(channel)
            try:
                await ask(await channel.connected(), STATUS, b"")
            except (OSError, CallError) as error:
                await self.close()
                raise unavailable(endpoint, error) from error
        self._next_channel = cycle(self._channels)

    async def close(self) -> None:
        """Close the writers' connections."""
        channels, self._channels = self._channels, []
        self._next_channel = cycle(())
        for channel in channels:
            channel.close()

    def make(self, write: Write) -> Made[Written]:
        """Put or delete; the token is the revision that it made."""
        channel = next(self._next_channel)
        method, message = _request(write)
        return MadeCall(channel, method, message, _written, lambda: self._tasked(channel, method, message))

    async def write(self, write: Write) -> Written:
        """The same, for whoever waits."""
        return await self._offer(next(self._next_channel), *_request(write))

    def _tasked(self, channel: ClientChannel, method: str, message: bytes) -> Made[Written]:
        tasked = Tasked(lambda: self._offer(channel, method, message), self._clock)
        return cast("Made[Written]", tasked)  # when we break our contract, it says so with an `Operated`

    async def _offer(self, channel: ClientChannel, method: str, message: bytes) -> Written:
        """Over a connection that is made first if need be, before t1."""
        began_ns = self._clock.now_ns()
        try:
            kept = await channel.enter()
        except OSError as error:
            reason = f"connect: {type(error).__name__}"
            return Written(began_ns, self._clock.now_ns(), Outcome.FAILED, error=reason)
        except asyncio.CancelledError:
            withdrawn = Written(began_ns, self._clock.now_ns(), Outcome.FAILED, error=WITHDRAWN)
            raise WithdrawnError(withdrawn) from None
        try:
            written = _written(await kept.connection.ask(method, message))
            if written.outcome is Outcome.UNKNOWN:
                channel.replace(kept)
        finally:
            channel.leave(kept)
        return written

    async def prepare(self) -> None:
        """Put the keys that updates overwrite and deletes remove; a cluster needs nothing else."""
        async with self._cluster.control() as connection:
            writes = preloads(self._spec)
            while portion := list(islice(writes, _PRELOADS_IN_FLIGHT)):
                puts = [pb.PutRequest(key=each.key.encode(), value=each.value) for each in portion]
                await asyncio.gather(*(ask(connection, PUT, each.SerializeToString()) for each in puts))

    async def ready(self) -> bool:
        """A Watch is active as soon as it is asked for, so an answering cluster is ready."""
        async with self._cluster.control():
            return True

    async def tear_down(self) -> bool:
        """Delete all keys of the trial in portions, for some 20 s a call; etcd keeps the history until it compacts."""
        return await self._cluster.remove(self._everything)

    async def provider(self) -> str:
        """`etcd 3.5.1`."""
        return await self._cluster.provider()

    async def watch(self, from_position: int | None) -> AsyncGenerator[ChangeBatch, None]:
        """
        Puts below the prefix, or deletions in a trial of those, in order of revision.

        Positions are revisions, and `from_position` has been seen. Answers are stamped as they come, however long
        whoever takes the batches is busy with the one before.
        """
        create = pb.WatchCreateRequest(
            key=self._watched,
            range_end=end_of(self._watched),
            start_revision=0 if from_position is None else from_position + 1,
            filters=[pb.WatchCreateRequest.NOPUT if self._deletes else pb.WatchCreateRequest.NODELETE],
        )
        question = pb.WatchRequest(create_request=create).SerializeToString()
        arrived: asyncio.Queue[tuple[int, bytes] | GrpcAnswer] = asyncio.Queue()
        async with self._cluster.control() as connection:
            watching = connection.subscribe(
                WATCH, question, lambda t4_ns, raw: arrived.put_nowait((t4_ns, raw)), arrived.put_nowait
            )
            try:
                while not isinstance(stamped := await arrived.get(), GrpcAnswer):
                    batch = parse_watch(*stamped)
                    if batch is not None:
                        yield batch
            finally:
                watching.give_up(Status.CANCELLED, "the watcher has seen enough")
            if stamped.status is not Status.OK:
                raise CallError(stamped)
        message = f"etcd at {self._cluster.endpoints[0].host} ended the watch on {self._spec.tag}/"
        raise TargetUnavailableError(message)


def _request(write: Write) -> tuple[str, bytes]:
    """Method and message."""
    if write.delete:
        return DELETE_RANGE, pb.DeleteRangeRequest(key=write.key.encode()).SerializeToString()
    return PUT, pb.PutRequest(key=write.key.encode(), value=write.value).SerializeToString()


def _written(answer: GrpcAnswer) -> Written:
    """Both kinds of answer begin with the same header, and nothing else of them is read."""
    if answer.status is not Status.OK:
        return Written(answer.t1_ns, answer.t2_ns, outcome_of(answer), error=error_of(answer))
    try:
        revision = pb.PutResponse.FromString(answer.data).header.revision
    except DecodeError:
        return Written(answer.t1_ns, answer.t2_ns, Outcome.UNKNOWN, error=GARBAGE)
    return Written(answer.t1_ns, answer.t2_ns, Outcome.OK, str(revision))


def parse_watch(t4_ns: int, raw: bytes) -> ChangeBatch | None:
    """
    The batch in one answer: empty when it says that the watch is made, None for an answer without news.

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
        Change(event.kv.key if event.type == pb.Event.DELETE else event.kv.value, event.kv.mod_revision)
        for event in answer.events
    ]
    return ChangeBatch(t4_ns, changes) if changes or answer.created else None

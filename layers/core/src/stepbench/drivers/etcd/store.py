"""
The part that etcd's drivers of the Watch and of operations share: channels, preloading and clearing up.

The space that a trial has taken is given back: history compacted, files made small again, an alarm about space cleared.
Deleting frees none of it. etcd counts what is free inside its file towards the quota, too, and the alarm that it raises
at the quota refuses every write until somebody clears it: without all three steps the next trial would be refused.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from stepbench.drivers.access import AddressBook
from stepbench.drivers.etcd import etcd_pb2 as pb
from stepbench.drivers.etcd.cluster import (
    DEFAULT_LIMITS,
    RANGE,
    STATUS,
    TEAR_DOWN_TURN_S,
    TXN,
    CallError,
    EtcdCluster,
    EtcdLimits,
    make_call,
)
from stepbench.errors import TargetUnavailableError
from stepbench.wire.http2.grpc_answer import GrpcStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.etcd.channels import ClientChannel
    from stepbench.model.request import Request
    from stepbench.settings import Settings
    from stepbench.wire.http2.grpc_connection import GrpcConnection

PRELOAD_LANES = 4
_TXN_PUTS, _TXN_BYTES = 100, 1_000_000
"""etcd takes 128 operations and 1.5 MiB in a Txn, by default."""


class EtcdStore:
    """`Driver` but for `open`, `prepare` and `prepare_request`; other calls go to the first endpoint that answers."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, limits: EtcdLimits = DEFAULT_LIMITS
    ) -> None:
        self._cluster = EtcdCluster(spec, settings, clock, limits)
        self._spec = spec
        self._clock = clock
        self._limits = limits
        self._addresses = AddressBook()
        self._channels: list[ClientChannel] = []

    async def close(self) -> None:
        """Close the clients' connections."""
        channels, self._channels = self._channels, []
        for channel in channels:
            channel.close()

    async def ready(self) -> bool:
        """Return True where the cluster lets us read; a Watch is active as soon as it is asked for."""
        async with self._cluster.control() as connection:
            await make_call(connection, RANGE, pb.RangeRequest(key=self._spec.tag.encode()).SerializeToString())
        return True

    async def tear_down(self) -> bool:
        """Delete all keys of the trial in portions, then reclaim their space; for some 60 s a call at most."""
        prefix = self._spec.tag.encode()
        return await self._cluster.remove(prefix) and await reclaim_space(self._cluster)

    def resource_names(self) -> tuple[str, ...]:
        """See `Driver`."""
        return (f"keys {self._spec.tag}*",)

    async def provider(self) -> str:
        """Return the name and version, `etcd 3.5.1`."""
        return await self._cluster.provider()


class Preloading:
    """Writes of records before the load, over one connection."""

    def __init__(self, connection: GrpcConnection, record_bytes: int) -> None:
        self._connection = connection
        self.batch = max(1, min(_TXN_PUTS, _TXN_BYTES // (record_bytes + 100)))
        """Records in a Txn; a product's JSON is larger than its values."""

    async def write(self, records: Sequence[Request]) -> str:
        """Write all in one Txn; see `WriteBatch`."""
        puts = [pb.RequestOp(request_put=pb.PutRequest(key=each.key.encode(), value=each.value)) for each in records]
        try:
            await make_call(self._connection, TXN, pb.TxnRequest(success=puts).SerializeToString())
        except CallError as error:
            return str(error)
        return ""

    async def exists(self, key: str) -> bool:
        """Return whether a record is there; errors go to `EtcdCluster.control`."""
        request = pb.RangeRequest(key=key.encode(), count_only=True).SerializeToString()
        return pb.RangeResponse.FromString(await make_call(self._connection, RANGE, request)).count > 0


COMPACT = "/etcdserverpb.KV/Compact"
DEFRAGMENT, ALARM = (f"/etcdserverpb.Maintenance/{name}" for name in ("Defragment", "Alarm"))
DEFRAGMENT_LIMIT_S = 20.0
SETTLE_S = 0.25
_WASTE = 0.1
_LITTLE_BYTES = 2**20
"""The share of a file that may be free, and how much may be at least; a member with more is defragmented."""


async def reclaim_space(cluster: EtcdCluster) -> bool:
    """
    Compact and defragment every member that answers, for some 40 s at most; return False if more is to do.

    Raises:
        TargetUnavailableError: none answers, or one refuses.
    """
    deadline_ns = cluster.clock.now_ns() + int(TEAR_DOWN_TURN_S * 1e9)
    async with cluster.control() as connection:
        if not await _compact(connection):
            return False
        is_full = bool(await _alarms(connection))
    for endpoint in cluster.endpoints:
        async with AsyncExitStack() as stack:
            try:
                connection = await stack.enter_async_context(cluster.control(endpoint))
            except TargetUnavailableError:
                continue  # a member that is down has nothing to give back now
            if not await _defragment(connection, cluster.clock, deadline_ns, is_full=is_full):
                return False
    async with cluster.control() as connection:
        for raised in await _alarms(connection):
            cleared = pb.AlarmRequest(action=pb.AlarmRequest.DEACTIVATE, memberID=raised.memberID, alarm=pb.NOSPACE)
            await make_call(connection, ALARM, cleared.SerializeToString())
    return True


async def _compact(connection: GrpcConnection) -> bool:
    """Compact to the newest revision and wait until the pages are free; False where that takes longer."""
    newest = await make_call(connection, RANGE, pb.RangeRequest(key=b"\0", count_only=True).SerializeToString())
    revision = pb.RangeResponse.FromString(newest).header.revision
    asked = pb.CompactionRequest(revision=revision, physical=True).SerializeToString()
    try:
        await make_call(connection, COMPACT, asked, TEAR_DOWN_TURN_S)
    except CallError as error:
        if error.status is GrpcStatus.DEADLINE_EXCEEDED:
            return False
        if error.status is not GrpcStatus.OUT_OF_RANGE:  # that it is compacted already
            raise
    return True


async def _defragment(connection: GrpcConnection, clock: Clock, deadline_ns: int, *, is_full: bool) -> bool:
    """
    Defragment a member if it is worth it, once its own compaction has ended; False where the time is not enough.

    It is worth it for one that is full, whatever it says: it counts its free pages anew when it next writes to the
    disk, which a busy one does late.
    """
    before, now = -1, await _status(connection)
    while now.dbSizeInUse != before:  # only the member that was asked to compact has said when it was done
        if clock.now_ns() >= deadline_ns:
            return False
        await clock.sleep_async(SETTLE_S)
        before, now = now.dbSizeInUse, await _status(connection)
    if not is_full and now.dbSize - now.dbSizeInUse <= max(_WASTE * now.dbSize, _LITTLE_BYTES):
        return True
    try:
        await make_call(connection, DEFRAGMENT, b"", DEFRAGMENT_LIMIT_S)
    except CallError as error:
        if error.status is not GrpcStatus.DEADLINE_EXCEEDED:
            raise
        return False
    return True


async def _status(connection: GrpcConnection) -> pb.StatusResponse:
    return pb.StatusResponse.FromString(await make_call(connection, STATUS, b""))


async def _alarms(connection: GrpcConnection) -> Sequence[pb.AlarmMember]:
    """Return the alarms about space; one about corruption is for people."""
    get = pb.AlarmRequest(action=pb.AlarmRequest.GET, alarm=pb.NOSPACE).SerializeToString()
    return pb.AlarmResponse.FromString(await make_call(connection, ALARM, get)).alarms

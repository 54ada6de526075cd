"""The part that etcd's drivers of the Watch and of operations share: channels, preloading and clearing up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.drivers.etcd import etcd_pb2 as pb
from stepbench.drivers.etcd.cluster import DEFAULT_LIMITS, RANGE, TXN, CallError, EtcdCluster, EtcdLimits, make_call
from stepbench.drivers.etcd.maintenance import reclaim_space
from stepbench.wire.addresses import AddressBook

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

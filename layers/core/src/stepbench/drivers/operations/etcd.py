"""
etcd: a record is a key, its value a blob or a product as JSON; reads are linearizable, as etcd's are unless asked.

An update is a read-modify-write here: the record is read, its JSON changed, and written in a Txn on condition that it
is as it was (`mod_revision`). If it is not, the Txn's answer has the record as it is now, the change is made to that,
and the repetition counted in `retries`. A read-modify-write of a product is the same; of a blob it is a Range, then a
Put without a condition. A scan is a Range with a limit, from a key on.

Up to 100 clients share a connection, as goroutines share one of etcd's own clients; `warm_up` makes all. After a call
without an answer the next operation gets a new one, made before its t1, and the old one ends with the last operation
that has begun over it. Without reuse each operation makes its own: `connecting.connect_ns` is TCP and HTTP/2's
settings, and `authenticate_ns` is 0; names are looked up before t1. Such connections end by a reset, which leaves their
ports free.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from stepbench.contracts.workload import Kind
from stepbench.drivers import etcd_pb2 as pb
from stepbench.drivers.addresses import Addresses
from stepbench.drivers.etcd_channels import ClientChannel, MadeCall, locate
from stepbench.drivers.etcd_cluster import (
    DEFAULT_LIMITS,
    GARBAGE,
    PUT,
    RANGE,
    TXN,
    CallError,
    EtcdCluster,
    EtcdLimits,
    ask,
    end_of,
    error_of,
    outcome_of,
)
from stepbench.drivers.operations.preloading import preload
from stepbench.drivers.protocol import Connecting, Operated, Operation, Outcome
from stepbench.drivers.tasked import Tasked
from stepbench.errors import TargetUnavailableError
from stepbench.load.products import json_blob
from stepbench.wire.grpc_answer import GrpcAnswer, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Made
    from stepbench.settings import Settings
    from stepbench.wire.grpc_connection import GrpcConnection

NOT_FOUND, CONFLICT = "not_found", "conflict"
MAX_CONFLICTS = 50
PRELOAD_LANES = 4
_TXN_PUTS, _TXN_BYTES = 100, 1_000_000
"""etcd takes 128 operations and 1.5 MiB in a Txn, by default."""
CLIENTS_PER_CHANNEL = 100
"""As many calls at a time as gRPC advises for a connection."""


class EtcdOperations:
    """`Operable` for an etcd cluster, whose endpoints the clients use in turn; a write's token is its revision."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, limits: EtcdLimits = DEFAULT_LIMITS
    ) -> None:
        self._cluster = EtcdCluster(spec, settings, clock, limits)
        self._spec = spec
        self._clock = clock
        self._limits = limits
        self._reuse = spec.plan.workload is None or spec.plan.workload.reuse
        self._end = end_of(f"{spec.tag}/".encode())
        self._channels: list[ClientChannel] = []
        self._addresses = Addresses()

    async def open(self) -> None:
        """See that the cluster answers, over a connection that is closed again. Raises TargetUnavailableError."""
        await self.close()
        endpoints = self._cluster.endpoints
        await self._addresses.learn((each.host, each.port) for each in endpoints)
        async with self._cluster.control():
            pass
        if self._reuse:
            count = max(len(endpoints), -(-self._spec.plan.clients_of_writer // CLIENTS_PER_CHANNEL))
            each = [endpoints[n % len(endpoints)] for n in range(count)]
            self._channels = [ClientChannel(self._cluster, endpoint, self._addresses) for endpoint in each]

    async def warm_up(self) -> None:
        """Connect all channels, of which there are none without reuse. Raises TargetUnavailableError."""
        try:
            for channel in self._channels:
                await channel.connected()
        except OSError as error:
            host, count = self._cluster.endpoints[0].host, len(self._channels)
            message = f"etcd at {host} does not take {count} connections: {error}"
            raise TargetUnavailableError(message) from error

    async def close(self) -> None:
        """Close the clients' connections."""
        channels, self._channels = self._channels, []
        for channel in channels:
            channel.close()

    async def prepare(self) -> None:
        """Put the records; a cluster needs nothing else. Raises TargetUnavailableError."""
        workload = self._spec.plan.workload
        size = workload.record.key_bytes + workload.record.value_bytes if workload else 0
        async with self._cluster.control() as connection:
            records = _Records(connection)
            batch = max(1, min(_TXN_PUTS, _TXN_BYTES // (size + 100)))  # a product's JSON is larger than its values
            await preload(
                self._spec, records.write, self._clock, batch=batch, lanes=PRELOAD_LANES, exists=records.exists
            )

    async def ready(self) -> bool:
        """A cluster that answers is ready."""
        async with self._cluster.control():
            return True

    async def tear_down(self) -> bool:
        """Delete all keys of the trial in portions, for some 20 s a call."""
        return await self._cluster.remove(f"{self._spec.tag}/".encode())

    async def provider(self) -> str:
        """`etcd 3.5.1`."""
        return await self._cluster.provider()

    def make(self, operation: Operation) -> Made[Operated]:
        """Of one call over a kept connection; everything else takes a task."""
        asked = self._question(operation) if self._reuse else None
        if asked is None:
            return self._tasked(operation)
        method, message, read = asked
        return MadeCall(self._channel(operation), method, message, read, lambda: self._tasked(operation))

    async def operate(self, operation: Operation) -> Operated:
        """One call, or more where the module says so; `connecting` without reuse."""
        began_ns = self._clock.now_ns()
        try:
            return await (self._over_kept(operation) if self._reuse else self._over_own(operation))
        except OSError as error:
            return _not_sent(began_ns, self._clock.now_ns(), error)

    def _tasked(self, operation: Operation) -> Tasked[Operated]:
        return Tasked(lambda: self.operate(operation), self._clock)

    def _channel(self, operation: Operation) -> ClientChannel:
        if not self._channels:
            message = "open the driver before operating"
            raise RuntimeError(message)
        return self._channels[operation.client // self._spec.plan.writers % len(self._channels)]

    async def _over_kept(self, operation: Operation) -> Operated:
        channel = self._channel(operation)
        kept = await channel.enter()
        try:
            operated = await self._perform(kept.connection, operation)
            if operated.outcome is Outcome.UNKNOWN:
                channel.replace(kept)
        finally:
            channel.leave(kept)
        return operated

    async def _over_own(self, operation: Operation) -> Operated:
        endpoint = self._cluster.endpoints[operation.client % len(self._cluster.endpoints)]
        address = await locate(endpoint, self._addresses)
        began_ns = self._clock.now_ns()
        try:
            connection, connect_ns, tls_ns = await self._cluster.dial(endpoint, address, passing=True)
        except OSError as error:
            self._addresses.forget(endpoint.host, endpoint.port)
            return _not_sent(began_ns, self._clock.now_ns(), error)
        ready_ns = self._clock.now_ns()
        try:
            operated = await self._perform(connection, operation)
        finally:
            connection.close()
        connecting = Connecting(connect_ns, tls_ns, 0, operated.t2_ns - ready_ns)
        return operated._replace(t1_ns=began_ns, connecting=connecting)

    def _question(self, operation: Operation) -> tuple[str, bytes, Callable[[GrpcAnswer], Operated]] | None:
        """Method, message and what the answer means, where one call is all."""
        match operation.kind:
            case Kind.READ | Kind.SCAN:
                return RANGE, self._range(operation), _read
            case Kind.INSERT | Kind.OVERWRITE:
                return PUT, _put(operation.key, operation.value), _written
            case _:
                return None

    async def _perform(self, connection: GrpcConnection, operation: Operation) -> Operated:
        asked = self._question(operation)
        if asked is not None:
            method, message, read = asked
            return read(await self._call(connection, method, message))
        first = await self._call(connection, RANGE, self._range(operation))
        result = _read(first)
        if result.outcome is not Outcome.OK:
            return result
        if operation.fields is None:
            put = _put(operation.key, operation.value)
            result = _written(await self._call(connection, PUT, put, first.t1_ns))
        else:
            result = await self._change(connection, operation, first)
        return result._replace(t1_ns=first.t1_ns)

    async def _change(self, connection: GrpcConnection, operation: Operation, first: GrpcAnswer) -> Operated:
        """Write the fields over the record that was read, as often as somebody else was faster."""
        found, answer = pb.RangeResponse.FromString(first.data), first
        for retries in range(MAX_CONFLICTS + 1):
            if not found.kvs:
                return Operated(first.t1_ns, answer.t2_ns, Outcome.FAILED, error=NOT_FOUND, retries=retries)
            answer = await self._call(connection, TXN, _changed(operation, found.kvs[0]), first.t1_ns)
            if answer.status is not Status.OK:
                return _written(answer)._replace(retries=retries)
            try:
                txn = pb.TxnResponse.FromString(answer.data)
                if txn.succeeded:
                    return _written(answer)._replace(retries=retries)
                found = txn.responses[0].response_range
            except (DecodeError, IndexError):
                return Operated(first.t1_ns, answer.t2_ns, Outcome.UNKNOWN, error=GARBAGE, retries=retries)
        return Operated(first.t1_ns, answer.t2_ns, Outcome.FAILED, error=CONFLICT, retries=MAX_CONFLICTS)

    async def _call(self, connection: GrpcConnection, method: str, message: bytes, began_ns: int = 0) -> GrpcAnswer:
        """`began_ns`: of the operation, where this is not its first call: the limit is for all of them."""
        spent_s = (self._clock.now_ns() - began_ns) / 1e9 if began_ns else 0.0
        return await connection.ask(method, message, max(0.001, self._limits.write_s - spent_s))

    def _range(self, operation: Operation) -> bytes:
        if operation.kind is not Kind.SCAN:
            return pb.RangeRequest(key=operation.key.encode()).SerializeToString()
        request = pb.RangeRequest(key=operation.key.encode(), range_end=self._end, limit=operation.rows)
        return request.SerializeToString()


class _Records:
    """Preloading over one connection."""

    def __init__(self, connection: GrpcConnection) -> None:
        self._connection = connection

    async def write(self, records: Sequence[Operation]) -> str:
        """All in one Txn."""
        puts = [pb.RequestOp(request_put=pb.PutRequest(key=each.key.encode(), value=each.value)) for each in records]
        try:
            await ask(self._connection, TXN, pb.TxnRequest(success=puts).SerializeToString())
        except CallError as error:
            return str(error)
        return ""

    async def exists(self, key: str) -> bool:
        """Errors go to `EtcdCluster.control`."""
        request = pb.RangeRequest(key=key.encode(), count_only=True).SerializeToString()
        return pb.RangeResponse.FromString(await ask(self._connection, RANGE, request)).count > 0


def _not_sent(began_ns: int, now_ns: int, error: OSError) -> Operated:
    return Operated(began_ns, now_ns, Outcome.FAILED, error=f"connect: {type(error).__name__}")


def _put(key: str, value: bytes) -> bytes:
    return pb.PutRequest(key=key.encode(), value=value).SerializeToString()


def _changed(operation: Operation, found: pb.KeyValue) -> bytes:
    """Put the changed record if it is still the one that was found, else get it."""
    fields: dict[str, str] = json.loads(found.value, parse_int=str, parse_float=str)
    value = json_blob({**fields, **(operation.fields or {})})
    unchanged = pb.Compare(target=pb.Compare.MOD, key=found.key, mod_revision=found.mod_revision)
    put = pb.RequestOp(request_put=pb.PutRequest(key=found.key, value=value))
    get = pb.RequestOp(request_range=pb.RangeRequest(key=found.key))
    return pb.TxnRequest(compare=[unchanged], success=[put], failure=[get]).SerializeToString()


def _read(answer: GrpcAnswer) -> Operated:
    outcome, error = outcome_of(answer), error_of(answer)
    try:
        if outcome is Outcome.OK and not pb.RangeResponse.FromString(answer.data).kvs:
            outcome, error = Outcome.FAILED, NOT_FOUND
    except DecodeError:
        outcome, error = Outcome.UNKNOWN, GARBAGE
    return Operated(answer.t1_ns, answer.t2_ns, outcome, error=error)


def _written(answer: GrpcAnswer) -> Operated:
    """Answers to Put and Txn begin with the same header, which has the revision."""
    if answer.status is not Status.OK:
        return Operated(answer.t1_ns, answer.t2_ns, outcome_of(answer), error=error_of(answer))
    try:
        revision = pb.PutResponse.FromString(answer.data).header.revision
    except DecodeError:
        return Operated(answer.t1_ns, answer.t2_ns, Outcome.UNKNOWN, error=GARBAGE)
    return Operated(answer.t1_ns, answer.t2_ns, Outcome.OK, str(revision))

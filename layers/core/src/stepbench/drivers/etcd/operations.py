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
from functools import partial
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from stepbench.contracts.workload import Kind, Workload
from stepbench.drivers.etcd import etcd_pb2 as pb
from stepbench.drivers.etcd.channels import (
    ChannelCall,
    ClientChannel,
    first_ready,
    judge_range,
    range_result,
    write_result,
)
from stepbench.drivers.etcd.cluster import DEFAULT_LIMITS, PUT, RANGE, TXN, EtcdLimits, end_of
from stepbench.drivers.etcd.store import PRELOAD_LANES, EtcdStore, Preloading
from stepbench.drivers.preload import preload_records
from stepbench.errors import StepbenchError, TargetUnavailableError
from stepbench.model.errors import GARBAGE, WRONG_VALUE, connect_error
from stepbench.model.pending import CoroutineRequest
from stepbench.model.request import ConnectionParts, Outcome, Request, Result
from stepbench.wire.http2.grpc_answer import GrpcAnswer, GrpcStatus
from stepbench.workload.checks import RecordCheck
from stepbench.workload.products import json_blob

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.access import Endpoint
    from stepbench.model.request import PendingRequest
    from stepbench.settings import Settings
    from stepbench.wire.http2.grpc_connection import GrpcConnection

CONFLICT = "conflict"
MAX_CONFLICTS = 50
CLIENTS_PER_CHANNEL = 100
"""How many calls at a time gRPC advises for a connection."""


class EtcdOperations(EtcdStore):
    """`Driver` and `Warmable`; the clients use the cluster's endpoints in turn, and a write's token is its revision."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, limits: EtcdLimits = DEFAULT_LIMITS
    ) -> None:
        super().__init__(spec, settings, clock, limits=limits)
        self._reuse = spec.offered.workload is None or spec.offered.workload.reuse
        self._check = RecordCheck(spec.offered.workload or Workload(), spec.tag)
        self._end = end_of(f"{spec.tag}/".encode())

    async def open(self) -> None:
        """See that the cluster answers, over a connection that is closed again. Raises TargetUnavailableError."""
        await self.close()
        endpoints = self._cluster.endpoints
        await self._addresses.learn((each.host, each.port) for each in endpoints)
        async with self._cluster.control():
            pass
        if self._reuse:
            count = max(len(endpoints), -(-self._spec.offered.clients_of_writer // CLIENTS_PER_CHANNEL))
            each = [endpoints[n % len(endpoints)] for n in range(count)]
            self._channels = [ClientChannel(self._cluster, endpoint, self._addresses) for endpoint in each]

    async def warm_up(self) -> None:
        """
        Connect all channels, of which there are none without reuse.

        Raises:
            TargetUnavailableError: a server does not take as many as there are to be, or no member takes any.
        """
        failures: dict[Endpoint, OSError] = {}
        for channel in self._channels:
            if channel.endpoint in failures:
                continue  # a member that is cut off would take the time limit for each of its channels
            try:
                await channel.connected()
            except OSError as error:
                failures[channel.endpoint] = error
        if failures and len(failures) == len({channel.endpoint for channel in self._channels}):
            endpoint, failure = next(iter(failures.items()))
            host, count = endpoint.host, len(self._channels)
            message = f"etcd at {host} does not take {count} connections: {failure}"
            raise TargetUnavailableError(message) from failure

    async def prepare(self) -> None:
        """Put the records; a cluster needs nothing else. Raises TargetUnavailableError."""
        record = self._spec.offered.workload.record if self._spec.offered.workload else None
        async with self._cluster.control() as connection:
            preloading = Preloading(connection, record.key_bytes + record.value_bytes if record else 0)
            await preload_records(
                self._spec,
                preloading.write,
                self._clock,
                batch=preloading.batch,
                lanes=PRELOAD_LANES,
                exists=preloading.exists,
            )

    def prepare_request(self, request: Request) -> PendingRequest:
        """Return one call over a shared connection; everything else takes a task."""
        call = self._single_call(request) if self._reuse else None
        if call is None:
            return CoroutineRequest(partial(self._operate, request), self._clock)
        return ChannelCall(self._channel(request), *call)

    async def _operate(self, operation: Request) -> Result:
        """Make one call, or more where the module says so; the result has `connecting` without reuse."""
        if self._reuse:
            return await self._channel(operation).perform(partial(self._perform, operation))
        return await self._over_own(operation)

    def _channel(self, operation: Request) -> ClientChannel:
        if not self._channels:
            message = "open the driver before operating"
            raise RuntimeError(message)
        return first_ready(self._channels, operation.client // self._spec.offered.writers)

    async def _over_own(self, operation: Request) -> Result:
        endpoint = self._cluster.endpoints[operation.client % len(self._cluster.endpoints)]
        started_ns = self._clock.now_ns()
        try:
            address = await self._addresses.find(endpoint.host, endpoint.port)
            started_ns = self._clock.now_ns()
            connection, connect_ns, tls_ns = await self._cluster.dial(endpoint, address, passing=True)
        except (OSError, StepbenchError) as error:
            self._addresses.forget(endpoint.host, endpoint.port)
            return Result(started_ns, self._clock.now_ns(), Outcome.FAILED, error=connect_error(error))
        ready_ns = self._clock.now_ns()
        try:
            result = await self._perform(operation, connection)
        finally:
            connection.close()
        connecting = ConnectionParts(connect_ns, tls_ns, 0, result.t2_ns - ready_ns)
        return result._replace(t1_ns=started_ns, connecting=connecting)

    def _single_call(self, operation: Request) -> tuple[str, bytes, Callable[[GrpcAnswer], Result]] | None:
        """Return method, message and what the answer means, where one call is all."""
        match operation.kind:
            case Kind.READ | Kind.SCAN:
                return RANGE, self._range(operation), partial(range_result, self._check, operation)
            case Kind.INSERT | Kind.OVERWRITE:
                return PUT, _put(operation.key, operation.value), write_result
            case _:
                return None

    async def _perform(self, operation: Request, connection: GrpcConnection) -> Result:
        call = self._single_call(operation)
        if call is not None:
            method, message, read = call
            return read(await self._call(connection, method, message))
        first = await self._call(connection, RANGE, self._range(operation))
        result = range_result(self._check, operation, first)
        if result.outcome is not Outcome.OK:
            return result
        if operation.fields is None:
            put = _put(operation.key, operation.value)
            result = write_result(await self._call(connection, PUT, put, first.t1_ns))
        else:
            result = await self._update(connection, operation, first)
        return result._replace(t1_ns=first.t1_ns)

    async def _update(self, connection: GrpcConnection, operation: Request, first: GrpcAnswer) -> Result:
        """Write the fields over the record that was read, as often as somebody else was faster."""
        found, answer = pb.RangeResponse.FromString(first.data), first
        for retries in range(MAX_CONFLICTS + 1):
            error = judge_range(self._check, operation, found)
            put = b"" if error else _conditional_put(operation, found.kvs[0])
            if not put:
                return Result(first.t1_ns, answer.t2_ns, Outcome.FAILED, "", error or WRONG_VALUE, retries)
            answer = await self._call(connection, TXN, put, first.t1_ns)
            if answer.status is not GrpcStatus.OK:
                return write_result(answer)._replace(retries=retries)
            try:
                txn = pb.TxnResponse.FromString(answer.data)
                if txn.succeeded:
                    return write_result(answer)._replace(retries=retries)
                found = txn.responses[0].response_range
            except (DecodeError, IndexError):
                return Result(first.t1_ns, answer.t2_ns, Outcome.UNKNOWN, error=GARBAGE, retries=retries)
        return Result(first.t1_ns, answer.t2_ns, Outcome.FAILED, error=CONFLICT, retries=MAX_CONFLICTS)

    async def _call(self, connection: GrpcConnection, method: str, message: bytes, started_ns: int = 0) -> GrpcAnswer:
        """Make a call. `started_ns`: of the operation, where this is not its first call: they share the limit."""
        spent_s = (self._clock.now_ns() - started_ns) / 1e9 if started_ns else 0.0
        return await connection.call_and_wait(method, message, max(0.001, self._limits.write_s - spent_s))

    def _range(self, operation: Request) -> bytes:
        if operation.kind is not Kind.SCAN:
            return pb.RangeRequest(key=operation.key.encode()).SerializeToString()
        request = pb.RangeRequest(key=operation.key.encode(), range_end=self._end, limit=operation.rows)
        return request.SerializeToString()


def _put(key: str, value: bytes) -> bytes:
    return pb.PutRequest(key=key.encode(), value=value).SerializeToString()


def _conditional_put(operation: Request, found: pb.KeyValue) -> bytes:
    """Return a Txn that puts the changed record if it is still the one that was found, else gets it; no JSON: b""."""
    try:
        fields: dict[str, str] = json.loads(found.value, parse_int=str, parse_float=str)
    except ValueError:
        return b""
    value = json_blob({**fields, **(operation.fields or {})})
    unchanged = pb.Compare(target=pb.Compare.MOD, key=found.key, mod_revision=found.mod_revision)
    put = pb.RequestOp(request_put=pb.PutRequest(key=found.key, value=value))
    get = pb.RequestOp(request_range=pb.RangeRequest(key=found.key))
    return pb.TxnRequest(compare=[unchanged], success=[put], failure=[get]).SerializeToString()

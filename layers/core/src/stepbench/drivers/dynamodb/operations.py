"""
DynamoDB: a table for the trial, without a stream; blobs are items of one attribute, products of twelve.

Reads are eventually consistent, as DynamoDB's are unless one asks for more. An update is one UpdateItem that sets
attributes, and like a put it makes an item where there is none. A read-modify-write is a GetItem, then a PutItem (blob)
or UpdateItem (product), without a condition. Nothing is retried: throttling is FAILED, with DynamoDB's code.

Clients share a pool of connections, the most recently used first, as they do in AWS's own clients; `warm_up` makes as
many as a writer has clients. One that breaks is replaced when it is needed, before t1. Without reuse, each operation
has a connection of its own, a read-modify-write one for both requests. The service's name is looked up each time, since
its addresses change, before t1. Authentication is a signature on each request: it takes no time of its own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from stepbench.contracts.workload import Kind, Workload
from stepbench.drivers.aws.access import ANSWER_LIMIT_S
from stepbench.drivers.dynamodb.requests import (
    BATCH_ITEMS,
    ApiCall,
    OperationRequests,
    batch_of_unprocessed,
    call_result,
    item_changed,
    item_read,
    unprocessed,
)
from stepbench.drivers.dynamodb.table import DynamoDbStore
from stepbench.drivers.preload import preload_records
from stepbench.errors import TargetUnavailableError
from stepbench.model.errors import CONNECTION_CLOSED, NOT_FOUND, connect_error
from stepbench.model.request import ConnectionParts, CoroutineRequest, Outcome, Request, Result
from stepbench.wire.http1.aws import SignedRequest
from stepbench.wire.http1.connection import HttpExchange
from stepbench.wire.http1.pool import PoolLimits
from stepbench.workload.checks import RecordCheck

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialPlan, TrialSpec
    from stepbench.model.request import PendingRequest
    from stepbench.settings import Settings
    from stepbench.wire.http1.pool import HttpDialled

    Sender = Callable[[bytes], Awaitable[HttpExchange]]

PRELOAD_LANES = 16
_ANSWER_BYTES = 20_000_000
"""An item has 400 KB at most; a batch that is wholly unprocessed comes back as large as it was sent."""
_BATCH_TURNS = 8
"""How often what DynamoDB has left of a batch is sent again, ever more slowly; then the batch counts as refused."""


class DynamoDbOperations(DynamoDbStore):
    """`Driver`, `Warmable` and `Scalable` for operations on DynamoDB, which gives no token."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, answer_limit_s: float = ANSWER_LIMIT_S
    ) -> None:
        super().__init__(spec, settings, clock, _limits(spec.offered, answer_limit_s))
        self._reuse = spec.offered.workload is None or spec.offered.workload.reuse
        self._requests = OperationRequests(self._table.name)
        self._check = RecordCheck(spec.offered.workload or Workload(), spec.tag)

    async def warm_up(self) -> None:
        """Make, with reuse, a connection per client of one writer. Raises TargetUnavailableError."""
        if self._reuse:
            await self._aws.wire.warm(self._spec.offered.clients_of_writer or PRELOAD_LANES)

    async def prepare(self) -> None:
        """Make table and records, where they are missing. Raises TargetUnavailableError."""
        await self._table.ensure(streamed=False)
        async with self._aws.opened():
            await preload_records(
                self._spec, self._write_batch, self._clock, batch=BATCH_ITEMS, lanes=PRELOAD_LANES, exists=self._exists
            )
        await self._table.ensure_autoscaling()

    def prepare_request(self, request: Request) -> PendingRequest:
        """Return a request signed ahead, where it is one on a connection that is there; else one with a task."""
        if not self._reuse or request.kind is Kind.READ_MODIFY_WRITE:
            return CoroutineRequest(lambda: self._operate(request), self._clock)
        call = self._requests.calls(request)[0]
        judge = partial(item_read, self._check, call.reads) if call.reads else item_changed
        return SignedRequest(self._aws.wire, call.form, "/", call.body, judge)

    async def _operate(self, operation: Request) -> Result:
        """Perform one request, or two for a read-modify-write; the result has `connecting` without reuse."""
        wire = self._aws.wire
        calls = self._requests.calls(operation)
        signed = self._signed(calls[0])
        if self._reuse:
            return await self._run(calls, signed, wire.pool.exchange)
        started_ns = self._clock.now_ns()
        try:
            found = await wire.find()
            started_ns = self._clock.now_ns()
            async with wire.single_use(found) as dialled:
                return _with_connecting(await self._run(calls, signed, self._sender(dialled)), dialled)
        except OSError as error:
            return Result(started_ns, self._clock.now_ns(), Outcome.FAILED, error=connect_error(error))

    def _signed(self, call: ApiCall) -> bytes:
        return self._aws.wire.signed(call.form, "/", call.body, self._clock.now_ns())

    async def _run(self, calls: Sequence[ApiCall], signed: bytes, send: Sender) -> Result:
        """Perform one after the other, until one does not succeed; `signed` is the first."""
        first = result = call_result(await send(signed), calls[0].reads, self._check)
        for call in calls[1:]:
            if result.outcome is Outcome.OK:
                result = call_result(await send(self._signed(call)), call.reads, self._check)
        return result._replace(t1_ns=first.t1_ns)

    def _sender(self, dialled: HttpDialled) -> Sender:
        async def send(signed: bytes) -> HttpExchange:
            if not dialled.connection.usable:  # the server kept it for one answer only
                now_ns = self._clock.now_ns()
                return HttpExchange(now_ns, now_ns, None, CONNECTION_CLOSED, sent=False)
            return await dialled.connection.exchange(signed)

        return send

    async def _write_batch(self, records: Sequence[Request]) -> str:
        call = self._requests.batch(records)
        left = len(records)
        for turn in range(_BATCH_TURNS):
            exchange = await self._aws.wire.exchange(call.form, "/", call.body)
            result = call_result(exchange)
            undone = unprocessed(exchange) if result.outcome is Outcome.OK else {}
            if not undone:
                return result.error
            left = sum(len(requests) for requests in undone.values())
            call = batch_of_unprocessed(undone)
            await self._clock.sleep_async(0.05 * 2**turn)
        return f"UnprocessedItems ({left} of {len(records)})"

    async def _exists(self, key: str) -> bool:
        call = self._requests.get(key, consistent=True)
        exchange = await self._aws.wire.exchange(call.form, "/", call.body)
        result = call_result(exchange, call.reads)
        if result.outcome is not Outcome.OK and result.error != NOT_FOUND:
            message = f"the record {key[:60]!r} could not be looked up: {result.error}"
            raise TargetUnavailableError(message)
        return result.outcome is Outcome.OK


def _limits(plan: TrialPlan, answer_limit_s: float) -> PoolLimits:
    """Return limits for the clients of the busiest phase, in open loop for `max_in_flight`; one connection at first."""
    clients = plan.clients_of_writer
    open_loop = 0 if all(phase.closed for phase in plan.phases) else plan.max_in_flight
    most = max(clients, open_loop, PRELOAD_LANES)
    return PoolLimits(connections=most, answer_s=answer_limit_s, warm=1, answer_bytes=_ANSWER_BYTES)


def _with_connecting(result: Result, dialled: HttpDialled) -> Result:
    """Return the result with the connection's making in its times."""
    before_ns = dialled.connect_ns + dialled.tls_ns
    operate_ns = result.t2_ns - dialled.began_ns - before_ns
    connecting = ConnectionParts(dialled.connect_ns, dialled.tls_ns, 0, operate_ns)
    return result._replace(t1_ns=dialled.began_ns, connecting=connecting)

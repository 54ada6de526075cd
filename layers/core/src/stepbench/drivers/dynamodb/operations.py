"""
DynamoDB: a table for the trial, without a stream; blobs are items of one attribute, products of twelve.

Reads are eventually consistent, as DynamoDB's are unless one asks for more. An update is one UpdateItem that sets
attributes, and like a put it makes an item where there is none. A read-modify-write is a GetItem, then a PutItem (blob)
or UpdateItem (product), without a condition. Nothing is retried: throttling is FAILED, with DynamoDB's code.

Clients share a pool of connections, the most recently used first, as they do in AWS's own clients; `warm_up` makes as
many as a writer has clients. One that breaks is replaced when it is needed, before t1. Without reuse, each operation
has a connection of its own, a read-modify-write one for both requests. The service's name is looked up each time, since
its addresses change, before t1. Authentication is a signature on each request: it takes no time of its own.

Source: AWS, Amazon DynamoDB API Reference, version 2012-08-10.
"""

from __future__ import annotations

import json
from functools import partial
from json.encoder import encode_basestring as quoted
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.workload import Kind, Workload
from stepbench.drivers.aws import ANSWER_LIMIT_S
from stepbench.drivers.dynamodb.items import PUT, ItemRequests, action_form
from stepbench.drivers.dynamodb.table import DynamoDbStore
from stepbench.drivers.preload import preload_records
from stepbench.errors import TargetUnavailableError
from stepbench.model.errors import CONNECTION_CLOSED, NOT_FOUND, connect_error
from stepbench.model.pending import CoroutineRequest
from stepbench.model.request import ConnectionParts, Outcome, Request, Result
from stepbench.wire.http1.aws import SignedRequest, json_error_code, write_result
from stepbench.wire.http1.connection import HttpExchange
from stepbench.wire.http1.pool import PoolLimits
from stepbench.workload.checks import RecordCheck
from stepbench.workload.products import NUMBERS, attributes_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialPlan, TrialSpec
    from stepbench.model.request import PendingRequest
    from stepbench.settings import Settings
    from stepbench.wire.http1.pool import HttpDialled

    Sender = Callable[[bytes], Awaitable[HttpExchange]]
    from collections.abc import Mapping

    from stepbench.wire.http1 import HttpAnswer
    from stepbench.wire.http1.connection import HttpRequest
    from stepbench.wire.http1.sigv4 import Form


BATCH_ITEMS = 25
"""BatchWriteItem takes no more, nor more than 16 MB: 25 of the largest blobs are 9 MB."""
_GET, _UPDATE, _BATCH = action_form("GetItem"), action_form("UpdateItem"), action_form("BatchWriteItem")


class ApiCall(NamedTuple):
    """One request to DynamoDB's API. `reads`: the key of the item that it gets, "" if it gets none."""

    form: Form
    body: bytes
    reads: str = ""


class OperationRequests(ItemRequests):
    """Requests to one table for all kinds of operation that DynamoDB offers."""

    def __init__(self, table: str) -> None:
        super().__init__(table)
        self._table = json.dumps(table)

    def calls(self, operation: Request) -> tuple[ApiCall, ...]:
        """
        Return what has to be sent, one after the other.

        Raises:
            ValueError: a scan, which needs an order of keys.
        """
        match operation.kind:
            case Kind.READ:
                return (self.get(operation.key),)
            case Kind.INSERT | Kind.OVERWRITE:
                return (self._put(operation),)
            case Kind.UPDATE:
                return (self._update(operation),)
            case Kind.READ_MODIFY_WRITE:
                change = self._put(operation) if operation.fields is None else self._update(operation)
                return self.get(operation.key), change
            case _:
                message = f"DynamoDB offers no {operation.kind.name.lower()}"
                raise ValueError(message)

    def get(self, key: str, *, consistent: bool = False) -> ApiCall:
        """Return a GetItem; by default as DynamoDB's, eventually consistent, at half the price."""
        more = ',"ConsistentRead":true' if consistent else ""
        return ApiCall(_GET, f"{self._with_key}{quoted(key)}}}}}{more}}}".encode(), key)

    def batch(self, operations: Sequence[Request]) -> ApiCall:
        """Return a BatchWriteItem of all these."""
        puts = ",".join(f'{{"PutRequest":{{"Item":{self._format_record(each)}}}}}' for each in operations)
        return ApiCall(_BATCH, f'{{"RequestItems":{{{self._table}:[{puts}]}}}}'.encode())

    def _put(self, operation: Request) -> ApiCall:
        return ApiCall(PUT, f"{self._with_item}{self._format_record(operation)}}}".encode())

    def _update(self, operation: Request) -> ApiCall:
        fields = operation.fields or {}
        names = {f"#n{at}": name for at, name in enumerate(fields)}  # "count" is a reserved word
        values = {f":v{at}": {"N" if name in NUMBERS else "S": text} for at, (name, text) in enumerate(fields.items())}
        clause = "SET " + ",".join(f"#n{at}=:v{at}" for at in range(len(fields)))
        more = f'"UpdateExpression":"{clause}","ExpressionAttributeNames":{json.dumps(names)}'
        body = f"{self._with_key}{quoted(operation.key)}}}}},{more}"
        return ApiCall(_UPDATE, f'{body},"ExpressionAttributeValues":{json.dumps(values)}}}'.encode())

    def _format_record(self, operation: Request) -> str:
        """Return a record as an item: a blob's value as one text, a product's fields as an attribute each."""
        if operation.fields is None:
            return self.format_item(operation.key, operation.value)
        return f'{{"pk":{{"S":{quoted(operation.key)}}},{attributes_json(operation.fields)[1:]}'


def call_result(exchange: HttpExchange, reads: str = "", check: RecordCheck | None = None) -> Result:
    """Return what came of a call. `reads`: see `ApiCall`; `check`: of what was read, unless it is only looked for."""
    result = write_result(exchange, json_error_code)
    if not reads or result.outcome is not Outcome.OK or exchange.answer is None:
        return result
    body = exchange.answer.body
    error = NOT_FOUND if b'"Item"' not in body else "" if check is None else _judge(check, reads, body)
    return result._replace(outcome=Outcome.FAILED, error=error) if error else result


def item_read(  # noqa: PLR0913, PLR0917 -- what is read, and what a request's `finish` is given
    check: RecordCheck, reads: str, sending: HttpRequest, t2_ns: int, answer: HttpAnswer | None, error: str
) -> Result:
    """Return the result of a call that reads."""
    return call_result(sending.exchange(t2_ns, answer, error), reads, check)


def item_changed(sending: HttpRequest, t2_ns: int, answer: HttpAnswer | None, error: str) -> Result:
    """Return the result of a call that only writes."""
    return call_result(sending.exchange(t2_ns, answer, error))


def _judge(check: RecordCheck, key: str, body: bytes) -> str:
    """
    Return the error of what an answer to GetItem has, "" where it is right.

    No text of ours needs an escape, so that texts are what is between quotation marks; a parser takes four times as
    long. DynamoDB writes numbers without the zeros at their end: a price may have fewer characters than were sent.
    """
    if (value := body.find(b'"value"')) >= 0:
        start = body.find(b'"', body.find(b'"S"', value) + len(b'"S"')) + 1
        return check.read(key, body[start : body.find(b'"', start)])
    parts = body[body.find(b'"Item"') :].split(b'"')
    found = dict(zip(parts[3::6], parts[7::6], strict=False))
    found.pop(b"pk", None)
    whole, _, cents = found.get(b"price", b"").partition(b".")
    found[b"price"] = b"%b.%b" % (whole, cents.ljust(2, b"0"))
    return check.read(key, found)


def unprocessed(exchange: HttpExchange) -> Mapping[str, Any]:
    """Return what of an acknowledged batch DynamoDB has left undone, as RequestItems has it; mostly nothing."""
    answer = exchange.answer
    if answer is None or b'"UnprocessedItems"' not in answer.body:
        return {}
    left: Mapping[str, Any] = json.loads(answer.body)["UnprocessedItems"]
    return left


def batch_of_unprocessed(left: Mapping[str, Any]) -> ApiCall:
    """Return a BatchWriteItem of what was left."""
    return ApiCall(_BATCH, json.dumps({"RequestItems": left}).encode())


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
            found = await wire.pool.find()
            started_ns = self._clock.now_ns()
            async with wire.pool.single_use(found) as dialled:
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
    open_loop = 0 if not any(phase.is_open for phase in plan.phases) else plan.max_in_flight
    most = max(clients, open_loop, PRELOAD_LANES)
    return PoolLimits(connections=most, answer_s=answer_limit_s, warm=1, answer_bytes=_ANSWER_BYTES)


def _with_connecting(result: Result, dialled: HttpDialled) -> Result:
    """Return the result with the connection's making in its times."""
    before_ns = dialled.connect_ns + dialled.tls_ns
    operate_ns = result.t2_ns - dialled.began_ns - before_ns
    connecting = ConnectionParts(dialled.connect_ns, dialled.tls_ns, 0, operate_ns)
    return result._replace(t1_ns=dialled.began_ns, connecting=connecting)

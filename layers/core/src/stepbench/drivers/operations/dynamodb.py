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

from typing import TYPE_CHECKING

from stepbench.contracts.workload import Kind
from stepbench.drivers.awaiting import answer_of
from stepbench.drivers.aws_access import ANSWER_LIMIT_S, AwsAccess
from stepbench.drivers.dynamodb_table import TrialTable
from stepbench.drivers.operations.dynamodb_requests import (
    BATCH_ITEMS,
    NOT_FOUND,
    Call,
    Requests,
    again,
    changed,
    operated,
    read,
    unprocessed,
)
from stepbench.drivers.operations.preloading import preload
from stepbench.drivers.protocol import Connecting, Operated, Operation, Outcome
from stepbench.drivers.tasked import Tasked
from stepbench.errors import TargetUnavailableError
from stepbench.wire.aws import SignedRequest
from stepbench.wire.connection import Exchange
from stepbench.wire.pool import Limits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import Scale, TrialPlan, TrialSpec
    from stepbench.drivers.protocol import Made
    from stepbench.settings import Settings
    from stepbench.wire.pool import Dialled

    Sender = Callable[[bytes], Awaitable[Exchange]]

TEAR_DOWN_FOR_NS = 20_000_000_000
PRELOAD_LANES = 16
_ANSWER_BYTES = 20_000_000
"""An item has 400 KB at most; a batch that is wholly unprocessed comes back as large as it was sent."""
_BATCH_TURNS = 8
"""So often what DynamoDB has left of a batch is sent again, ever more slowly; then the batch counts as refused."""
_POLL_S = 0.5


class DynamoDbOperations:
    """`Operable`, `PromptOperable` and `Scalable` for DynamoDB, which gives no token."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, answer_limit_s: float = ANSWER_LIMIT_S
    ) -> None:
        self._spec = spec
        self._clock = clock
        self._reuse = spec.plan.workload is None or spec.plan.workload.reuse
        self._aws = AwsAccess("dynamodb", spec, settings, clock, limits=_limits(spec.plan, answer_limit_s))
        self._table = TrialTable(spec, settings, self._aws, clock)
        self._requests = Requests(self._table.name)

    async def open(self) -> None:
        """Read credentials, make one connection. Raises TargetUnavailableError."""
        await self._aws.open()

    async def warm_up(self) -> None:
        """With reuse, have a connection per client of one writer. Raises TargetUnavailableError."""
        if self._reuse:
            await self._aws.wire.warm(self._spec.plan.clients_of_writer or PRELOAD_LANES)

    async def prepare(self) -> None:
        """Table and records, where they are missing. Raises TargetUnavailableError."""
        await self._table.ensure(streamed=False)
        async with self._aws.opened():
            await preload(
                self._spec,
                self._write_batch,
                self._clock,
                batch=BATCH_ITEMS,
                lanes=PRELOAD_LANES,
                exists=self._exists,
            )
        await self._table.ensure_autoscaling()

    async def ready(self) -> bool:
        """Whether the table is active."""
        table = await self._table.describe()
        return table is not None and table["TableStatus"] == "ACTIVE"

    def make(self, operation: Operation) -> Made[Operated]:
        """Signed ahead, where it is one request on a connection that is there; else as a task."""
        if not self._reuse or operation.kind is Kind.READ_MODIFY_WRITE:
            return Tasked(lambda: self.operate(operation), self._clock)
        return self._made(self._requests.of(operation)[0])

    async def operate(self, operation: Operation) -> Operated:
        """One request, or two for a read-modify-write; `connecting` without reuse."""
        wire = self._aws.wire
        calls = self._requests.of(operation)
        if self._reuse and len(calls) == 1:
            return await answer_of(self._made(calls[0]))
        signed = self._signed(calls[0])
        if self._reuse:
            return await self._run(calls, signed, wire.pool.exchange)
        began_ns = self._clock.now_ns()
        try:
            found = await wire.find()
            began_ns = self._clock.now_ns()
            async with wire.alone(found) as dialled:
                return _on_its_own(await self._run(calls, signed, self._sender(dialled)), dialled)
        except OSError as error:
            return Operated(began_ns, self._clock.now_ns(), Outcome.FAILED, error=f"connect: {type(error).__name__}")

    async def scale(self, scale: Scale) -> bool:
        """Ask for the capacity, one change at a time as DynamoDB demands; True when all of it is active."""
        return await self._table.scale(scale)

    async def tear_down(self) -> bool:
        """Remove the table, and see it gone."""
        until_ns = self._clock.now_ns() + TEAR_DOWN_FOR_NS
        await self._table.stop_autoscaling()
        while not await self._table.remove():
            if self._clock.now_ns() >= until_ns:
                return False
            await self._clock.sleep_async(_POLL_S)
        return True

    async def close(self) -> None:
        """End connections."""
        await self._aws.close()

    async def provider(self) -> str:
        """What serves the table."""
        return self._aws.provider("Amazon DynamoDB")

    def _made(self, call: Call) -> SignedRequest[Operated]:
        return SignedRequest(self._aws.wire, call.form, "/", call.body, read if call.reads else changed)

    def _signed(self, call: Call) -> bytes:
        return self._aws.wire.signed(call.form, "/", call.body, self._clock.now_ns())

    async def _run(self, calls: Sequence[Call], signed: bytes, send: Sender) -> Operated:
        """One after the other, until one does not succeed; `signed` is the first."""
        first = result = operated(await send(signed), reads=calls[0].reads)
        for call in calls[1:]:
            if result.outcome is Outcome.OK:
                result = operated(await send(self._signed(call)), reads=call.reads)
        return result._replace(t1_ns=first.t1_ns)

    def _sender(self, dialled: Dialled) -> Sender:
        async def send(signed: bytes) -> Exchange:
            if not dialled.connection.usable:  # the server kept it for one answer only
                now_ns = self._clock.now_ns()
                return Exchange(now_ns, now_ns, None, "connection-closed", sent=False)
            return await dialled.connection.exchange(signed)

        return send

    async def _write_batch(self, records: Sequence[Operation]) -> str:
        call = self._requests.batch(records)
        left = len(records)
        for turn in range(_BATCH_TURNS):
            exchange = await self._aws.wire.exchange(call.form, "/", call.body)
            result = operated(exchange, reads=False)
            undone = unprocessed(exchange) if result.outcome is Outcome.OK else {}
            if not undone:
                return result.error
            left = sum(len(requests) for requests in undone.values())
            call = again(undone)
            await self._clock.sleep_async(0.05 * 2**turn)
        return f"UnprocessedItems ({left} of {len(records)})"

    async def _exists(self, key: str) -> bool:
        call = self._requests.get(key, consistent=True)
        exchange = await self._aws.wire.exchange(call.form, "/", call.body)
        result = operated(exchange, reads=True)
        if result.outcome is not Outcome.OK and result.error != NOT_FOUND:
            message = f"the record {key[:60]!r} could not be looked up: {result.error}"
            raise TargetUnavailableError(message)
        return result.outcome is Outcome.OK


def _limits(plan: TrialPlan, answer_limit_s: float) -> Limits:
    """At most: for the clients of the busiest phase, in open loop for the plan's `max_in_flight`; one to begin with."""
    clients = plan.clients_of_writer
    open_loop = 0 if all(phase.closed for phase in plan.phases) else plan.max_in_flight
    most = max(clients, open_loop, PRELOAD_LANES)
    return Limits(connections=most, answer_s=answer_limit_s, warm=1, answer_bytes=_ANSWER_BYTES)


def _on_its_own(result: Operated, dialled: Dialled) -> Operated:
    """With the connection's making in its times."""
    before_ns = dialled.connect_ns + dialled.tls_ns
    operate_ns = result.t2_ns - dialled.began_ns - before_ns
    connecting = Connecting(dialled.connect_ns, dialled.tls_ns, 0, operate_ns)
    return result._replace(t1_ns=dialled.began_ns, connecting=connecting)

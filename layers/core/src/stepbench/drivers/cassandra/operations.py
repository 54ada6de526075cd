"""
Cassandra and ScyllaDB by CQL: a keyspace of the trial's own, with one table.

Each client has a connection of its own with its statements prepared, and one request in flight. `warm_up` makes as many
as the plan has clients for each writer; what breaks is made anew before the next operation, outside its time. Without
reuse the statement goes out as text, with its values beside it: to prepare it first would be a round trip more.
Measured against the library `cassandra-driver` (3.30, libev, bridged to asyncio; Cassandra 5.0, write of 889 bytes,
2 cores): p50 147 µs here and 276 µs there with 1 client, 0.39 and 2.2 ms with 10; CPU an operation 28 and 172 µs.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from stepbench.contracts.target import CassandraTarget
from stepbench.contracts.workload import Workload
from stepbench.drivers.access import ServerLimits
from stepbench.drivers.cassandra.access import (
    CONSISTENCIES,
    DEFAULT_LIMITS,
    CassandraAccess,
    TrialKeyspace,
    server_name,
)
from stepbench.drivers.cassandra.statements import (
    NEEDS_NEW_CONNECTION,
    StatementRequest,
    create_statements,
    failure_name,
    judge,
    statements_of,
    steps_of,
    values_of,
)
from stepbench.drivers.preload import preload_records
from stepbench.errors import StepbenchError, TargetUnavailableError
from stepbench.model.pending import CoroutineRequest
from stepbench.model.request import ConnectionParts, Outcome, Result
from stepbench.wire import cql
from stepbench.wire.cql.answers import refusal, rows
from stepbench.wire.link import Links
from stepbench.workload.checks import RecordCheck

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.model.request import PendingRequest, Request
    from stepbench.settings import Settings
    from stepbench.wire.cql import CqlRequest
    from stepbench.wire.cql.connection import CqlConnection

_PRELOADED_BYTES, _PRELOADED_RECORDS, _PRELOADING_LANES = 256_000, 64, 2
"""What is in flight at a time: more, and a small server begins to time out instead of getting faster."""


class CassandraOperations:
    """One trial's operations on its keyspace, `stepbench_<tag>`."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, limits: ServerLimits = DEFAULT_LIMITS
    ) -> None:
        target = spec.offered.target
        workload = spec.offered.workload or Workload()
        self._spec = spec
        self._clock = clock
        self._target = target if isinstance(target, CassandraTarget) else CassandraTarget(store="cassandra")
        self._consistency = CONSISTENCIES[self._target.consistency]
        self._access = CassandraAccess(spec, settings, clock, limits)
        self._keyspace = TrialKeyspace(self._access, spec.tag, self._consistency)
        self._product = workload.record.shape == "product"
        self._statements = statements_of(spec.tag, product=self._product)
        self._record_bytes = workload.record.key_bytes + workload.record.value_bytes
        check = RecordCheck(workload, spec.tag)
        self._checks = {self._statements.read: check, self._statements.scan: check}
        """They check what a statement reads."""
        self._reuse = workload.reuse
        self._prepared = tuple(text for text in self._statements if self._product or text != self._statements.update)
        self._writers = spec.offered.writers
        self._links = Links(self._connect, clock, failure_name)

    async def open(self) -> None:
        """Check that a node answers, over a connection that is closed again."""
        await self.close()
        await self._access.look_up_nodes()
        async with self._access.control():
            pass

    async def warm_up(self) -> None:
        """Connect a writer's clients; without reuse, each operation does that itself."""
        if not self._reuse:
            return
        try:  # in open loop one connection is enough: requests overtake each other on it
            await self._links.open(range(self._spec.offered.clients_of_writer or 1))
        except TargetUnavailableError as error:
            raise self._access.unavailable(error) from error

    async def close(self) -> None:
        """Close all connections."""
        self._links.close()
        self._links = Links(self._connect, self._clock, failure_name)

    def prepare_request(self, request: Request) -> PendingRequest:
        """See `Driver`; what takes several steps, or has no connection yet, is a task."""
        (statement, values), *more = steps_of(request, self._statements)
        link = self._links[request.client // self._writers]
        connection = link.find()
        if connection is None or more or not self._reuse:
            return CoroutineRequest(partial(self._perform, request), self._clock)
        execution = cql.execute(connection.statement_ids[statement], self._consistency, values)
        return StatementRequest(link, connection, execution, request, self._encode, self._checks.get(statement))

    async def _connect(self, _client: int) -> CqlConnection:
        """Connect to the next node, and prepare our statements there."""
        connection = (await self._access.connect()).connection
        try:
            connection.statement_ids = await self._access.prepare(connection, self._prepared)
        except BaseException:
            connection.close()
            raise
        return connection

    def _encode(self, connection: CqlConnection, request: Request) -> CqlRequest:
        """Return a request of one statement for the node of a connection."""
        ((statement, values),) = steps_of(request, self._statements)
        return cql.execute(connection.statement_ids[statement], self._consistency, values)

    async def _perform(self, request: Request) -> Result:
        """
        Perform one statement, or a read and then a write. Never raises for the store's answer.

        What never left us (no connection) is FAILED, what had no answer UNKNOWN; so is a write of which the server says
        that too few replicas have confirmed it in time. All other refusals are FAILED, with the name of their code.
        """
        started_ns = self._clock.now_ns()
        if self._reuse:
            reached = await self._links[request.client // self._writers].reach()
            if isinstance(reached, str):
                return Result(started_ns, self._clock.now_ns(), Outcome.FAILED, error=reached)
            return await self._perform_over(reached, request)
        try:
            node = await self._access.locate_next_node()
            started_ns = self._clock.now_ns()
            connection, times = await self._access.connect(node=node, single_use=True)
        except (OSError, StepbenchError) as error:
            return Result(started_ns, self._clock.now_ns(), Outcome.FAILED, error=failure_name(error))
        try:
            result = await self._perform_over(connection, request)
        finally:
            connection.close()
        operate_ns = result.t2_ns - started_ns - sum(times)
        return result._replace(t1_ns=started_ns, connecting=ConnectionParts(*times, operate_ns))

    async def _perform_over(self, connection: CqlConnection, request: Request) -> Result:
        """Perform the steps one after the other, up to the first that fails; t1 is the first's, t2 the last's."""
        t1_ns = t2_ns = 0
        outcome, error = Outcome.OK, ""
        for statement, values in steps_of(request, self._statements):
            identity = connection.statement_ids.get(statement)
            if identity is None:
                step = cql.query(statement, self._consistency, values)
            else:
                step = cql.execute(identity, self._consistency, values)
            answered = await connection.call(step)
            t1_ns, t2_ns = t1_ns or answered.t1_ns, answered.t2_ns
            outcome, error = judge(answered, request, self._checks.get(statement))
            if outcome is not Outcome.OK:
                break
        if error in NEEDS_NEW_CONNECTION:
            connection.close()
        return Result(t1_ns, t2_ns, outcome, error=error)

    async def prepare(self) -> None:
        """Make keyspace and table, and write the records that are there before the load, on all replicas."""
        async with self._access.control() as connection:
            await self._keyspace.make(
                connection, create_statements(self._spec.tag, self._target, product=self._product)
            )
            prepared = await self._access.prepare(connection, self._statements[:2])
            ids = prepared[self._statements.write], prepared[self._statements.read]
            records = _Records(self._access, connection, *ids)
            batch = max(1, min(_PRELOADED_RECORDS, _PRELOADED_BYTES // self._record_bytes))
            await preload_records(
                self._spec, records.write, self._clock, batch=batch, lanes=_PRELOADING_LANES, exists=records.exists
            )

    async def ready(self) -> bool:
        """See `Driver`."""
        return await self._keyspace.is_agreed()

    async def tear_down(self) -> bool:
        """Drop the keyspace."""
        return await self._keyspace.drop()

    def resource_names(self) -> tuple[str, ...]:
        """See `Driver`."""
        return (f"keyspace {self._keyspace.name}",)

    async def provider(self) -> str:
        """See `Driver`: "Apache Cassandra 5.0.5"."""
        return await server_name(self._access)


class _Records:
    """
    A trial's records as `prepare` sees them: written on all replicas, many at a time, and looked for.

    Each write is a request of its own on one connection, since a batch of CQL only burdens one node more.
    """

    def __init__(self, access: CassandraAccess, connection: CqlConnection, write_id: bytes, read_id: bytes) -> None:
        self._access = access
        self._connection = connection
        self._write_id = write_id
        self._read_id = read_id

    async def write(self, records: Sequence[Request]) -> str:
        """
        Write records; return "" or the first refusal.

        Raises:
            TargetUnavailableError: the connection is lost.
        """
        values = (values_of(record, record.key.encode()) for record in records)
        requests = [cql.execute(self._write_id, cql.Consistency.ALL, each) for each in values]
        answers = await asyncio.gather(*map(self._connection.call, requests))
        lost = next((answered.error for answered in answers if answered.error), "")
        if lost:
            raise self._access.unavailable(lost)
        error = next(filter(None, (refusal(answered.frame) for answered in answers)), None)
        return ": ".join(error) if error else ""

    async def exists(self, key: str) -> bool:
        """
        Return whether there is a record with this key.

        Raises:
            TargetUnavailableError: the server does not say.
        """
        request = cql.execute(self._read_id, cql.Consistency.ONE, (key.encode(),))
        return bool(rows(await self._access.run(self._connection, request)))

"""
Cassandra and ScyllaDB by CQL: a keyspace of the trial's own, with one table.

Each client has a connection of its own with its statements prepared, and one request in flight. `warm_up` makes as many
as the plan has clients for each writer; what breaks is made anew before the next operation, outside its time. Without
reuse the statement goes out as text, with its values beside it: to prepare it first would be a round trip more.
Measured against the library `cassandra-driver` (3.30, libev, bridged to asyncio; Cassandra 5.0, write of 889 bytes,
2 cores): p50 147 µs here and 276 µs there with 1 client, 0.39 and 2.2 ms with 10; CPU an operation 28 and 172 µs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from stepbench.contracts.target import CassandraTarget
from stepbench.contracts.workload import Workload
from stepbench.drivers.finishing import to_its_end
from stepbench.drivers.operations.cassandra_access import DEFAULT_LIMITS, CassandraAccess, CassandraLimits
from stepbench.drivers.operations.cassandra_answers import judge
from stepbench.drivers.operations.cassandra_connections import FAILURES, Connections, connect_error
from stepbench.drivers.operations.cassandra_prompt import FORGOTTEN, PromptStatement
from stepbench.drivers.operations.cassandra_records import Records
from stepbench.drivers.operations.cassandra_statements import (
    CONSISTENCIES,
    dropping,
    keyspace_of,
    making,
    statements_of,
    steps_of,
)
from stepbench.drivers.operations.preloading import preload
from stepbench.drivers.protocol import Connecting, Operated, Outcome
from stepbench.drivers.tasked import Tasked
from stepbench.wire import cql
from stepbench.wire.cql_answers import supported

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.operations.cassandra_connections import Ready
    from stepbench.drivers.protocol import Made, Operation
    from stepbench.settings import Settings

_PRELOADED_BYTES, _PRELOADED_RECORDS, _PRELOADING_LANES = 256_000, 64, 2
"""What is in flight at a time: more, and a small server begins to time out instead of getting faster."""


class CassandraOperations:
    """One trial's keyspace, `stepbench_<tag>`."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, limits: CassandraLimits = DEFAULT_LIMITS
    ) -> None:
        target = spec.plan.target
        workload = spec.plan.workload or Workload()
        self._spec = spec
        self._clock = clock
        self._target = target if isinstance(target, CassandraTarget) else CassandraTarget(store="cassandra")
        self._consistency = CONSISTENCIES[self._target.consistency]
        self._access = CassandraAccess(spec, settings, clock, limits)
        self._product = workload.record.shape == "product"
        self._statements = statements_of(spec.tag, product=self._product)
        self._record_bytes = workload.record.key_bytes + workload.record.value_bytes
        self._reading = {self._statements.read, self._statements.scan}
        self._reuse = workload.reuse
        wanted = tuple(text for text in self._statements if self._product or text != self._statements.update)
        self._connections = Connections(self._access, wanted)

    async def open(self) -> None:
        """See that a node answers, over a connection that is closed again."""
        await self.close()
        await self._access.look_up()
        async with self._access.control():
            pass

    async def warm_up(self) -> None:
        """Connect a writer's clients; without reuse, each operation does that itself."""
        if self._reuse:
            # In open loop one connection is enough: requests overtake each other on it.
            await self._connections.open(self._spec.plan.clients_of_writer or 1)

    async def close(self) -> None:
        """Close all connections."""
        self._connections.close()

    def make(self, operation: Operation) -> Made[Operated]:
        """See `PromptOperable`; what is several steps, or has no connection yet, is a task."""
        ready = self._connections.at_hand(operation.client) if self._reuse else None
        (statement, values), *more = steps_of(operation, self._statements)
        identity = ready.ids.get(statement) if ready else None
        if ready is None or identity is None or more:
            return Tasked(partial(self.operate, operation), self._clock)
        request, is_reading = cql.execute(identity, self._consistency, values), statement in self._reading
        return PromptStatement(operation, request, ready, self._clock, self.operate, is_reading=is_reading)

    async def operate(self, operation: Operation) -> Operated:
        """
        One statement, or a read and then a write. Never raises for the store's answer.

        What never left us (no connection) is FAILED, what had no answer UNKNOWN; so is a write of which the server says
        that too few replicas have confirmed it in time. All other refusals are FAILED, with the name of their code.
        """
        if not self._reuse:
            return await self._on_its_own(operation)
        began_ns = self._clock.now_ns()
        try:
            ready = await self._connections.of(operation.client)
        except FAILURES as error:
            return Operated(began_ns, self._clock.now_ns(), Outcome.FAILED, error=connect_error(error))
        return await self._perform(operation, ready)

    async def prepare(self) -> None:
        """Make keyspace and table, and write the records that are there before the load, on all replicas."""
        async with self._access.control() as connection:
            for statement in making(self._spec.tag, self._target, product=self._product):
                await to_its_end(self._access.run(connection, cql.query(statement, self._consistency)))
            records = await Records.prepared(self._access, connection, self._statements)
            batch = max(1, min(_PRELOADED_RECORDS, _PRELOADED_BYTES // self._record_bytes))
            await preload(
                self._spec, records.write, self._clock, batch=batch, lanes=_PRELOADING_LANES, exists=records.exists
            )

    async def ready(self) -> bool:
        """Whether all nodes that are up have the same schema: without it some would not know the table."""
        async with self._access.control() as connection:
            own = await self._access.rows(connection, "SELECT schema_version FROM system.local")
            others = await self._access.rows(connection, "SELECT schema_version FROM system.peers")
        return len({row[0] for row in (*own, *others) if row[0] is not None}) == 1

    async def tear_down(self) -> bool:
        """Drop the keyspace."""
        async with self._access.control() as connection:
            await self._access.run(connection, cql.query(dropping(self._spec.tag), self._consistency))
            found = await self._access.rows(connection, "SELECT keyspace_name FROM system_schema.keyspaces")
        return (keyspace_of(self._spec.tag).encode(),) not in found

    async def provider(self) -> str:
        """`Apache Cassandra 5.0.5`."""
        async with self._access.control() as connection:
            options = supported(await self._access.run(connection, cql.options()))
            if any(name.startswith("SCYLLA") for name in options):
                (row,) = await self._access.rows(connection, "SELECT version FROM system.versions")
                return f"ScyllaDB {(row[0] or b'').decode()}"
            (row,) = await self._access.rows(connection, "SELECT release_version FROM system.local")
        return f"Apache Cassandra {(row[0] or b'').decode()}"

    async def _on_its_own(self, operation: Operation) -> Operated:
        began_ns = self._clock.now_ns()
        try:
            turn = await self._access.turn()
            began_ns = self._clock.now_ns()
            ready = await self._connections.passing(turn)
        except FAILURES as error:
            return Operated(began_ns, self._clock.now_ns(), Outcome.FAILED, error=connect_error(error))
        try:
            done = await self._perform(operation, ready)
        finally:
            ready.connection.close()
        operate_ns = done.t2_ns - began_ns - sum(ready.times)
        return done._replace(t1_ns=began_ns, connecting=Connecting(*ready.times, operate_ns))

    async def _perform(self, operation: Operation, ready: Ready) -> Operated:
        """The steps one after the other, up to the first that fails; t1 is the first's, t2 the last's."""
        connection, ids, _ = ready
        t1_ns = t2_ns = 0
        outcome, error = Outcome.OK, ""
        for statement, values in steps_of(operation, self._statements):
            identity = ids.get(statement)
            if identity is None:
                request = cql.query(statement, self._consistency, values)
            else:
                request = cql.execute(identity, self._consistency, values)
            answered = await connection.call(request)
            t1_ns, t2_ns = t1_ns or answered.t1_ns, answered.t2_ns
            outcome, error = judge(answered, operation, reading=statement in self._reading)
            if outcome is not Outcome.OK:
                break
        if error in FORGOTTEN:
            connection.close()
        return Operated(t1_ns, t2_ns, outcome, error=error)

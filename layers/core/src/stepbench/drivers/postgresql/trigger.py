"""
Writes to PostgreSQL, with a trigger that calls Lambda.

One statement serves puts and updates: `INSERT … ON CONFLICT (key) DO UPDATE`. For a new key it does what an INSERT
does, plus a speculative insertion in the index; for a key that is there it is an update of one row. With two
statements, a canary in a trial of updates, or a put that is offered twice, would be an error. Trials of deletes have a
statement and a trigger of their own.
"""

from __future__ import annotations

import importlib.resources
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from stepbench.contracts.capacity import ServerlessCapacity
from stepbench.contracts.identity import matching_head
from stepbench.contracts.target import PostgresqlTarget
from stepbench.contracts.workload import Kind
from stepbench.drivers.access import unavailable
from stepbench.drivers.aws import AwsAccess
from stepbench.drivers.postgresql.operations import (
    SESSION_OPTIONS,
    ClusterCapacity,
    drop_schema,
    server_name,
    trial_access,
)
from stepbench.drivers.postgresql.rows import RowTable, check_types
from stepbench.drivers.preload import preloads
from stepbench.drivers.protocol import in_turn
from stepbench.drivers.receivers import build_receiver
from stepbench.drivers.sql import Table, statements
from stepbench.drivers.sql.access import CONTROL_LIMIT_S, WRITE_LIMIT_S, PermanentErrors, target_error
from stepbench.drivers.sql.executor import FIRST_SESSIONS, SessionLimits, SqlExecutor
from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from stepbench.clock import Clock
    from stepbench.contracts.phase import Scale
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.sql.access import BoundedConnection
    from stepbench.model.request import PendingRequest, Request
    from stepbench.settings import Settings
    from stepbench.workload.values import PreparedValues

_PRELOAD_ROWS = 1_000
_PRELOAD_BYTES = 4_000_000
_PERMANENT = PermanentErrors(
    (
        psycopg.errors.FeatureNotSupported,  # the extension is not available on this server
        psycopg.errors.UndefinedFile,
        psycopg.errors.InsufficientPrivilege,
    ),
    "Use a server that offers the extension aws_lambda, and a user that may create extensions and schemas "
    "(rds_superuser on Aurora).",
)
_PRELOAD = "INSERT INTO {schema}.records SELECT * FROM unnest(%s::text[], %s::text[]) ON CONFLICT DO NOTHING"
_IS_READY = """
SELECT count(*) FROM pg_catalog.pg_trigger
WHERE tgrelid = to_regclass({table}) AND tgname = 'notify_receiver' AND tgenabled <> 'D'
"""


class PostgresqlDriver:
    """One trial's schema `stepbench_<tag>`, with its table and trigger, in one database."""

    def __init__(
        self,
        spec: TrialSpec,
        settings: Settings,
        clock: Clock,
        *,
        write_limit_s: float = WRITE_LIMIT_S,
        control_limit_s: float = CONTROL_LIMIT_S,
    ) -> None:
        self._spec = spec
        self._settings = settings
        self._clock = clock
        self._receiver = build_receiver(spec, settings, clock)
        self._access = trial_access(spec, settings, control_limit_s)
        self._schema = sql.Identifier(f"stepbench_{spec.tag}")
        self._deletes = spec.offered.record.operation == "delete"
        # With deletes, a canary first inserts what it then deletes.
        kinds = (Kind.INSERT, Kind.DELETE) if self._deletes else (Kind.INSERT,)
        self._record = record = spec.offered.record
        table = sql.Identifier(f"stepbench_{spec.tag}", "records")
        by_kind = dict(statements(Table(table, sql.SQL(""), None)))
        self._rows: RowTable | None = None
        self._values: PreparedValues | None = None
        if record.values is not None:
            facts = record.values.facts
            self._rows = RowTable(table, facts.columns if facts else {}, record.identity_attribute)
            by_kind[Kind.INSERT] = (self._rows.insert,)
        limits = SessionLimits(write_limit_s, spec.offered.max_in_flight, FIRST_SESSIONS, queue=True)
        # A write is one statement, once: a conflict is the outcome of a trigger that has run.
        conninfo = partial(self._access.conninfo, options=SESSION_OPTIONS)
        offered = {kind: by_kind[kind] for kind in kinds}
        self._executor = SqlExecutor(conninfo, offered, clock, limits, conflicts=frozenset())

    def use_values(self, values: PreparedValues) -> None:
        """See `TakesValues`."""
        self._values = values

    async def open(self) -> None:
        """Have the first sessions before any clock starts; further ones come on demand, before t1."""
        try:
            await self._executor.warm_up()
        except TargetUnavailableError as error:
            raise unavailable(self._access.name, error) from error

    async def close(self) -> None:
        """Close the writers' sessions."""
        self._executor.close()
        await self._receiver.close()

    def prepare_request(self, request: Request) -> PendingRequest:
        """Prepare to insert, overwrite or delete a row; in `request_response` the receiver runs before the answer."""
        return self._executor.prepare_request(request)

    async def prepare(self) -> None:
        """
        Make extension, schema, table, preloaded rows, and the trigger last, so that preloading fires nothing.

        Raises:
            PlanError: the server has no `aws_lambda`, we may not create what we need, or no receiver is known.
            TargetUnavailableError: the server does not answer, or not so.
        """
        await self._receiver.ensure()
        receiver = self._receiver.arn
        if not receiver:
            remedy = "Set RECEIVE_EVENTS_FUNCTION_ARN, as the stack does."
            raise target_error(self._spec, "no receiver function is known", remedy)
        if any(phase.scale for phase in self._spec.offered.phases):
            self._require_cluster()
        target = self._spec.offered.target
        request_response = isinstance(target, PostgresqlTarget) and target.invocation == "request_response"
        async with self._control() as connection:
            columns = self._rows.definition if self._rows else sql.SQL(", value text NOT NULL")
            await connection.execute(_script("table.sql").format(schema=self._schema, columns=columns))
            if self._values is not None:
                await check_types(self._spec, self._values, connection)
            await self._preload(connection)
            identity = self._identity
            trigger = _script("trigger.sql").format(
                schema=self._schema,
                function=sql.Literal(receiver),
                region=sql.Literal(region_of(receiver) or self._settings.aws_region),
                invocation=sql.Literal("RequestResponse" if request_response else "Event"),
                identity=identity,
                filter=self._filter(identity),
                row=self._row_in_payload(),
                changes=sql.SQL("DELETE" if self._deletes else "INSERT OR UPDATE"),
            )
            await connection.execute(trigger)

    @property
    def _identity(self) -> sql.Composable:
        """Return what begins with the event's identity: a column, or where there is none the key."""
        if self._deletes:
            return sql.SQL("OLD.key")
        return sql.SQL("NEW.{}").format(sql.Identifier(self._record.identity_attribute or "key"))

    def _row_in_payload(self) -> sql.Composable:
        """Return what the payload has beside the event: operation and row, where the user's own are in the plan."""
        if self._rows is None and self._spec.offered.target.function is None:
            return sql.SQL("")
        row = sql.SQL("OLD" if self._deletes else "NEW")
        identity = self._record.identity_attribute if self._rows else ""
        own = sql.SQL("to_jsonb({}) - {}::text").format(row, sql.Literal(identity))
        return sql.SQL(", 'operation', TG_OP, 'row', {}").format(own)

    def _filter(self, identity: sql.Composable) -> sql.Composable:
        """Return the condition of the trigger, if the plan asks for one; it is tested before the trigger is queued."""
        if self._spec.offered.record.matching_share == 1:
            return sql.SQL("")
        head = sql.Literal(matching_head(self._spec.tag))
        return sql.SQL("WHEN (starts_with({identity}, {head}))").format(identity=identity, head=head)

    async def ready(self) -> bool:
        """Return whether the trigger is there and enabled."""
        table = sql.Literal(f"{self._schema.as_string(None)}.records")
        async with self._control() as connection:
            enabled = await connection.row(sql.SQL(_IS_READY).format(table=table)) == (1,)
        return enabled and await self._receiver.ready()

    async def tear_down(self) -> bool:
        """
        Give the cluster its own capacity back, and drop the schema, then what its trigger invoked.

        Not now if somebody holds a lock on the schema. The extension stays: others may use it.
        """
        # Whatever this trial asked for: one that was cut short in the middle of scaling may have left its bounds.
        if self._settings.aurora_cluster and self._spec.offered.target.endpoint is None:
            return await in_turn(self._restore, self._drop, self._receiver.remove)
        return await in_turn(self._drop, self._receiver.remove)

    async def scale(self, scale: Scale) -> bool:
        """Ask the stack's Aurora Serverless v2 cluster for other bounds; True once they are in force."""
        if not isinstance(scale.capacity, ServerlessCapacity):
            message = f"postgresql scales as serverless_v2, not as {scale.capacity.mode}"
            raise TypeError(message)
        async with self._cluster() as cluster:
            return await cluster.scale(scale.capacity)

    def resource_names(self) -> tuple[str, ...]:
        """See `Driver`."""
        return f"schema {self._schema.as_string(None)}", *self._receiver.resource_names()

    async def provider(self) -> str:
        """Return the server's name, as `server_name`."""
        async with self._control() as connection:
            return await server_name(connection)

    def _require_cluster(self) -> str:
        if not self._settings.aurora_cluster:
            remedy = "Deploy the stack with AuroraPostgresql=serverless, or remove `scale` from the plan."
            raise target_error(self._spec, "this stack has no Aurora Serverless v2 cluster to scale", remedy)
        return self._settings.aurora_cluster

    async def _restore(self) -> bool:
        async with self._cluster() as cluster:
            return await cluster.restore()

    async def _drop(self) -> bool:
        async with self._control() as connection:
            return await drop_schema(connection, self._schema)

    @asynccontextmanager
    async def _cluster(self) -> AsyncIterator[ClusterCapacity]:
        """Yield the stack's cluster; its API's connections end with the block."""
        name = self._require_cluster()
        aws = AwsAccess("rds", self._spec, self._settings, self._clock)
        try:
            yield ClusterCapacity(aws, name)
        finally:
            await aws.close()

    async def _preload(self, connection: BoundedConnection) -> None:
        at_once = max(1, min(_PRELOAD_ROWS, int(_PRELOAD_BYTES // max(1, self._record.largest_value_bytes))))
        insert = sql.SQL(_PRELOAD).format(schema=self._schema)
        writes = preloads(self._spec, self._values)
        while portion := list(islice(writes, at_once)):
            if self._rows is not None:
                await self._rows.preload(connection, portion)
                continue
            columns = ([write.key for write in portion], [write.value.decode() for write in portion])
            await connection.execute(insert, columns)

    def _control(self) -> AbstractAsyncContextManager[BoundedConnection]:
        return self._access.control(self._spec, _PERMANENT)


def _script(name: str) -> sql.SQL:
    text = importlib.resources.files("stepbench.drivers.postgresql").joinpath(name).read_text()
    return sql.SQL(text)


def region_of(function: str) -> str:
    """Return the region in a function's ARN; "" for a bare name."""
    parts = function.split(":")
    return parts[3] if function.startswith("arn:") and len(parts) > 3 else ""  # noqa: PLR2004 -- arn:aws:lambda:region

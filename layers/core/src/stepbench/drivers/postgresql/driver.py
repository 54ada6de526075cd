"""
The PostgreSQL driver.

One statement serves puts and updates: `INSERT … ON CONFLICT (key) DO UPDATE`. For a new key it does what an INSERT
does, plus a speculative insertion in the index; for a key that is there it is an update of one row. With two
statements, a canary in a trial of updates, or a put that is offered twice, would be an error. Trials of deletes have a
statement and a trigger of their own.
"""

from __future__ import annotations

import asyncio
import importlib.resources
from contextlib import asynccontextmanager
from itertools import islice
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from stepbench.contracts.identity import matching_head
from stepbench.contracts.problem import Problem
from stepbench.contracts.target import PostgresqlTarget, ServerlessCapacity
from stepbench.drivers.awaiting import answer_of
from stepbench.drivers.aws_access import AwsAccess
from stepbench.drivers.postgresql.access import CONTROL_LIMIT_S, Access
from stepbench.drivers.postgresql.cluster import ClusterCapacity
from stepbench.drivers.postgresql.conversation import LOST
from stepbench.drivers.postgresql.execution import Ways, tasked
from stepbench.drivers.postgresql.lane import STATEMENT, STATEMENT_LIMIT_MS, WRITE_LIMIT_S, Lane, LaneWrite
from stepbench.drivers.postgresql.lanes import Lanes
from stepbench.drivers.preload import preloads
from stepbench.drivers.protocol import WITHDRAWN, Outcome, WithdrawnError, Write, Written
from stepbench.errors import PlanError, TargetUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from stepbench.clock import Clock
    from stepbench.contracts.plan import Scale, TrialSpec
    from stepbench.drivers.protocol import Made
    from stepbench.settings import Settings

LANES_FROM_THE_START = 8
CANNOT_CONNECT = "08001"
"""sqlclient_unable_to_establish_sqlconnection: the error of a write that never left, for want of a connection."""
_PRELOAD_ROWS = 1_000
_PRELOAD_BYTES = 4_000_000
_TEAR_DOWN_LIMITS = "SET lock_timeout = '2s'; SET statement_timeout = '25s'"
_NOT_NOW = (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled, psycopg.errors.DeadlockDetected)
_NEVER = (
    psycopg.errors.FeatureNotSupported,  # the extension is not available on this server
    psycopg.errors.UndefinedFile,
    psycopg.errors.InsufficientPrivilege,
)
_PRELOAD = "INSERT INTO {schema}.records SELECT * FROM unnest(%s::text[], %s::text[]) ON CONFLICT DO NOTHING"
_WRITE = (
    "INSERT INTO {schema}.records (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)
_DELETE = "DELETE FROM {schema}.records WHERE key = $1 AND $2::text IS NOT NULL"
"""The second condition, always true, takes the value that every lane's statement is given: of a deletion, none."""
_IS_READY = """
SELECT count(*) FROM pg_catalog.pg_trigger
WHERE tgrelid = to_regclass({table}) AND tgname = 'notify_receiver' AND tgenabled <> 'D'
"""
_VERSION = "SELECT current_setting('server_version'), current_setting('cluster_name'), to_regproc('aurora_version')"


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
        self._write_limit_s = write_limit_s
        self._access = Access.of(spec, settings, control_limit_s)
        self._schema = sql.Identifier(f"stepbench_{spec.tag}")
        self._deletes = spec.plan.record.operation == "delete"
        self._statement = sql.SQL(_DELETE if self._deletes else _WRITE).format(schema=self._schema).as_bytes(None)
        self._lanes = Lanes(self._make_lane, spec.plan.max_in_flight)
        self._ways = Ways(self._lanes, self._write_later, clock)

    async def open(self) -> None:
        """Have the first connections before any clock starts; further ones come on demand, before t1."""
        await self._lanes.warm_up(LANES_FROM_THE_START)

    async def close(self) -> None:
        """Close the writers' connections."""
        self._lanes.close()

    def make(self, write: Write) -> Made[Written]:
        """Insert, overwrite or delete one row; in `request_response` the receiver runs before it is answered."""
        if self._deletes and not write.delete:
            return tasked(lambda: self._put_aside(write), self._clock)
        return LaneWrite(self._ways, write, STATEMENT, [write.key.encode(), write.value])

    async def write(self, write: Write) -> Written:
        """What `make` makes, awaited; cancelled before it left, it raises WithdrawnError."""
        return await answer_of(self.make(write))

    async def _write_later(self, write: Write) -> Written:
        """On a lane that has to be opened or waited for first, or whose statement was refused before."""
        try:
            lane = await self._lanes.acquire()
        except TargetUnavailableError as error:
            now_ns = self._clock.now_ns()
            sqlstate = getattr(error.__cause__, "sqlstate", None)
            return Written(now_ns, now_ns, Outcome.FAILED, error=sqlstate or CANNOT_CONNECT)
        except asyncio.CancelledError:
            now_ns = self._clock.now_ns()
            raise WithdrawnError(Written(now_ns, now_ns, Outcome.FAILED, error=WITHDRAWN)) from None
        try:
            t1_ns, t2_ns, outcome, code, _ = await lane.write(write.key.encode(), write.value)
        finally:
            self._lanes.release(lane)
        return Written(t1_ns, t2_ns, outcome, error=code)

    async def _put_aside(self, write: Write) -> Written:
        """What a canary then deletes: no lane has the statement for it."""
        t1_ns = self._clock.now_ns()
        insert = sql.SQL(_PRELOAD).format(schema=self._schema)
        try:
            async with self._control() as connection:
                await connection.execute(insert, ([write.key], [write.value.decode()]))
        except TargetUnavailableError as error:
            return Written(t1_ns, self._clock.now_ns(), Outcome.UNKNOWN, error=type(error).__name__)
        return Written(t1_ns, self._clock.now_ns(), Outcome.OK)

    async def prepare(self) -> None:
        """
        Extension, schema, table, preloaded rows, and the trigger last, so that preloading fires nothing.

        Raises:
            PlanError: the server has no `aws_lambda`, we may not create what we need, or no receiver is known.
            TargetUnavailableError: the server does not answer, or not so.
        """
        receiver = self._settings.receive_events_function_arn
        if not receiver:
            remedy = "Set RECEIVE_EVENTS_FUNCTION_ARN, as the stack does."
            raise self._never(remedy, of="no receiver function is known")
        if any(phase.scale for phase in self._spec.plan.phases):
            self._require_cluster()
        target = self._spec.plan.target
        request_response = isinstance(target, PostgresqlTarget) and target.invocation == "request_response"
        async with self._control() as connection:
            await connection.execute(_script("table.sql").format(schema=self._schema))
            await self._preload(connection)
            identity = sql.SQL("OLD.key" if self._deletes else "NEW.value")
            trigger = _script("trigger.sql").format(
                schema=self._schema,
                function=sql.Literal(receiver),
                region=sql.Literal(region_of(receiver) or self._settings.aws_region),
                invocation=sql.Literal("RequestResponse" if request_response else "Event"),
                identity=identity,
                filter=self._filter(identity),
                changes=sql.SQL("DELETE" if self._deletes else "INSERT OR UPDATE"),
            )
            await connection.execute(trigger)

    def _filter(self, identity: sql.SQL) -> sql.Composable:
        """The trigger's condition, where the plan asks for one: PostgreSQL tests it before it queues the trigger."""
        if self._spec.plan.record.matching_share == 1:
            return sql.SQL("")
        head = sql.Literal(matching_head(self._spec.tag))
        return sql.SQL("WHEN (starts_with({identity}, {head}))").format(identity=identity, head=head)

    async def ready(self) -> bool:
        """Whether the trigger is there and enabled."""
        table = sql.Literal(f"{self._schema.as_string(None)}.records")
        async with self._control() as connection:
            cursor = await connection.execute(sql.SQL(_IS_READY).format(table=table))
            return await cursor.fetchone() == (1,)

    async def tear_down(self) -> bool:
        """
        Give the cluster its own capacity back, and drop the schema; not now if somebody holds a lock on it.

        The extension stays: others may use it.
        """
        # Whatever this trial asked for: one that was cut short in the middle of scaling may have left its bounds.
        if self._settings.aurora_cluster and self._spec.plan.target.endpoint is None:
            async with self._cluster() as cluster:
                if not await cluster.restore():
                    return False
        async with self._control() as connection:
            await connection.execute(_TEAR_DOWN_LIMITS)
            try:
                await connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(self._schema))
            except _NOT_NOW:
                return False
        return True

    async def scale(self, scale: Scale) -> bool:
        """Ask the stack's Aurora Serverless v2 cluster for other bounds; True once they are in force."""
        if not isinstance(scale.capacity, ServerlessCapacity):
            message = f"postgresql scales as serverless_v2, not as {scale.capacity.mode}"
            raise TypeError(message)
        async with self._cluster() as cluster:
            return await cluster.scale(scale.capacity)

    async def provider(self) -> str:
        """`PostgreSQL 18.6 (wheel)`, or `Aurora PostgreSQL 16.4 (Aurora 16.4.1)`."""
        async with self._control() as connection:
            version, cluster, aurora = await _row(connection, _VERSION)
            if aurora:
                (of_aurora,) = await _row(connection, "SELECT aurora_version()")
                return f"Aurora PostgreSQL {version} (Aurora {of_aurora})"
        return f"PostgreSQL {version} ({cluster})" if cluster else f"PostgreSQL {version}"

    def _require_cluster(self) -> str:
        if not self._settings.aurora_cluster:
            remedy = "Deploy the stack with AuroraPostgresql=serverless, or remove `scale` from the plan."
            raise self._never(remedy, of="this stack has no Aurora Serverless v2 cluster to scale")
        return self._settings.aurora_cluster

    @asynccontextmanager
    async def _cluster(self) -> AsyncIterator[ClusterCapacity]:
        """The stack's cluster; its API's connections end with the block."""
        name = self._require_cluster()
        aws = AwsAccess("rds", self._spec, self._settings, self._clock)
        try:
            yield ClusterCapacity(aws, name)
        finally:
            await aws.close()

    async def _make_lane(self) -> Lane:
        connection = await self._access.connect()
        try:
            await connection.execute(f"SET statement_timeout = {STATEMENT_LIMIT_MS}")
        except psycopg.Error as error:
            await connection.close()
            message = f"PostgreSQL refused a new session: {error}"
            raise TargetUnavailableError(message) from error
        lane = Lane(connection, self._statement, self._clock, self._write_limit_s)
        await lane.prepare()  # in vain before `prepare` has made the table; the first write tries again
        return lane

    async def _preload(self, connection: psycopg.AsyncConnection) -> None:
        at_once = max(1, min(_PRELOAD_ROWS, _PRELOAD_BYTES // self._spec.plan.record.value_bytes))
        insert = sql.SQL(_PRELOAD).format(schema=self._schema)
        writes = preloads(self._spec)
        while portion := list(islice(writes, at_once)):
            columns = ([write.key for write in portion], [write.value.decode() for write in portion])
            await connection.execute(insert, columns)

    @asynccontextmanager
    async def _control(self) -> AsyncIterator[psycopg.AsyncConnection]:
        """A connection of its own; the server's errors on it become ours."""
        connection = await self._access.connect()
        try:
            yield connection
        except _NEVER as error:
            remedy = (
                "Use a server that offers the extension aws_lambda, and a user that may create extensions and "
                "schemas (rds_superuser on Aurora)."
            )
            raise self._never(remedy, of=str(error)) from error
        except psycopg.Error as error:
            message = f"PostgreSQL: {error.sqlstate or LOST}: {error}"
            raise TargetUnavailableError(message) from error
        finally:
            await connection.close()

    def _never(self, remedy: str, *, of: str) -> PlanError:
        path = f"trial {self._spec.name}: target"  # by name: its number is that of execution, not of the plan
        return PlanError([Problem(path=path, value="'postgresql'", message=of, remedy=remedy)])


def _script(name: str) -> sql.SQL:
    text = importlib.resources.files("stepbench.drivers.postgresql").joinpath(name).read_text()
    return sql.SQL(text)


async def _row(connection: psycopg.AsyncConnection, query: str) -> tuple[str, ...]:
    cursor = await connection.execute(query)
    row = await cursor.fetchone()
    return tuple(row or ())


def region_of(function: str) -> str:
    """The region in a function's ARN; "" for a bare name."""
    parts = function.split(":")
    return parts[3] if function.startswith("arn:") and len(parts) > 3 else ""  # noqa: PLR2004 -- arn:aws:lambda:region

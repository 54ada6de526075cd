"""
Operations on Aurora DSQL: rows `(key, value, created_at)`, found by their primary key, in one schema for all trials.

It speaks PostgreSQL's protocol and much of its SQL, so all of `operate` is `SqlOperator`'s. What differs:

- There are ten schemas to a database, so a trial has a table and no schema of its own. `BootstrapDsql` makes the one.
- A value is text: jsonb is a type of expressions, and none of columns. A product's update casts, merges, casts back.
- A transaction changes 3,000 rows and 10 MiB at most, and holds one DDL statement or none. There is no COPY, and no
  TRUNCATE. No secondary index is made (it would be CREATE INDEX ASYNC).
- Nothing is locked: who commits second gets SQLSTATE 40001 (OC000; OC001 after somebody's DDL) and has to try again.
- No session parameter is set: few are accepted.

Source:
    Aurora DSQL User Guide: quotas and limits, SQL feature compatibility, concurrency control.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from stepbench.contracts.problem import Problem
from stepbench.contracts.target import DsqlTarget
from stepbench.drivers.operations.dsql_access import DATABASE_ROLE, SCHEMA, DsqlAccess, DsqlCluster
from stepbench.drivers.operations.dsql_role import insist
from stepbench.drivers.operations.preloading import preload
from stepbench.drivers.operations.sql_operations import SqlOperations, limits_of
from stepbench.drivers.operations.sql_operator import SqlOperator
from stepbench.drivers.operations.sql_statements import Table, statements
from stepbench.drivers.postgresql.access import CONTROL_LIMIT_S
from stepbench.drivers.postgresql.conversation import LOST
from stepbench.drivers.postgresql.lane import WRITE_LIMIT_S
from stepbench.drivers.postgresql.lanes import Lanes
from stepbench.drivers.protocol import PROBED
from stepbench.errors import PlanError, TargetUnavailableError
from stepbench.load.operations import Contents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.workload import Workload
    from stepbench.drivers.operations.sql_statements import Statements
    from stepbench.drivers.protocol import Operation
    from stepbench.settings import Settings

MOST_ROWS, MOST_BYTES = 3_000, 10 * 1024 * 1024
"""That one transaction may change. Rows have overheads, so what is preloaded at a time is well below."""
PRELOAD_ROWS, PRELOAD_BYTES, PRELOAD_LANES = 1_000, 4_000_000, 8
"""In one INSERT, and how many of those at a time."""
_CREATE = """
CREATE TABLE IF NOT EXISTS {table} (
    key text PRIMARY KEY, value text NOT NULL, created_at timestamptz NOT NULL DEFAULT now()
)"""
_PRELOAD = "INSERT INTO {table} (key, value) VALUES {rows} ON CONFLICT (key) DO NOTHING"
_IS_THERE = "SELECT 1 FROM {table} WHERE key = %s"
_NEVER = (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidSchemaName)
_MERGED = "(value::jsonb || $2::text::jsonb)::text"


class DsqlOperations(SqlOperations):
    """One trial's table `stepbench.records_<tag>` in one cluster, through one of its endpoints."""

    def __init__(
        self,
        spec: TrialSpec,
        settings: Settings,
        clock: Clock,
        *,
        answer_limit_s: float = WRITE_LIMIT_S,
        control_limit_s: float = CONTROL_LIMIT_S,
    ) -> None:
        """
        `answer_limit_s`: when a statement is given up.

        Raises:
            PlanError: no such cluster is known, or the trial has no workload.
        """
        self._spec = spec
        self._clock = clock
        self._workload = _workload(spec)
        cluster = DsqlCluster.of(spec, settings)
        self._region = cluster.region
        self._access = DsqlAccess.of(cluster, settings, clock, DATABASE_ROLE, control_limit_s)
        self._table = sql.Identifier(SCHEMA, f"records_{spec.tag}")
        limits = limits_of(spec.plan, answer_limit_s)
        self._operator = SqlOperator(
            self._access.conninfo, self._statements(), clock, limits, reuse=self._workload.reuse
        )

    async def prepare(self) -> None:
        """
        The table, and the preloaded records, some batches at a time; a second call goes on where it was.

        Raises:
            PlanError: the schema is not there, or not for us: the cluster was never bootstrapped.
            TargetUnavailableError: the cluster does not answer, or not so.
        """
        async with self._control() as connection:
            await insist(connection, sql.SQL(_CREATE).format(table=self._table), self._clock)
        sessions = Lanes(self._session, PRELOAD_LANES, insist=True)
        try:
            await self._preload(sessions)
        finally:
            sessions.close()

    async def ready(self) -> bool:
        """Whether the table is there, with its last preloaded record."""
        records = self._workload.records
        key = Contents(self._workload, self._spec.tag).preloaded(records - 1).key if records else ""
        async with self._control() as connection:
            try:
                return await self._is_there(connection, key) or not records
            except psycopg.errors.UndefinedTable:
                return False

    async def tear_down(self) -> bool:
        """Drop the table; not now if somebody else's DDL was in the way. Without the schema nothing was made."""
        async with self._control() as connection:
            try:
                await connection.execute(sql.SQL("DROP TABLE IF EXISTS {table}").format(table=self._table))
            except psycopg.errors.SerializationFailure:
                return False
            except psycopg.errors.InvalidSchemaName:
                return True
        return True

    async def provider(self) -> str:
        """`Aurora DSQL, multi-region, in eu-west-1 (PostgreSQL 16), TLS`, by what the server says of itself."""
        target = self._spec.plan.target
        kind = "multi-region" if isinstance(target, DsqlTarget) and target.cluster == "multi" else "single-region"
        async with self._control() as connection:
            version = connection.info.parameter_status("server_version") or "unknown version"
            tls = ", TLS" if connection.pgconn.ssl_in_use else ""
        return f"Aurora DSQL, {kind}, in {self._region} (PostgreSQL {version}){tls}"

    def _statements(self) -> Statements:
        merged = None if self._workload.record.shape == "blob" else sql.SQL(_MERGED)
        offered = self._workload.mix.kinds | PROBED
        table = Table(self._table, sql.SQL("$2"), merged)
        return {kind: run for kind, run in statements(table).items() if kind in offered}

    async def _preload(self, sessions: Lanes[_Session]) -> None:
        async def write_batch(records: Sequence[Operation]) -> str:
            rows = sql.SQL(", ").join([sql.SQL("(%s, %s)")] * len(records))
            values = [text for each in records for text in (each.key, each.value.decode())]
            session = await sessions.acquire()
            try:
                insert = sql.SQL(_PRELOAD).format(table=self._table, rows=rows)
                await session.connection.execute(insert, values)
            except psycopg.Error as error:
                return error.sqlstate or LOST
            finally:
                sessions.release(session)
            return ""

        async def exists(key: str) -> bool:
            async with self._control() as connection:
                return await self._is_there(connection, key)

        size = self._workload.record.key_bytes + self._workload.record.value_bytes
        batch = max(1, min(PRELOAD_ROWS, PRELOAD_BYTES // size))
        await preload(self._spec, write_batch, self._clock, batch=batch, lanes=PRELOAD_LANES, exists=exists)

    async def _is_there(self, connection: psycopg.AsyncConnection, key: str) -> bool:
        cursor = await connection.execute(sql.SQL(_IS_THERE).format(table=self._table), (key,))
        return await cursor.fetchone() is not None

    async def _session(self) -> _Session:
        return _Session(await self._access.connect())

    @asynccontextmanager
    async def _control(self) -> AsyncIterator[psycopg.AsyncConnection]:
        """A connection of its own; the server's errors on it become ours."""
        connection = await self._access.connect()
        try:
            yield connection
        except _NEVER as error:
            remedy = f"Bootstrap the cluster: role and schema `{SCHEMA}` (docs/deploy.md, Aurora DSQL)."
            raise _refusal(self._spec, str(error), remedy) from error
        except psycopg.Error as error:
            message = f"Aurora DSQL: {error.sqlstate or LOST}: {error}"
            raise TargetUnavailableError(message) from error
        finally:
            await connection.close()


class _Session:
    """One connection for preloading, as `Lanes` keeps them."""

    def __init__(self, connection: psycopg.AsyncConnection) -> None:
        self.connection = connection

    @property
    def broken(self) -> bool:
        return self.connection.broken or self.connection.closed

    def close(self) -> None:
        self.connection.pgconn.finish()


def _workload(spec: TrialSpec) -> Workload:
    if spec.plan.workload is None:
        raise _refusal(spec, "operations need a workload", 'Give one, such as {"mix": {"read": 1}}.')
    return spec.plan.workload


def _refusal(spec: TrialSpec, message: str, remedy: str) -> PlanError:
    return PlanError([Problem(path=f"trial {spec.name}: target", value="'dsql'", message=message, remedy=remedy)])

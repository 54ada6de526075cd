"""
Operations on Aurora DSQL: rows `(key, value, created_at)`, found by their primary key, in one schema for all trials.

Those of the shape `row` are `(id, data, created_at)`, as they were published.

It speaks PostgreSQL's protocol and much of its SQL, so most is `SqlOperations`'. What differs:

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

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from stepbench.contracts.target import DsqlTarget
from stepbench.drivers.dsql.access import (
    DATABASE_ROLE,
    SCHEMA,
    WRITER_ROLE,
    DsqlCluster,
    cluster_access,
    execute_ddl,
    grant_table,
)
from stepbench.drivers.sql import CREATE_ROWS, Table, table_of_rows
from stepbench.drivers.sql.access import WRITE_LIMIT_S, PermanentErrors
from stepbench.drivers.sql.operations import Database, SqlOperations, workload_of
from stepbench.workload.operations import Contents

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.sql.access import BoundedConnection
    from stepbench.settings import Settings

MOST_ROWS, MOST_BYTES = 3_000, 10 * 1024 * 1024
"""That one transaction may change. Rows have overheads, so what is preloaded at a time is well below."""
PRELOAD_ROWS, PRELOAD_BYTES, PRELOAD_SESSIONS = 1_000, 4_000_000, 8
_CREATE = """
CREATE TABLE IF NOT EXISTS {table} (
    key text PRIMARY KEY, value text NOT NULL, created_at timestamptz NOT NULL DEFAULT now()
)"""
_MERGED = "(value::jsonb || $2::text::jsonb)::text"
_PERMANENT = PermanentErrors(
    (psycopg.errors.InsufficientPrivilege, psycopg.errors.InvalidSchemaName, psycopg.errors.UndefinedObject),
    f"Bootstrap the cluster: schema `{SCHEMA}`, roles `{DATABASE_ROLE}` and `{WRITER_ROLE}` (docs/servers.md).",
)


class DsqlOperations(SqlOperations):
    """One trial's table `stepbench.records_<tag>` in one cluster, through one of its endpoints."""

    def __init__(
        self,
        spec: TrialSpec,
        settings: Settings,
        clock: Clock,
        *,
        answer_limit_s: float = WRITE_LIMIT_S,
    ) -> None:
        """
        `answer_limit_s`: when a statement is given up.

        Raises:
            PlanError: no such cluster is known, or the trial has no workload.
        """
        name, shape = sql.Identifier(SCHEMA, f"records_{spec.tag}"), workload_of(spec).record.shape
        merged = None if shape == "blob" else sql.SQL(_MERGED)
        table = table_of_rows(name) if shape == "row" else Table(name, sql.SQL(""), merged)
        cluster = DsqlCluster.of(spec, settings)
        self._region, self._active_after_s = cluster.region, cluster.active_after_s
        access, load = (cluster_access(cluster, settings, clock, role) for role in (DATABASE_ROLE, WRITER_ROLE))
        sizes = PRELOAD_ROWS, PRELOAD_BYTES, PRELOAD_SESSIONS
        super().__init__(spec, clock, Database(access, _PERMANENT, table, *sizes, load_access=load), answer_limit_s)

    async def tear_down(self) -> bool:
        """Drop the table; not now if somebody else's DDL was in the way. Without the schema nothing was made."""
        async with self._control() as connection:
            try:
                await connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(self._database.table.name))
            except psycopg.errors.SerializationFailure:
                return False
            except psycopg.errors.InvalidSchemaName:
                return True
        return True

    def resource_names(self) -> tuple[str, ...]:
        """See `Driver`."""
        return (f"table {self._database.table.name.as_string(None)}",)

    async def provider(self) -> str:
        """
        Return `Aurora DSQL, multi-region, in eu-west-1 (PostgreSQL 16), TLS, active 108.2 s after its creation`.

        By the server's own word, but for the time, which is the stack's.
        """
        target = self._spec.offered.target
        kind = "multi-region" if isinstance(target, DsqlTarget) and target.cluster == "multi" else "single-region"
        async with self._control() as connection:
            version = connection.info.parameter_status("server_version") or "unknown version"
            tls = ", TLS" if connection.pgconn.ssl_in_use else ""
        active = f", active {self._active_after_s} s after its creation" if self._active_after_s else ""
        return f"Aurora DSQL, {kind}, in {self._region} (PostgreSQL {version}){tls}{active}"

    async def _create_table(self, connection: BoundedConnection) -> None:
        table = self._database.table
        create = sql.SQL(CREATE_ROWS if table.of_rows else _CREATE)
        await execute_ddl(connection, create.format(table=table.name), self._clock)
        await grant_table(connection, table.name, self._clock)

    async def _has_table(self, connection: BoundedConnection) -> bool:
        """Ask the table itself: DSQL's documentation promises no to_regclass."""
        try:
            await self._has_record(connection, Contents(self._workload, self._spec.tag).preloaded(0).key)
        except psycopg.errors.UndefinedTable:
            return False
        return True

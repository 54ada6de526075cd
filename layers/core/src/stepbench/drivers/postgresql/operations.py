"""
Operations on PostgreSQL: rows `(key, value, created_at)` in a table of the trial's own, found by their primary key.

A blob's value is text; a product's is jsonb, which an update merges its fields into (`||`, so that PostgreSQL writes a
whole new row all the same). Keys compare by their bytes (`COLLATE "C"`), whatever the database's language.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from stepbench.drivers.postgresql.server import SESSION_OPTIONS, drop_schema, server_name, trial_access
from stepbench.drivers.sql.access import CONTROL_LIMIT_S, WRITE_LIMIT_S, PermanentErrors
from stepbench.drivers.sql.operations import Database, SqlOperations, workload_of
from stepbench.drivers.sql.statements import CREATE_ROWS, Table, table_of_rows

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.sql.access import BoundedConnection
    from stepbench.settings import Settings

_PRELOAD_ROWS, _PRELOAD_BYTES, _PRELOAD_SESSIONS = 2_000, 2_000_000, 1
_CREATE_SCHEMA = "CREATE SCHEMA IF NOT EXISTS {schema};"
_CREATE = """
CREATE TABLE IF NOT EXISTS {table} (
    key text COLLATE "C" PRIMARY KEY, value {type} NOT NULL, created_at timestamptz NOT NULL DEFAULT now()
)"""
_TLS_VERSION = "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
_PERMANENT = PermanentErrors(
    (psycopg.errors.InsufficientPrivilege,), "Use a user that may create schemas in the database."
)


class PostgresqlOperations(SqlOperations):
    """One trial's schema `stepbench_<tag>` with its table `records`, in one database."""

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
        `answer_limit_s`: when a statement is given up; the server's own limit is `STATEMENT_LIMIT_MS`.

        Raises:
            PlanError: no server is known, or the trial has no workload.
        """
        self._schema = sql.Identifier(f"stepbench_{spec.tag}")
        name = sql.Identifier(f"stepbench_{spec.tag}", "records")
        shape, self._type = workload_of(spec).record.shape, sql.SQL("text")
        if shape == "row":
            table = table_of_rows(name)
        elif shape == "blob":
            table = Table(name, sql.SQL(""), None)
        else:
            merged = sql.SQL("value || $2::text::jsonb")
            self._type, table = sql.SQL("jsonb"), Table(name, sql.SQL("::text::jsonb"), merged)
        access = trial_access(spec, settings, control_limit_s)
        sizes = _PRELOAD_ROWS, _PRELOAD_BYTES, _PRELOAD_SESSIONS
        super().__init__(spec, clock, Database(access, _PERMANENT, table, *sizes, SESSION_OPTIONS), answer_limit_s)

    async def prepare(self) -> None:
        """See `SqlOperations`."""
        await super().prepare()
        async with self._control() as connection:
            await connection.execute(sql.SQL("ANALYZE {table}").format(table=self._database.table.name))

    async def tear_down(self) -> bool:
        """Drop the schema; not now if somebody holds a lock on it."""
        async with self._control() as connection:
            return await drop_schema(connection, self._schema)

    def resource_names(self) -> tuple[str, ...]:
        """See `Driver`."""
        return (f"schema {self._schema.as_string(None)}",)

    async def provider(self) -> str:
        """Return the server's name and TLS: `PostgreSQL 17.10 (wheel), TLSv1.3`."""
        async with self._control() as connection:
            name = await server_name(connection)
            (tls,) = await connection.row(_TLS_VERSION)
        return f"{name}, {tls}" if tls else name

    async def _create_table(self, connection: BoundedConnection) -> None:
        names = {"schema": self._schema, "table": self._database.table.name, "type": self._type}
        create = _CREATE_SCHEMA + (CREATE_ROWS if self._database.table.of_rows else _CREATE)
        await connection.execute(sql.SQL(create).format(**names))

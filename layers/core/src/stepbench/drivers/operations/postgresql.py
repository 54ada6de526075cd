"""
Operations on PostgreSQL: rows `(key, value, created_at)` in a table of the trial's own, found by their primary key.

A blob's value is text; a product's is jsonb, which an update merges its fields into (`||`, so that PostgreSQL writes a
whole new row all the same). Keys compare by their bytes (`COLLATE "C"`), whatever the database's language.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from stepbench.contracts.problem import Problem
from stepbench.drivers.operations.preloading import PRELOAD_FOR_S
from stepbench.drivers.operations.sql_operations import SqlOperations, limits_of
from stepbench.drivers.operations.sql_operator import SqlOperator
from stepbench.drivers.operations.sql_statements import Table, statements
from stepbench.drivers.postgresql.access import CONTROL_LIMIT_S, Access
from stepbench.drivers.postgresql.conversation import LOST
from stepbench.drivers.postgresql.lane import STATEMENT_LIMIT_MS, WRITE_LIMIT_S
from stepbench.drivers.protocol import PROBED
from stepbench.errors import PlanError, TargetUnavailableError
from stepbench.load.operations import Contents

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from psycopg.abc import Params, QueryNoTemplate

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.contracts.workload import Workload
    from stepbench.drivers.operations.sql_statements import Statements
    from stepbench.settings import Settings

_PRELOAD_ROWS, _PRELOAD_BYTES = 2_000, 2_000_000
_TEAR_DOWN_LIMITS = "SET lock_timeout = '2s'; SET statement_timeout = '25s'"
_NOT_NOW = (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled, psycopg.errors.DeadlockDetected)
_CREATE = """
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {table} (
    key text COLLATE "C" PRIMARY KEY, value {type} NOT NULL, created_at timestamptz NOT NULL DEFAULT now()
)"""
_PRELOAD = """
INSERT INTO {table} (key, value) SELECT key, value::{type} FROM unnest(%s::text[], %s::text[]) AS made (key, value)
ON CONFLICT (key) DO NOTHING"""
_IS_THERE = "SELECT count(*) FROM {table} WHERE key = %s"
_VERSION = "SELECT current_setting('server_version'), current_setting('cluster_name'), to_regproc('aurora_version')"
_AURORA = "SELECT aurora_version()"


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
        self._spec = spec
        self._workload = _workload(spec)
        self._access = Access.of_operations(spec, settings, control_limit_s)
        self._schema = sql.Identifier(f"stepbench_{spec.tag}")
        self._table = sql.Identifier(f"stepbench_{spec.tag}", "records")
        self._type = sql.SQL("text" if self._workload.record.shape == "blob" else "jsonb")
        self._clock = clock
        limits = limits_of(spec.plan, answer_limit_s)
        self._operator = SqlOperator(self._conninfo, self._statements(), clock, limits, reuse=self._workload.reuse)

    async def prepare(self) -> None:
        """
        Schema, table, and the preloaded records: each batch whole, in order, so that a second call goes on behind it.

        Raises:
            PlanError: we may not create what we need.
            TargetUnavailableError: the server does not answer, or not so.
        """
        names = {"schema": self._schema, "table": self._table, "type": self._type}
        async with self._control() as connection:
            await connection.execute(sql.SQL(_CREATE).format(**names))
            await self._preload(connection)
            await connection.execute(sql.SQL("ANALYZE {table}").format(**names))

    async def ready(self) -> bool:
        """Whether the table is there, with its last preloaded record."""
        async with self._control() as connection:
            row = await _row(connection, "SELECT to_regclass(%s)", (self._table.as_string(None),))
            return row[0] is not None and await self._has_all(connection)

    async def tear_down(self) -> bool:
        """Drop the schema; not now if somebody holds a lock on it."""
        async with self._control() as connection:
            await connection.execute(_TEAR_DOWN_LIMITS)
            try:
                await connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(self._schema))
            except _NOT_NOW:
                return False
        return True

    async def provider(self) -> str:
        """`PostgreSQL 17.10 (wheel), TLSv1.3`, or `Aurora PostgreSQL 16.4 (Aurora 16.4.1)`."""
        async with self._control() as connection:
            version, cluster, aurora = await _row(connection, _VERSION)
            if aurora:
                (of_aurora,) = await _row(connection, _AURORA)
                name = f"Aurora PostgreSQL {version} (Aurora {of_aurora})"
            else:
                name = f"PostgreSQL {version} ({cluster})" if cluster else f"PostgreSQL {version}"
            (tls,) = await _row(connection, "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
        return f"{name}, {tls}" if tls else name

    async def _conninfo(self) -> bytes:
        return await self._access.conninfo(options=f"-c statement_timeout={STATEMENT_LIMIT_MS}")

    def _statements(self) -> Statements:
        if self._workload.record.shape == "blob":
            table = Table(self._table, sql.SQL("$2"), None)
        else:
            table = Table(self._table, sql.SQL("$2::text::jsonb"), sql.SQL("value || $2::text::jsonb"))
        offered = self._workload.mix.kinds | PROBED
        return {kind: run for kind, run in statements(table).items() if kind in offered}

    async def _preload(self, connection: psycopg.AsyncConnection) -> None:
        contents, records = Contents(self._workload, self._spec.tag), self._workload.records
        size = self._workload.record.key_bytes + self._workload.record.value_bytes
        at_once = max(1, min(_PRELOAD_ROWS, _PRELOAD_BYTES // size))
        insert = sql.SQL(_PRELOAD).format(table=self._table, type=self._type)
        first = await self._first_absent(connection, contents, at_once)
        deadline_ns = self._clock.now_ns() + int(PRELOAD_FOR_S * 1e9)
        for start in range(first, records, at_once):
            if self._clock.now_ns() >= deadline_ns:
                message = f"PostgreSQL: {start:,} of {records:,} records are written; a retry goes on from there"
                raise TargetUnavailableError(message)
            portion = [contents.preloaded(number) for number in range(start, min(start + at_once, records))]
            columns = ([each.key for each in portion], [each.value.decode() for each in portion])
            await connection.execute(insert, columns)

    async def _first_absent(self, connection: psycopg.AsyncConnection, contents: Contents, at_once: int) -> int:
        """Where to go on: batches are there whole and in order, so that a look rules out half of the rest."""
        low, high = 0, -(-self._workload.records // at_once)
        while low < high:
            middle = (low + high) // 2
            last = min((middle + 1) * at_once, self._workload.records) - 1
            if await self._is_there(connection, contents.preloaded(last).key):
                low = middle + 1
            else:
                high = middle
        return low * at_once

    async def _has_all(self, connection: psycopg.AsyncConnection) -> bool:
        if not self._workload.records:
            return True
        last = Contents(self._workload, self._spec.tag).preloaded(self._workload.records - 1)
        return await self._is_there(connection, last.key)

    async def _is_there(self, connection: psycopg.AsyncConnection, key: str) -> bool:
        return await _row(connection, sql.SQL(_IS_THERE).format(table=self._table), (key,)) == (1,)

    @asynccontextmanager
    async def _control(self) -> AsyncIterator[psycopg.AsyncConnection]:
        """A connection of its own; the server's errors on it become ours."""
        connection = await self._access.connect()
        try:
            yield connection
        except psycopg.errors.InsufficientPrivilege as error:
            remedy = "Use a user that may create schemas in the database."
            raise _refusal(self._spec, str(error), remedy) from error
        except psycopg.Error as error:
            message = f"PostgreSQL: {error.sqlstate or LOST}: {error}"
            raise TargetUnavailableError(message) from error
        finally:
            await connection.close()


def _workload(spec: TrialSpec) -> Workload:
    if spec.plan.workload is None:
        raise _refusal(spec, "operations need a workload", 'Give one, such as {"mix": {"read": 1}}.')
    return spec.plan.workload


def _refusal(spec: TrialSpec, message: str, remedy: str) -> PlanError:
    path = f"trial {spec.name}: target"
    return PlanError([Problem(path=path, value="'postgresql'", message=message, remedy=remedy)])


async def _row(
    connection: psycopg.AsyncConnection, query: QueryNoTemplate, values: Params | None = None
) -> tuple[Any, ...]:
    return await (await connection.execute(query, values)).fetchone() or ()

"""
What the drivers of PostgreSQL and Aurora DSQL share: access, sessions, executions, and here their statements. Pure.

They are those by which stores that speak PostgreSQL's protocol execute requests, and what their results mean.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from psycopg import sql

from stepbench.contracts.workload import Kind
from stepbench.model.errors import NOT_FOUND

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

    from stepbench.model.request import Request
    from stepbench.workload.checks import RecordCheck

Arguments = Callable[["Request"], Sequence[bytes | None]]
Judge = Callable[["Request", "PGresult"], str]
"""Returns the error that a statement's result means, "" where it is right."""


def find_row(_request: Request, result: PGresult) -> str:
    """Return `NOT_FOUND` where no row was read or changed."""
    return NOT_FOUND if result.command_tuples == 0 else ""


class Statement(NamedTuple):
    """
    One statement, with its own name once it is prepared.

    arguments: the values of $1, $2 … in binary format (of text: its UTF-8; in text format libpq would cut at a NUL);
    None is NULL.
    judge: of its result, where the server has refused nothing.
    """

    name: bytes
    text: bytes
    arguments: Arguments
    judge: Judge = find_row


Statements = Mapping[Kind, tuple[Statement, ...]]
"""What each kind of request executes, one after the other, each in a transaction of its own."""


class Table(NamedTuple):
    """
    A table `name` with columns key and value, or one of rows as they were published (`CREATE_ROWS`).

    cast: what makes a written value of a text parameter ("::text::jsonb"). merged: the expression of an updated value,
    of $2; None where there are no updates: then a read-modify-write overwrites.
    """

    name: sql.Composable
    cast: sql.SQL
    merged: sql.SQL | None
    of_rows: bool = False

    @property
    def key(self) -> sql.Identifier:
        """Return the column of the primary key."""
        return sql.Identifier("id" if self.of_rows else "key")


def table_of_rows(name: sql.Composable) -> Table:
    """Return a table that `CREATE_ROWS` makes."""
    return Table(name, sql.SQL(""), None, of_rows=True)


CREATE_ROWS = """
CREATE TABLE IF NOT EXISTS {table} (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), data text, created_at timestamptz DEFAULT now()
)"""
_SELECT_ROW = "SELECT id, data FROM {table} LIMIT 1"
_INSERT_ROW = "INSERT INTO {table} (id, data) VALUES ($1::text::uuid, $2)"
_PRELOAD_ROWS = "INSERT INTO {table} (id, data) VALUES {rows} ON CONFLICT (id) DO NOTHING"

_READ = "SELECT value FROM {table} WHERE key = $1"
_SCAN = "SELECT key, value FROM {table} WHERE key >= $1 ORDER BY key LIMIT $2"
_INSERT = "INSERT INTO {table} (key, value) VALUES ($1, {value}) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_INSERT_ROWS = "INSERT INTO {table} (key, value) VALUES {rows} ON CONFLICT (key) DO NOTHING"
_DELETE = "DELETE FROM {table} WHERE key = $1"
_CHANGE = "UPDATE {table} SET value = {value} WHERE key = $1"


def statements(table: Table, check: RecordCheck | None = None) -> Statements:
    """
    Return the statements of every kind of request that the table can do; `check` looks at what those that read find.

    An insert is one that overwrites where the record is there already, so that a slice which is attempted again does
    not fail (as PutItem and HSET do, too). Only that of published rows is plain, as published: in closed loop a later
    attempt's keys are others, and in open loop it offers what is still ahead. A read-modify-write is two statements as
    in YCSB, not one transaction.
    """
    written = sql.SQL("$2{}").format(table.cast)

    def statement(name: str, template: str, arguments: Arguments, value: sql.Composable = written) -> Statement:
        text = sql.SQL(template).format(table=table.name, value=value).as_bytes(None)
        return Statement(name.encode(), text, arguments)

    def reading(statement: Statement, judge: Callable[[RecordCheck, Request, PGresult], str]) -> Statement:
        return statement if check is None else statement._replace(judge=partial(judge, check))

    if table.of_rows:
        select = statement("stepbench_select_row", _SELECT_ROW, lambda _: [])
        return {
            Kind.READ: (reading(select, _judge_row),),
            Kind.INSERT: (statement("stepbench_insert_row", _INSERT_ROW, key_and_value),),
        }
    read = reading(statement("stepbench_read", _READ, _key_of), _judge_value)
    overwrite = statement("stepbench_overwrite", _CHANGE, key_and_value)
    by_kind = {
        Kind.READ: (read,),
        Kind.INSERT: (statement("stepbench_insert", _INSERT, key_and_value),),
        Kind.OVERWRITE: (overwrite,),
        Kind.READ_MODIFY_WRITE: (read, overwrite),
        Kind.SCAN: (reading(statement("stepbench_scan", _SCAN, _key_and_rows), _judge_scan),),
        # A trigger's: what was deleted before, by a write whose answer was lost, is deleted.
        Kind.DELETE: (statement("stepbench_delete", _DELETE, _key_of)._replace(judge=lambda *_: ""),),
    }
    if table.merged is not None:
        update = statement("stepbench_update", _CHANGE, key_and_value, table.merged)
        by_kind |= {Kind.UPDATE: (update,), Kind.READ_MODIFY_WRITE: (read, update)}
    return by_kind


def insert_rows(table: Table, count: int) -> bytes:
    """Return the statement that inserts so many rows, keys and values in turn; those that are there stay."""
    key_cast = "::text::uuid" if table.of_rows else ""
    rows = [sql.SQL(f"(${n}{key_cast}, ${n + 1}{{cast}})").format(cast=table.cast) for n in range(1, 2 * count, 2)]
    return (
        sql.SQL(_PRELOAD_ROWS if table.of_rows else _INSERT_ROWS)
        .format(table=table.name, rows=sql.SQL(", ").join(rows))
        .as_bytes(None)
    )


def key_and_value(request: Request) -> list[bytes]:
    """Return what $1 and $2 are in a statement that writes."""
    return [request.key.encode(), request.value]


def _judge_value(check: RecordCheck, request: Request, result: PGresult) -> str:
    return find_row(request, result) or check.read(request.key, result.get_value(0, 0) or b"")


def _judge_row(check: RecordCheck, request: Request, result: PGresult) -> str:
    return find_row(request, result) or check.row(result.get_value(0, 0) or b"", result.get_value(0, 1) or b"")


def _judge_scan(check: RecordCheck, request: Request, result: PGresult) -> str:
    if not result.ntuples:
        return NOT_FOUND
    cells = [(result.get_value(row, 0) or b"", result.get_value(row, 1) or b"") for row in range(result.ntuples)]
    return check.scan(request, [(key.decode("utf-8", "replace"), value) for key, value in cells])


def _key_of(request: Request) -> list[bytes]:
    return [request.key.encode()]


def _key_and_rows(request: Request) -> list[bytes]:
    return [request.key.encode(), struct.pack(">q", request.rows)]

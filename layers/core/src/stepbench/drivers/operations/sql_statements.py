"""Operations as SQL: what stores that speak PostgreSQL's protocol have in common. Pure."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from psycopg import sql

from stepbench.contracts.workload import Kind

if TYPE_CHECKING:
    from stepbench.drivers.protocol import Operation

Arguments = Callable[["Operation"], list[bytes]]


class Statement(NamedTuple):
    """
    One statement, with its own name once it is prepared. Every one of them touches a row, or has not found it.

    arguments: the values of $1, $2 … in binary format (of text: its UTF-8; in text format libpq would cut at a NUL).
    """

    name: bytes
    text: bytes
    arguments: Arguments


Statements = Mapping[Kind, tuple[Statement, ...]]
"""What each kind of operation executes, one after the other, each in a transaction of its own."""


class Table(NamedTuple):
    """
    A table `name` with columns key and value.

    value: the expression of a written value, of $2. merged: the expression of an updated one, None where there are no
    updates: then a read-modify-write overwrites.
    """

    name: sql.Composable
    value: sql.SQL
    merged: sql.SQL | None


_READ = "SELECT value FROM {table} WHERE key = $1"
_SCAN = "SELECT key, value FROM {table} WHERE key >= $1 ORDER BY key LIMIT $2"
_INSERT = "INSERT INTO {table} (key, value) VALUES ($1, {value}) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_CHANGE = "UPDATE {table} SET value = {value} WHERE key = $1"


def statements(table: Table) -> Statements:
    """
    For every kind that the table can do.

    An insert is one that overwrites where the record is there already, so that a slice which is attempted again does
    not fail (as PutItem and HSET do, too). A read-modify-write is two statements as in YCSB, not one transaction.
    """

    def statement(name: str, template: str, arguments: Arguments, value: sql.SQL = table.value) -> Statement:
        text = sql.SQL(template).format(table=table.name, value=value).as_bytes(None)
        return Statement(name.encode(), text, arguments)

    read = statement("stepbench_read", _READ, _key)
    overwrite = statement("stepbench_overwrite", _CHANGE, _key_and_value)
    found = {
        Kind.READ: (read,),
        Kind.INSERT: (statement("stepbench_insert", _INSERT, _key_and_value),),
        Kind.OVERWRITE: (overwrite,),
        Kind.READ_MODIFY_WRITE: (read, overwrite),
        Kind.SCAN: (statement("stepbench_scan", _SCAN, _key_and_rows),),
    }
    if table.merged is not None:
        update = statement("stepbench_update", _CHANGE, _key_and_value, table.merged)
        found |= {Kind.UPDATE: (update,), Kind.READ_MODIFY_WRITE: (read, update)}
    return found


def _key(operation: Operation) -> list[bytes]:
    return [operation.key.encode()]


def _key_and_value(operation: Operation) -> list[bytes]:
    return [operation.key.encode(), operation.value]


def _key_and_rows(operation: Operation) -> list[bytes]:
    return [operation.key.encode(), struct.pack(">q", operation.rows)]

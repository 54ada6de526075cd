"""
What is asked of Cassandra: the trial's keyspace and table, a statement for each kind of operation, their values. Pure.

A blob is a row of key and value, a product one of key and a column of text for each field. An overwrite sets all
columns and an update those that change; both would make the row if it were not there, since to Cassandra every write is
an upsert. A scan takes rows in the order of the keys' tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.workload import Kind
from stepbench.load.products import FIELD_BYTES, UPDATED
from stepbench.wire.cql import Consistency

if TYPE_CHECKING:
    from stepbench.contracts.target import CassandraTarget
    from stepbench.drivers.protocol import Operation

CONSISTENCIES = {"one": Consistency.ONE, "local_quorum": Consistency.LOCAL_QUORUM}
_INT_BYTES = 4


class Statements(NamedTuple):
    """CQL texts, the same for the whole trial."""

    read: str
    write: str
    update: str
    scan: str


def keyspace_of(tag: str) -> str:
    """The trial's own; names have letters, digits and underscores only."""
    return f"stepbench_{tag.replace('-', '_')}"


def making(tag: str, target: CassandraTarget, *, product: bool) -> tuple[str, str]:
    """
    What makes keyspace and table, unless they are there.

    The strategy puts copies into every data centre that there is. (`SimpleStrategy`, which knows of none, is refused by
    ScyllaDB's tablets.)
    """
    keyspace = keyspace_of(tag)
    columns = ", ".join(f'"{name}" text' for name in FIELD_BYTES) if product else "value blob"
    strategy = f"{{'class': 'NetworkTopologyStrategy', 'replication_factor': {target.replication}}}"
    return (
        f"CREATE KEYSPACE IF NOT EXISTS {keyspace} WITH replication = {strategy}",
        f"CREATE TABLE IF NOT EXISTS {keyspace}.records (key text PRIMARY KEY, {columns})",
    )


def dropping(tag: str) -> str:
    """What removes them."""
    return f"DROP KEYSPACE IF EXISTS {keyspace_of(tag)}"


def statements_of(tag: str, *, product: bool) -> Statements:
    """A statement for each kind of operation."""
    table = f"{keyspace_of(tag)}.records"
    names = [f'"{name}"' for name in FIELD_BYTES] if product else ["value"]
    listed, marks = ", ".join(names), ", ".join("?" for _ in names)
    changed = ", ".join(f'"{name}" = ?' for name in UPDATED) if product else "value = ?"
    return Statements(  # names are ours, values stand beside the text
        read=f"SELECT {listed} FROM {table} WHERE key = ?",  # noqa: S608
        write=f"INSERT INTO {table} (key, {listed}) VALUES (?, {marks})",  # noqa: S608
        update=f"UPDATE {table} SET {changed} WHERE key = ?",  # noqa: S608
        scan=f"SELECT key, {listed} FROM {table} WHERE token(key) >= token(?) LIMIT ?",  # noqa: S608
    )


def steps_of(operation: Operation, statements: Statements) -> list[tuple[str, tuple[bytes, ...]]]:
    """One statement with its values, or for a read-modify-write two."""
    key = operation.key.encode()
    match operation.kind:
        case Kind.READ:
            return [(statements.read, (key,))]
        case Kind.SCAN:
            return [(statements.scan, (key, operation.rows.to_bytes(_INT_BYTES)))]
        case Kind.READ_MODIFY_WRITE:
            return [(statements.read, (key,)), _written(operation, key, statements)]
        case _:
            return [_written(operation, key, statements)]


def values_of(operation: Operation, key: bytes) -> tuple[bytes, ...]:
    """Those of `Statements.write`."""
    if operation.fields is None:
        return (key, operation.value)
    return (key, *[operation.fields[name].encode() for name in FIELD_BYTES])


def _written(operation: Operation, key: bytes, statements: Statements) -> tuple[str, tuple[bytes, ...]]:
    if operation.fields is not None and len(operation.fields) == len(UPDATED):
        return statements.update, (*[operation.fields[name].encode() for name in UPDATED], key)
    return statements.write, values_of(operation, key)

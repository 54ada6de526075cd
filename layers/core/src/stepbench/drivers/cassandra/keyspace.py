"""A trial's own keyspace: its name, how it is made and dropped, and when all nodes know it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.drivers.protocol import uncancellable
from stepbench.wire.cql import frames as cql
from stepbench.wire.cql.frames import Consistency

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepbench.contracts.target import CassandraTarget
    from stepbench.drivers.cassandra.access import CassandraAccess
    from stepbench.wire.cql.connection import CqlConnection

CONSISTENCIES = {"one": Consistency.ONE, "local_quorum": Consistency.LOCAL_QUORUM}


def keyspace_of(tag: str) -> str:
    """Return the name of the trial's own keyspace; it may have letters, digits and underscores only."""
    return f"stepbench_{tag.replace('-', '_')}"


def create_keyspace(tag: str, target: CassandraTarget) -> str:
    """
    Return what makes the keyspace, unless it is there.

    The strategy puts copies into every data centre that there is. (`SimpleStrategy`, which knows of none, is refused by
    ScyllaDB's tablets.)
    """
    strategy = f"{{'class': 'NetworkTopologyStrategy', 'replication_factor': {target.replication}}}"
    return f"CREATE KEYSPACE IF NOT EXISTS {keyspace_of(tag)} WITH replication = {strategy}"


def drop_statement(tag: str) -> str:
    """Return what removes the keyspace, with its tables."""
    return f"DROP KEYSPACE IF EXISTS {keyspace_of(tag)}"


class TrialKeyspace:
    """The keyspace in the store. All methods raise TargetUnavailableError."""

    def __init__(self, access: CassandraAccess, tag: str, consistency: Consistency) -> None:
        self.name = keyspace_of(tag)
        self._access = access
        self._tag = tag
        self._consistency = consistency

    async def make(self, connection: CqlConnection, statements: Iterable[str]) -> None:
        """Change the schema, one statement after the other; what was begun is ended, even when it is cancelled."""
        for statement in statements:
            await uncancellable(self._access.run(connection, cql.query(statement, self._consistency)))

    async def is_agreed(self) -> bool:
        """Return whether all nodes that are up have the same schema: without it some would not know the tables."""
        async with self._access.control() as connection:
            own = await self._access.select(connection, "SELECT schema_version FROM system.local")
            others = await self._access.select(connection, "SELECT schema_version FROM system.peers")
        return len({row[0] for row in (*own, *others) if row[0] is not None}) == 1

    async def exists(self, connection: CqlConnection) -> bool:
        """Return whether it is there."""
        found = await self._access.select(connection, "SELECT keyspace_name FROM system_schema.keyspaces")
        return (self.name.encode(),) in found

    async def drop(self) -> bool:
        """Remove it with all that it holds; return whether it is gone."""
        async with self._access.control() as connection:
            await self._access.run(connection, cql.query(drop_statement(self._tag), self._consistency))
            return not await self.exists(connection)

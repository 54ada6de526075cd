"""The trial's records as `prepare` sees them: written on all replicas, many at a time, and looked for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stepbench.drivers.operations.cassandra_statements import values_of
from stepbench.wire import cql
from stepbench.wire.cql_answers import refusal, rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepbench.drivers.operations.cassandra_access import CassandraAccess
    from stepbench.drivers.operations.cassandra_statements import Statements
    from stepbench.drivers.protocol import Operation
    from stepbench.wire.cql_connection import CqlConnection


class Records:
    """On one connection: each write is a request of its own, since a batch of CQL only burdens one node more."""

    def __init__(
        self, access: CassandraAccess, connection: CqlConnection, statements: Statements, ids: Mapping[str, bytes]
    ) -> None:
        self._access = access
        self._connection = connection
        self._write, self._read = ids[statements.write], ids[statements.read]

    @classmethod
    async def prepared(cls, access: CassandraAccess, connection: CqlConnection, statements: Statements) -> Records:
        """
        Prepare the statements.

        Raises:
            TargetUnavailableError: the server does not.
        """
        return cls(access, connection, statements, await access.prepare(connection, statements[:2]))

    async def write(self, records: Sequence[Operation]) -> str:
        """
        Write them; "" or the first refusal.

        Raises:
            TargetUnavailableError: the connection is lost.
        """
        values = (values_of(record, record.key.encode()) for record in records)
        requests = [cql.execute(self._write, cql.Consistency.ALL, each) for each in values]
        answers = await asyncio.gather(*map(self._connection.call, requests))
        lost = next((answered.error for answered in answers if answered.error), "")
        if lost:
            raise self._access.unavailable(lost)
        error = next(filter(None, (refusal(answered.frame) for answered in answers)), None)
        return ": ".join(error) if error else ""

    async def exists(self, key: str) -> bool:
        """
        Whether there is a record with this key.

        Raises:
            TargetUnavailableError: the server does not say.
        """
        request = cql.execute(self._read, cql.Consistency.ONE, (key.encode(),))
        return bool(rows(await self._access.run(self._connection, request)))

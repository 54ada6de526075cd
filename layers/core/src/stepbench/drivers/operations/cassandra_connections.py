"""Connections to Cassandra: those that clients keep, with their statements prepared, and those for one operation."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from stepbench.errors import StepbenchError
from stepbench.wire.cql import MalformedAnswerError
from stepbench.wire.cql_connect import CqlRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepbench.drivers.operations.cassandra_access import CassandraAccess, Turn
    from stepbench.wire.cql_connection import CqlConnection
    from stepbench.wire.reaching import ConnectTimes

FAILURES = (OSError, StepbenchError, MalformedAnswerError)
"""Why there is no connection."""
_AT_ONCE = 32


class Ready(NamedTuple):
    """A connection, the ids by which its node knows statements, and what making it took."""

    connection: CqlConnection
    ids: Mapping[str, bytes]
    times: ConnectTimes


class Connections:
    """One for each client, made when it is first needed, or before; a broken one is replaced."""

    def __init__(self, access: CassandraAccess, statements: Sequence[str]) -> None:
        self._access = access
        self._statements = statements
        self._spare: list[Ready] = []
        self._clients: dict[int, Ready] = {}

    async def open(self, count: int) -> None:
        """Make some ahead, as many as the server lets us have; what fails here comes to light with an operation."""
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one() -> None:
            async with turns:
                with suppress(*FAILURES):
                    self._spare.append(await self._prepared())

        await asyncio.gather(*(one() for _ in range(count)))

    def at_hand(self, client: int) -> Ready | None:
        """The client's, if it has one that is open, or can have one of those that were made ahead."""
        ready = self._clients.get(client)
        while (ready is None or not ready.connection.is_open) and self._spare:
            ready = self._clients[client] = self._spare.pop()
        return ready if ready is not None and ready.connection.is_open else None

    async def of(self, client: int) -> Ready:
        """
        The client's; operations that it has in flight share it.

        Raises:
            OSError, StepbenchError, MalformedAnswerError: it has none that is open, and can get none.
        """
        ready = self.at_hand(client)
        if ready is not None:
            return ready
        made = await self._prepared()
        other = self._clients.get(client)
        if other is not None and other.connection.is_open:  # two operations of a client at once
            made.connection.close()
            return other
        self._clients[client] = made
        return made

    async def passing(self, turn: Turn) -> Ready:
        """One for a single operation, which closes it; otherwise as `of`."""
        connection, times = await self._access.connect(turn=turn, passing=True)
        return Ready(connection, {}, times)

    def close(self) -> None:
        """End them; operations under way have no answer then."""
        for ready in (*self._clients.values(), *self._spare):
            ready.connection.close()
        self._spare, self._clients = [], {}

    async def _prepared(self) -> Ready:
        connection, times = await self._access.connect()
        try:
            return Ready(connection, await self._access.prepare(connection, self._statements), times)
        except BaseException:
            connection.close()
            raise


def connect_error(error: Exception) -> str:
    """Why there is no connection, in few words that are the same each time."""
    if isinstance(error, TimeoutError):
        return "connect-timeout"
    for each in (error, error.__cause__):
        if isinstance(each, CqlRefusedError):
            return each.error.name
    reason = getattr(error, "reason", "")
    return f"tls: {reason}" if reason else type(error).__name__

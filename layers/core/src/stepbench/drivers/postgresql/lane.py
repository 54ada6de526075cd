"""One connection of a writer: a prepared statement, one execution at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.drivers.postgresql.conversation import Answer, Conversation
from stepbench.drivers.postgresql.execution import Execution
from stepbench.drivers.protocol import Outcome, Write, Written

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq.abc import PGresult

    from stepbench.clock import Clock

WRITE_LIMIT_S = 12.0
STATEMENT_LIMIT_MS = 10_000
"""The server's own limit; below ours, so that a slow trigger is a refusal with a code and not an open question."""
STATEMENT = b"stepbench_write"
_BINARY = (1, 1)  # in text format libpq would silently cut a value at a NUL


class Lane:
    """A connection that is either idle or has one statement under way. `broken` once it can do neither."""

    def __init__(
        self, connection: psycopg.AsyncConnection, statement: bytes, clock: Clock, limit_s: float = WRITE_LIMIT_S
    ) -> None:
        self._connection = connection  # which would close its `pgconn` when it is collected
        self.conversation = Conversation(connection.pgconn, clock, limit_s)
        self._statement = statement

    @property
    def broken(self) -> bool:
        """Whether it has to be replaced."""
        return self.conversation.broken

    async def prepare(self) -> Answer:
        """Have the server parse the statement, so that no write pays for it. Refused as long as there is no table."""
        return await self.conversation.prepare(STATEMENT, self._statement)

    async def write(self, key: bytes, value: bytes) -> Answer:
        """Execute the statement. Never raises for the server's answer."""
        conversation = self.conversation
        if STATEMENT not in conversation.prepared and (refused := await self.prepare()).outcome is not Outcome.OK:
            return refused._replace(outcome=Outcome.FAILED)  # nothing was written, whatever went wrong
        return await conversation.exchange(
            lambda pgconn: pgconn.send_query_prepared(STATEMENT, [key, value], param_formats=_BINARY)
        )

    def close(self) -> None:
        """Drop the connection at once, whatever is under way."""
        self.conversation.close()


class LaneWrite(Execution[Write, Lane, Written]):
    """`Made` of a write."""

    __slots__ = ()

    def _answered(self, t1_ns: int, t2_ns: int, outcome: Outcome, error: str, result: PGresult | None) -> None:
        del result
        self._finish(Written(t1_ns, t2_ns, outcome, "", error))

"""One connection of a writer: a prepared statement, one execution at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.drivers.postgresql.conversation import Answer, Conversation
from stepbench.drivers.protocol import Outcome

if TYPE_CHECKING:
    import psycopg

    from stepbench.clock import Clock

WRITE_LIMIT_S = 12.0
STATEMENT_LIMIT_MS = 10_000
"""The server's own limit; below ours, so that a slow trigger is a refusal with a code and not an open question."""
_STATEMENT = b"stepbench_write"
_BINARY = (1, 1)  # in text format libpq would silently cut a value at a NUL


class Lane:
    """A connection that is either idle or has one statement under way. `broken` once it can do neither."""

    def __init__(
        self, connection: psycopg.AsyncConnection, statement: bytes, clock: Clock, limit_s: float = WRITE_LIMIT_S
    ) -> None:
        self._connection = connection  # which would close its `pgconn` when it is collected
        self._conversation = Conversation(connection.pgconn, clock, limit_s)
        self._statement = statement
        self._prepared = False

    @property
    def broken(self) -> bool:
        """Whether it has to be replaced."""
        return self._conversation.broken

    async def prepare(self) -> Answer:
        """Have the server parse the statement, so that no write pays for it. Refused as long as there is no table."""
        pgconn = self._conversation.pgconn
        answer = await self._conversation.exchange(lambda: pgconn.send_prepare(_STATEMENT, self._statement))
        self._prepared = answer.outcome is Outcome.OK
        return answer

    async def write(self, key: bytes, value: bytes) -> Answer:
        """Execute the statement. Never raises for the server's answer."""
        if not self._prepared and (refused := await self.prepare()).outcome is not Outcome.OK:
            return refused._replace(outcome=Outcome.FAILED)  # nothing was written, whatever went wrong
        pgconn = self._conversation.pgconn
        return await self._conversation.exchange(
            lambda: pgconn.send_query_prepared(_STATEMENT, [key, value], param_formats=_BINARY)
        )

    def close(self) -> None:
        """Drop the connection at once, whatever is under way."""
        self._conversation.close()

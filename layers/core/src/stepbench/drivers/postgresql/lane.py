"""
One connection of a writer: a prepared statement, one execution at a time, stamped next to the system calls.

libpq is used through psycopg's `pq` layer. `AsyncConnection.execute` would do the same work, but with its own Python
between our time stamps and the socket.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from psycopg import pq

from stepbench.drivers.protocol import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg.pq.abc import PGconn, PGresult

    from stepbench.clock import Clock

WRITE_LIMIT_S = 12.0
STATEMENT_LIMIT_MS = 10_000
"""The server's own limit; below ours, so that a slow trigger is a refusal with a code and not an open question."""
LOST = "connection lost"
TIMEOUT = "timeout"
_STATEMENT = b"stepbench_write"
_BINARY = (1, 1)  # in text format libpq would silently cut a value at a NUL
_UNDECIDED = frozenset({"08007", "40003"})  # transaction_resolution_unknown, statement_completion_unknown


class Answer(NamedTuple):
    """How one execution ended; see `Written`."""

    t1_ns: int
    t2_ns: int
    outcome: Outcome
    error: str


def outcome_of(severity: str, sqlstate: str) -> Outcome:
    """
    What the server's error report says about the write.

    An ERROR in autocommit mode means that the statement was rolled back. FATAL and PANIC end the session, maybe
    between commit and acknowledgement; two codes say themselves that they do not know.
    """
    decided = severity == "ERROR" and sqlstate not in _UNDECIDED
    return Outcome.FAILED if decided else Outcome.UNKNOWN


class Lane:
    """A connection that is either idle or has one statement under way. `broken` once it can do neither."""

    def __init__(
        self, connection: psycopg.AsyncConnection, statement: bytes, clock: Clock, limit_s: float = WRITE_LIMIT_S
    ) -> None:
        self._connection = connection
        self._pgconn: PGconn = connection.pgconn
        self._statement = statement
        self._clock = clock
        self._limit_s = limit_s
        self._loop = asyncio.get_running_loop()
        self._socket = self._pgconn.socket
        self._waiting: asyncio.Future[tuple[int, PGresult | None]] | None = None
        self._result: PGresult | None = None
        self._prepared = False
        self.broken = False
        self._pgconn.nonblocking = 1
        self._loop.add_reader(self._socket, self._on_readable)

    async def prepare(self) -> Answer:
        """Have the server parse the statement, so that no write pays for it. Refused as long as there is no table."""
        answer = await self._exchange(lambda: self._pgconn.send_prepare(_STATEMENT, self._statement))
        self._prepared = answer.outcome is Outcome.OK
        return answer

    async def write(self, key: bytes, value: bytes) -> Answer:
        """Execute the statement. Never raises for the server's answer."""
        if not self._prepared and (refused := await self.prepare()).outcome is not Outcome.OK:
            return refused._replace(outcome=Outcome.FAILED)  # nothing was written, whatever went wrong
        return await self._exchange(
            lambda: self._pgconn.send_query_prepared(_STATEMENT, [key, value], param_formats=_BINARY)
        )

    def close(self) -> None:
        """Drop the connection at once, whatever is under way."""
        self._break(self._clock.now_ns())
        self._pgconn.finish()

    async def _exchange(self, send: Callable[[], None]) -> Answer:
        waiting = self._waiting = self._loop.create_future()
        self._result = None
        t1_ns = self._clock.now_ns()
        try:
            send()
            self._flush()
            async with asyncio.timeout(self._limit_s):
                t2_ns, result = await waiting
        except TimeoutError:
            self._break(t2_ns := self._clock.now_ns())
            return Answer(t1_ns, t2_ns, Outcome.UNKNOWN, TIMEOUT)
        except psycopg.OperationalError:
            self._break(t2_ns := self._clock.now_ns())
            return Answer(t1_ns, t2_ns, Outcome.UNKNOWN, LOST)
        except asyncio.CancelledError:
            self._break(self._clock.now_ns())  # its answer is still to come, and must not meet the next statement
            raise
        finally:
            self._waiting = None
        return _answer(t1_ns, t2_ns, result)

    def _flush(self) -> None:
        """Hand the rest to the kernel as it takes it; mostly there is no rest."""
        try:
            rest = self._pgconn.flush()
        except psycopg.OperationalError:
            self._break(self._clock.now_ns())
            return
        if rest:
            self._loop.add_writer(self._socket, self._flush)
        else:
            self._loop.remove_writer(self._socket)

    def _on_readable(self) -> None:
        t2_ns = self._clock.now_ns()
        try:
            self._pgconn.consume_input()
            while not self._pgconn.is_busy():
                result = self._pgconn.get_result()
                if result is None:
                    break
                self._result = self._result or result  # a second one only repeats that the connection is lost
            else:
                return
        except psycopg.OperationalError:
            self._break(t2_ns)
            return
        if self._pgconn.status == pq.ConnStatus.BAD:
            self._break(t2_ns)
        elif self._waiting is not None and not self._waiting.done():
            self._waiting.set_result((t2_ns, self._result))

    def _break(self, at_ns: int) -> None:
        """The connection is of no more use; whoever waits is told what has come of the answer."""
        if not self.broken:
            self.broken = True
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result((at_ns, self._result))


def _answer(t1_ns: int, t2_ns: int, result: PGresult | None) -> Answer:
    if result is None:
        return Answer(t1_ns, t2_ns, Outcome.UNKNOWN, LOST)
    if result.status == pq.ExecStatus.COMMAND_OK:
        return Answer(t1_ns, t2_ns, Outcome.OK, "")
    severity = (result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED) or b"").decode()
    sqlstate = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    return Answer(t1_ns, t2_ns, outcome_of(severity, sqlstate), sqlstate or LOST)

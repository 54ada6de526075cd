"""
One connection, and one exchange on it at a time, stamped next to the system calls.

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

LOST = "connection lost"
TIMEOUT = "timeout"
_UNDECIDED = frozenset({"08007", "40003"})  # transaction_resolution_unknown, statement_completion_unknown
_OK = frozenset({pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK})


class Answer(NamedTuple):
    """How one exchange ended; see `Written`. `result` is the server's, where there was an answer."""

    t1_ns: int
    t2_ns: int
    outcome: Outcome
    error: str
    result: PGresult | None = None


def outcome_of(severity: str, sqlstate: str) -> Outcome:
    """
    What the server's error report says about the write.

    An ERROR in autocommit mode means that the statement was rolled back. FATAL and PANIC end the session, maybe
    between commit and acknowledgement; two codes say themselves that they do not know.
    """
    decided = severity == "ERROR" and sqlstate not in _UNDECIDED
    return Outcome.FAILED if decided else Outcome.UNKNOWN


class Conversation:
    """A connection that is either idle or has one exchange under way. `broken` once it can do neither."""

    def __init__(self, pgconn: PGconn, clock: Clock, limit_s: float) -> None:
        self.pgconn = pgconn
        self.broken = False
        self._clock = clock
        self._limit_s = limit_s
        self._loop = asyncio.get_running_loop()
        self._socket = pgconn.socket
        self._waiting: asyncio.Future[tuple[int, PGresult | None]] | None = None
        self._result: PGresult | None = None
        self._writing = False
        self._due_s = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self._silent = False
        pgconn.nonblocking = 1
        self._loop.add_reader(self._socket, self._on_readable)

    async def exchange(self, send: Callable[[], None]) -> Answer:
        """
        What comes of a statement that `send` hands to libpq. Never raises for the server's answer.

        On a connection that is broken already nothing is sent, so it is FAILED.
        """
        if self.broken:
            now_ns = self._clock.now_ns()
            return Answer(now_ns, now_ns, Outcome.FAILED, LOST)
        waiting = self._waiting = self._loop.create_future()
        self._result = None
        self._limit()
        t1_ns = self._clock.now_ns()
        try:
            send()
            self._flush()
            t2_ns, result = await waiting
        except psycopg.OperationalError:
            self._break(t2_ns := self._clock.now_ns())
            return Answer(t1_ns, t2_ns, Outcome.UNKNOWN, LOST)
        except asyncio.CancelledError:
            self._break(self._clock.now_ns())  # its answer is still to come, and must not meet the next statement
            raise
        finally:
            self._waiting = None
        if result is None and self._silent:
            return Answer(t1_ns, t2_ns, Outcome.UNKNOWN, TIMEOUT)
        return _answer(t1_ns, t2_ns, result)

    def close(self) -> None:
        """Drop the connection at once, whatever is under way."""
        self._break(self._clock.now_ns())
        self.pgconn.finish()

    def _limit(self) -> None:
        """Of an exchange. One timer a connection looks at them all: one an exchange would cost a tenth of its CPU."""
        self._due_s = self._loop.time() + self._limit_s
        if self._watch is None:
            self._watch = self._loop.call_at(self._due_s, self._look)

    def _look(self) -> None:
        self._watch = None
        if self._waiting is None or self.broken:
            return
        if self._loop.time() < self._due_s:
            self._watch = self._loop.call_at(self._due_s, self._look)
            return
        self._silent = True
        self._break(self._clock.now_ns())

    def _flush(self) -> None:
        """Hand the rest to the kernel as it takes it; mostly there is no rest."""
        try:
            rest = self.pgconn.flush()
        except psycopg.OperationalError:
            self._break(self._clock.now_ns())
            return
        if rest:
            self._loop.add_writer(self._socket, self._flush)
        elif self._writing:
            self._loop.remove_writer(self._socket)
        self._writing = bool(rest)

    def _on_readable(self) -> None:
        t2_ns = self._clock.now_ns()
        try:
            self.pgconn.consume_input()
            while not self.pgconn.is_busy():
                result = self.pgconn.get_result()
                if result is None:
                    break
                self._result = self._result or result  # a second one only repeats that the connection is lost
            else:
                return
        except psycopg.OperationalError:
            self._break(t2_ns)
            return
        if self.pgconn.status == pq.ConnStatus.BAD:
            self._break(t2_ns)
        elif self._waiting is not None and not self._waiting.done():
            self._waiting.set_result((t2_ns, self._result))

    def _break(self, at_ns: int) -> None:
        """The connection is of no more use; whoever waits is told what has come of the answer."""
        if not self.broken:
            self.broken = True
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            if self._watch is not None:
                self._watch.cancel()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result((at_ns, self._result))


def _answer(t1_ns: int, t2_ns: int, result: PGresult | None) -> Answer:
    if result is None:
        return Answer(t1_ns, t2_ns, Outcome.UNKNOWN, LOST)
    if result.status in _OK:
        return Answer(t1_ns, t2_ns, Outcome.OK, "", result)
    severity = (result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED) or b"").decode()
    sqlstate = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    return Answer(t1_ns, t2_ns, outcome_of(severity, sqlstate), sqlstate or LOST, result)

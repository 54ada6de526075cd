"""
A session with a server that speaks PostgreSQL's protocol: one exchange at a time, stamped next to the system calls.

libpq is used through psycopg's `pq` layer. `AsyncConnection.execute` would do the same work, but with its own Python
between our time stamps and the socket; and an answer is handed on where its bytes are read, for which no task is woken.

uvloop calls a reader once when a connection is reset, and never again: libuv's poll handle stops at EPOLLERR. What the
reset has left to be read, and the reset itself behind it, are found by a timer a little later.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from psycopg import pq

from stepbench.model.errors import CONNECTION_CLOSED, NO_ANSWER, TIMEOUT
from stepbench.model.request import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from psycopg.pq.abc import PGconn, PGresult

    from stepbench.clock import Clock
    from stepbench.drivers.sql import Statement

    OnAnswer = Callable[[int, int, Outcome, str, PGresult | None], None]
    """Called with the fields of an `Answer`, since making the tuple would cost as much as the rest of the call."""

_UNDECIDED = frozenset({"08007", "40003"})  # transaction_resolution_unknown, statement_completion_unknown
_BAD = int(pq.ConnStatus.BAD)
_GOOD = frozenset({int(pq.ExecStatus.COMMAND_OK), int(pq.ExecStatus.TUPLES_OK)})
_OK, _FAILED, _UNKNOWN = Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN
_CHECK_S = 0.1


class Answer(NamedTuple):
    """
    How one exchange ended; times, outcome and error as in `Result`. `result` is the server's, where it has answered.

    libpq does not tell a connection that was reset from one that was closed: either is `CONNECTION_CLOSED`.
    """

    t1_ns: int
    t2_ns: int
    outcome: Outcome
    error: str
    result: PGresult | None = None


def outcome_of(severity: str, sqlstate: str) -> Outcome:
    """
    Return what the server's error report says about the statement.

    An ERROR in autocommit mode means that the statement was rolled back. FATAL and PANIC end the session, maybe
    between commit and acknowledgement; two codes say themselves that they do not know.
    """
    decided = severity == "ERROR" and sqlstate not in _UNDECIDED
    return Outcome.FAILED if decided else Outcome.UNKNOWN


class SqlSession:
    """
    A connection that is either idle or has one exchange under way.

    broken: it can do neither any more. prepared: names of the statements that the server has parsed for it.
    """

    def __init__(self, pgconn: PGconn, clock: Clock, limit_s: float) -> None:
        """`limit_s`: after which an answer is awaited no longer, and the session is broken."""
        self.pgconn = pgconn
        self.broken = False
        self.prepared: set[bytes] = set()
        self._now_ns = clock.now_ns
        self._limit_ns = round(limit_s * 1e9)
        self._loop = asyncio.get_running_loop()
        self._socket = pgconn.socket
        self._done: OnAnswer | None = None
        self._t1_ns = 0
        self._result: PGresult | None = None
        self._check_s = min(_CHECK_S, limit_s)
        self._timer: asyncio.TimerHandle | None = None
        pgconn.nonblocking = 1
        self._loop.add_reader(self._socket, self._read)

    def start(self, send: Callable[[PGconn], None], done: OnAnswer) -> None:
        """
        Have `send` hand a statement to libpq, which hands it to the kernel; `done` is called once, on the loop.

        In a session that is broken already nothing is sent, so `done` is called at once, from within this call: FAILED.
        """
        if self.broken:
            now_ns = self._now_ns()
            done(now_ns, now_ns, _FAILED, CONNECTION_CLOSED, None)
            return
        self._done = done
        if self._timer is None:
            self._timer = self._loop.call_later(self._check_s, self._check)
        self._t1_ns = self._now_ns()
        try:
            send(self.pgconn)
            if self.pgconn.flush():
                self._loop.add_writer(self._socket, self._write)
        except psycopg.OperationalError:
            self._loop.call_soon(self._break, CONNECTION_CLOSED)

    async def exchange(self, send: Callable[[PGconn], None]) -> Answer:
        """Start an exchange and wait for its answer; a cancellation meanwhile leaves a broken session."""
        answered: asyncio.Future[Answer] = self._loop.create_future()
        self.start(send, partial(_settle, answered))
        try:
            return await answered
        except asyncio.CancelledError:
            self.give_up()
            raise

    async def prepare(self, statements: Iterable[Statement]) -> Answer | None:
        """Have the server parse those that it has not yet parsed; return the first refusal (for want of a table)."""
        for statement in statements:
            if statement.name not in self.prepared:
                answer = await self.exchange(partial(_send_prepare, statement))
                if answer.outcome is not _OK:
                    return answer
                self.prepared.add(statement.name)
        return None

    async def execute(self, statement: Statement, values: Sequence[bytes | None]) -> Answer:
        """Execute a statement; one that is not prepared is parsed with its execution."""
        if statement.name in self.prepared:
            formats = (1,) * len(values)
            return await self.exchange(lambda pgconn: pgconn.send_query_prepared(statement.name, values, formats))
        return await self.query(statement.text, values)

    async def query(self, text: bytes, values: Sequence[bytes | None]) -> Answer:
        """Execute a statement once; values are in binary format, as in `Statement`."""
        formats = (1,) * len(values)
        return await self.exchange(lambda pgconn: pgconn.send_query_params(text, values, param_formats=formats))

    def give_up(self) -> None:
        """Await the answer no longer; it is still to come and must not meet another statement: this breaks."""
        self._break(NO_ANSWER)

    def close(self) -> None:
        """Drop the connection at once, whatever is under way."""
        self._break(CONNECTION_CLOSED)
        self.pgconn.finish()

    def _read(self) -> None:
        pgconn = self.pgconn
        try:
            pgconn.consume_input()
            t2_ns = self._now_ns()
            while not pgconn.is_busy():
                result = pgconn.get_result()
                if result is None:
                    break
                self._result = self._result or result  # a second one only repeats that the connection is lost
            else:
                return
        except psycopg.OperationalError:
            self._break(CONNECTION_CLOSED)
            return
        result, done = self._result, self._done
        if result is None or done is None or pgconn.status == _BAD or result.status not in _GOOD:
            self._end_badly(t2_ns)
            return
        self._result = self._done = None
        done(self._t1_ns, t2_ns, _OK, "", result)

    def _write(self) -> None:
        """Hand the rest to the kernel as it takes it; mostly there is no rest."""
        try:
            if not self.pgconn.flush():
                self._loop.remove_writer(self._socket)
        except psycopg.OperationalError:
            self._break(CONNECTION_CLOSED)

    def _check(self) -> None:
        """Read what was missed, and end what is over its limit: a timer a session, since one an exchange would cost."""
        self._timer = None
        self._read()
        if self._done is None or self._timer is not None:
            return
        left_ns = self._t1_ns + self._limit_ns - self._now_ns()
        if left_ns <= 0:
            self._break(TIMEOUT)
        else:
            self._timer = self._loop.call_later(min(self._check_s, left_ns / 1e9), self._check)

    def _break(self, error: str, t2_ns: int = 0) -> None:
        """Stop using the connection, and end what is under way with what has come of the answer."""
        if not self.broken:
            self.broken = True
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            if self._timer is not None:
                self._timer.cancel()
        self._end(t2_ns or self._now_ns(), error)

    def _end_badly(self, t2_ns: int) -> None:
        """End an exchange that is no plain success; where none was under way, what came is no answer."""
        if self.pgconn.status == _BAD:
            self._break(CONNECTION_CLOSED, t2_ns)
        else:
            self._end(t2_ns, CONNECTION_CLOSED)

    def _end(self, t2_ns: int, error: str) -> None:
        """End the exchange, if one is under way; `error` says why, if there is no result."""
        done, self._done = self._done, None
        result, self._result = self._result, None
        if done is None:
            return
        if result is None:
            done(self._t1_ns, t2_ns, _UNKNOWN, error, None)
        elif result.status in _GOOD:
            done(self._t1_ns, t2_ns, _OK, "", result)
        else:
            severity = (result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED) or b"").decode()
            sqlstate = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
            done(self._t1_ns, t2_ns, outcome_of(severity, sqlstate), sqlstate or CONNECTION_CLOSED, result)


def _send_prepare(statement: Statement, pgconn: PGconn) -> None:
    pgconn.send_prepare(statement.name, statement.text)


def _settle(  # noqa: PLR0913, PLR0917 -- a future, and what an `OnAnswer` is called with
    answered: asyncio.Future[Answer], t1_ns: int, t2_ns: int, outcome: Outcome, error: str, result: PGresult | None
) -> None:
    if not answered.done():
        answered.set_result(Answer(t1_ns, t2_ns, outcome, error, result))

"""
One connection, and one exchange on it at a time, stamped next to the system calls.

libpq is used through psycopg's `pq` layer. `AsyncConnection.execute` would do the same work, but with its own Python
between our time stamps and the socket; and an answer is told where its bytes are read, for which no task is woken.

uvloop calls a reader once when a connection is reset, and never again: libuv's poll handle stops at EPOLLERR. What the
reset has left to be read, and the reset itself behind it, are found by a second look a little later.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import psycopg
from psycopg import pq

from stepbench.drivers.protocol import Outcome
from stepbench.drivers.tasked import NO_ANSWER

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg.pq.abc import PGconn, PGresult

    from stepbench.clock import Clock

    Tell = Callable[[int, int, Outcome, str, PGresult | None], None]
    """Given what makes up an `Answer`; each of which would cost as much as all of its telling."""

LOST = "connection lost"
TIMEOUT = "timeout"
_UNDECIDED = frozenset({"08007", "40003"})  # transaction_resolution_unknown, statement_completion_unknown
_BAD = int(pq.ConnStatus.BAD)
_GOOD = frozenset({int(pq.ExecStatus.COMMAND_OK), int(pq.ExecStatus.TUPLES_OK)})
_OK, _FAILED, _UNKNOWN = Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN
_LOOK_S = 0.1


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
    """
    A connection that is either idle or has one exchange under way.

    broken: it can do neither any more. prepared: names of the statements that the server has parsed for it.
    """

    def __init__(self, pgconn: PGconn, clock: Clock, limit_s: float) -> None:
        """`limit_s`: after which an answer is awaited no longer, and the connection is broken."""
        self.pgconn = pgconn
        self.broken = False
        self.prepared: set[bytes] = set()
        self._now_ns = clock.now_ns
        self._limit_ns = round(limit_s * 1e9)
        self._loop = asyncio.get_running_loop()
        self._socket = pgconn.socket
        self._tell: Tell | None = None
        self._t1_ns = 0
        self._result: PGresult | None = None
        self._look_s = min(_LOOK_S, limit_s)
        self._second_look: asyncio.TimerHandle | None = None
        pgconn.nonblocking = 1
        self._loop.add_reader(self._socket, self._read)

    def start(self, send: Callable[[PGconn], None], tell: Tell) -> None:
        """
        Have `send` hand a statement to libpq, which hands it to the kernel; `tell` is called once, on the loop.

        On a connection that is broken already nothing is sent, so it is told at once, from within this call: FAILED.
        """
        if self.broken:
            now_ns = self._now_ns()
            tell(now_ns, now_ns, _FAILED, LOST, None)
            return
        self._tell = tell
        if self._second_look is None:
            self._second_look = self._loop.call_later(self._look_s, self._look)
        self._t1_ns = self._now_ns()
        try:
            send(self.pgconn)
            if self.pgconn.flush():
                self._loop.add_writer(self._socket, self._write)
        except psycopg.OperationalError:
            self._loop.call_soon(self._break, LOST)

    async def exchange(self, send: Callable[[PGconn], None]) -> Answer:
        """As `start`, for whoever wants to wait; who is cancelled meanwhile leaves a broken connection."""
        answered: asyncio.Future[Answer] = self._loop.create_future()
        self.start(send, partial(_settle, answered))
        try:
            return await answered
        except asyncio.CancelledError:
            self.give_up()
            raise

    async def prepare(self, name: bytes, statement: bytes) -> Answer:
        """Have the server parse a statement, so that no execution pays for it."""
        answer = await self.exchange(lambda pgconn: pgconn.send_prepare(name, statement))
        if answer.outcome is Outcome.OK:
            self.prepared.add(name)
        return answer

    def give_up(self) -> None:
        """Await the answer no longer; it is still to come and must not meet another statement: this breaks."""
        self._break(NO_ANSWER)

    def close(self) -> None:
        """Drop the connection at once, whatever is under way."""
        self._break(LOST)
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
            self._break(LOST)
            return
        result, tell = self._result, self._tell
        if result is None or tell is None or pgconn.status == _BAD or result.status not in _GOOD:
            self._end_badly(t2_ns)
            return
        self._result = self._tell = None
        tell(self._t1_ns, t2_ns, _OK, "", result)

    def _write(self) -> None:
        """Hand the rest to the kernel as it takes it; mostly there is no rest."""
        try:
            if not self.pgconn.flush():
                self._loop.remove_writer(self._socket)
        except psycopg.OperationalError:
            self._break(LOST)

    def _look(self) -> None:
        """One timer a connection looks at them all, for what was missed and for their limit; one each would cost."""
        self._second_look = None
        self._read()
        if self._tell is None or self._second_look is not None:
            return
        left_ns = self._t1_ns + self._limit_ns - self._now_ns()
        if left_ns <= 0:
            self._break(TIMEOUT)
        else:
            self._second_look = self._loop.call_later(min(self._look_s, left_ns / 1e9), self._look)

    def _break(self, error: str, t2_ns: int = 0) -> None:
        """The connection is of no more use; whoever waits is told what has come of the answer."""
        if not self.broken:
            self.broken = True
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            if self._second_look is not None:
                self._second_look.cancel()
        self._end(t2_ns or self._now_ns(), error)

    def _end_badly(self, t2_ns: int) -> None:
        """Or nothing was under way: what came then is no answer."""
        if self.pgconn.status == _BAD:
            self._break(LOST, t2_ns)
        else:
            self._end(t2_ns, LOST)

    def _end(self, t2_ns: int, error: str) -> None:
        """Of an exchange; `error`: why, if there is no result."""
        tell, self._tell = self._tell, None
        result, self._result = self._result, None
        if tell is None:
            return
        if result is None:
            tell(self._t1_ns, t2_ns, _UNKNOWN, error, None)
        elif result.status in _GOOD:
            tell(self._t1_ns, t2_ns, _OK, "", result)
        else:
            severity = (result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED) or b"").decode()
            sqlstate = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
            tell(self._t1_ns, t2_ns, outcome_of(severity, sqlstate), sqlstate or LOST, result)


def _settle(  # noqa: PLR0913, PLR0917 -- a future, and what a `Tell` is given
    answered: asyncio.Future[Answer], t1_ns: int, t2_ns: int, outcome: Outcome, error: str, result: PGresult | None
) -> None:
    if not answered.done():
        answered.set_result(Answer(t1_ns, t2_ns, outcome, error, result))

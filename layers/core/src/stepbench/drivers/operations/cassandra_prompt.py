"""Statements that are made ahead, sent without a task, and judged in the turn in which the answer comes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from stepbench.drivers.operations.cassandra_answers import GARBAGE, UNPREPARED, judge
from stepbench.drivers.protocol import WITHDRAWN, Operated, Outcome
from stepbench.drivers.tasked import NO_ANSWER, Tasked
from stepbench.wire.byte_socket import Shipment
from stepbench.wire.cql_connection import CqlAnswered

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from stepbench.clock import Clock
    from stepbench.drivers.operations.cassandra_connections import Ready
    from stepbench.drivers.protocol import Operation
    from stepbench.wire.cql import Frame, Request

FORGOTTEN = frozenset({UNPREPARED, GARBAGE})
"""The node has forgotten its statements, or we misunderstand it: a new connection prepares them anew."""


class PromptStatement(Shipment):
    """
    `Made` of an operation that is one prepared statement.

    ready: the client's connection, for whose node the request is. instead: does the operation where that has ended by
    the time it is sent.
    """

    __slots__ = ("_clock", "_done", "_instead", "_is_reading", "_operation", "_ready", "_request", "_tasked")

    def __init__(  # noqa: PLR0913 -- its parts
        self,
        operation: Operation,
        request: Request,
        ready: Ready,
        clock: Clock,
        instead: Callable[[Operation], Awaitable[Operated]],
        *,
        is_reading: bool,
    ) -> None:
        self.t1_ns = 0
        self._operation = operation
        self._request = request
        self._ready = ready
        self._clock = clock
        self._instead = instead
        self._is_reading = is_reading
        self._tasked: Tasked[Operated] | None = None
        self._done: Callable[[Operated], None] | None = None

    def send(self, done: Callable[[Operated], None]) -> None:
        """See `Made`. What has broken is made anew, outside the operation's time."""
        if self._ready.connection.is_open:
            self._done = done
            self._ready.connection.send(self._request, self, self._told)
        else:
            self._tasked = Tasked(partial(self._instead, self._operation), self._clock)
            self._tasked.send(done)

    def abandon(self) -> None:
        """See `Made`."""
        done, self._done = self._done, None
        if self._tasked is not None:
            self._tasked.abandon()
        elif done is not None:
            now_ns = self._clock.now_ns()
            if self._ready.connection.withdraw(self):
                done(Operated(now_ns, now_ns, Outcome.FAILED, error=WITHDRAWN))
            else:
                done(Operated(self.t1_ns or now_ns, now_ns, Outcome.UNKNOWN, error=NO_ANSWER))

    def _told(self, t2_ns: int, frame: Frame, error: str) -> None:
        done, self._done = self._done, None
        if done is None:
            return
        answered = CqlAnswered(self.t1_ns or t2_ns, t2_ns, frame, error, sent=self.t1_ns != 0)
        outcome, error = judge(answered, self._operation, reading=self._is_reading)
        if error in FORGOTTEN:
            self._ready.connection.close()
        done(Operated(answered.t1_ns, t2_ns, outcome, "", error))

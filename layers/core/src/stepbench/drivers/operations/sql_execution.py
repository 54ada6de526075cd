"""One statement's execution, and what follows a conflict: attempts with pauses between them, which take a task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.drivers.operations.sql_session import NOT_FOUND, Ran, Session
from stepbench.drivers.postgresql.execution import Execution
from stepbench.drivers.protocol import WITHDRAWN, Operated, Operation, Outcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from psycopg.pq.abc import PGresult

    from stepbench.drivers.postgresql.execution import Ways

    GoOn = Callable[[Session, Operation, Ran], Awaitable[Operated]]

_OK = Outcome.OK
CONFLICTS = frozenset({"40001"})
"""serialization_failure: what the store asks to be tried again (DSQL: every conflict, since it locks nothing)."""


class SqlExecution(Execution[Operation, Session, Operated]):
    """
    `Made` of an operation that is one statement.

    go_on: has the rest of the attempts, after a conflict, on the session that the first was on.
    """

    __slots__ = ("_conflict", "_go_on")

    def __init__(
        self,
        ways: Ways[Operation, Session, Operated],
        operation: Operation,
        statement: bytes,
        values: list[bytes],
        go_on: GoOn,
    ) -> None:
        super().__init__(ways, operation, statement, values)
        self._go_on = go_on
        self._conflict: Ran | None = None

    def _answered(self, t1_ns: int, t2_ns: int, outcome: Outcome, error: str, result: PGresult | None) -> None:
        session = self._lane
        if error in CONFLICTS and session is not None:
            operation, go_on = self._offer, self._go_on
            conflict = self._conflict = Ran(t1_ns, t2_ns, outcome, error)
            self._begin(lambda: go_on(session, operation, conflict), self._tried_again)
            return
        if outcome is _OK and result is not None and result.command_tuples == 0:
            outcome, error = Outcome.FAILED, NOT_FOUND
        self._finish(Operated(t1_ns, t2_ns, outcome, "", error))

    def _tried_again(self, operated: Operated) -> None:
        conflict = self._conflict
        if conflict is None:
            return
        if operated.error == WITHDRAWN:  # before the first pause began: the refusal is all that has happened
            operated = Operated(*conflict[:3], error=conflict.error)
        self._finish(operated._replace(t1_ns=conflict.t1_ns))

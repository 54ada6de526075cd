"""Operations on one session with a server that speaks PostgreSQL's protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.drivers.postgresql.conversation import Answer, Conversation
from stepbench.drivers.protocol import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg.pq.abc import PGconn

    from stepbench.clock import Clock
    from stepbench.drivers.operations.sql_statements import Statement
    from stepbench.drivers.protocol import Operation

NOT_FOUND = "not_found"


class Ran(NamedTuple):
    """What came of an operation's statements; times, outcome and error as of `Operated`."""

    t1_ns: int
    t2_ns: int
    outcome: Outcome
    error: str


class Session:
    """A connection that is idle or has one operation under way. `broken` once it can do neither."""

    def __init__(self, pgconn: PGconn, clock: Clock, limit_s: float) -> None:
        """`limit_s`: after which a statement without an answer is given up, and the connection with it."""
        self.conversation = Conversation(pgconn, clock, limit_s)

    @property
    def broken(self) -> bool:
        """Whether it has to be replaced."""
        return self.conversation.broken

    def close(self) -> None:
        """Drop the connection at once, whatever is under way."""
        self.conversation.close()

    async def prepare(self, wanted: Iterable[Statement]) -> Answer | None:
        """Have the server parse those that it has not yet parsed; the first refusal (there may be no table yet)."""
        for statement in wanted:
            if statement.name not in self.conversation.prepared:
                answer = await self.conversation.prepare(statement.name, statement.text)
                if answer.outcome is not Outcome.OK:
                    return answer
        return None

    async def run(self, wanted: Iterable[Statement], operation: Operation) -> Ran:
        """Execute them in order, up to the first that fails; one that is not prepared is parsed with the execution."""
        began_ns = 0
        for statement in wanted:
            answer = await self._execute(statement, statement.arguments(operation))
            began_ns = began_ns or answer.t1_ns
            if answer.outcome is not Outcome.OK:
                return Ran(began_ns, answer.t2_ns, answer.outcome, answer.error)
            if answer.result is not None and answer.result.command_tuples == 0:
                return Ran(began_ns, answer.t2_ns, Outcome.FAILED, NOT_FOUND)
        return Ran(began_ns, answer.t2_ns, Outcome.OK, "")

    async def _execute(self, statement: Statement, values: list[bytes]) -> Answer:
        formats = (1,) * len(values)
        if statement.name in self.conversation.prepared:
            return await self.conversation.exchange(
                lambda pgconn: pgconn.send_query_prepared(statement.name, values, param_formats=formats)
            )
        return await self.conversation.exchange(
            lambda pgconn: pgconn.send_query_params(statement.text, values, param_formats=formats)
        )

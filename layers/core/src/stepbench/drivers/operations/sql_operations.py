"""What the drivers of SQL stores have in common: a `SqlOperator` does their operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.drivers.awaiting import answer_of
from stepbench.drivers.operations.sql_operator import Limits, SqlOperator
from stepbench.drivers.postgresql.access import CONNECT_LIMIT_S

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialPlan
    from stepbench.drivers.protocol import Made, Operated, Operation

LANES_FROM_THE_START = 8


class SqlOperations:
    """The writer's side of a driver; `_operator` is made by the store's own class."""

    _operator: SqlOperator

    async def open(self) -> None:
        """Look up address and credentials; connect to nothing, since a control connection needs a place, too."""
        await self._operator.look_up()

    async def warm_up(self) -> None:
        """With reuse, have a prepared session per client of one writer before any clock starts."""
        await self._operator.warm_up()

    async def close(self) -> None:
        """Close the writer's sessions."""
        self._operator.close()

    def make(self, operation: Operation) -> Made[Operated]:
        """One operation, in one transaction (a read-modify-write in two); after a conflict all of it again."""
        return self._operator.make(operation)

    async def operate(self, operation: Operation) -> Operated:
        """What `make` makes, awaited; cancelled while it is known what came of it, it raises WithdrawnError."""
        return await answer_of(self._operator.make(operation))


def limits_of(plan: TrialPlan, answer_limit_s: float) -> Limits:
    """One session per client of a writer, all before the load; in open loop up to its cap, and a few to begin with."""
    clients = plan.clients_of_writer
    if all(phase.closed for phase in plan.phases):
        return Limits(CONNECT_LIMIT_S, answer_limit_s, clients, clients, queue=False)
    most = max(clients, plan.max_in_flight)
    return Limits(CONNECT_LIMIT_S, answer_limit_s, most, min(most, LANES_FROM_THE_START), queue=True)

"""One prepared statement on a connection that is idle, without a task: what `make` gives where it can."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar, cast

from stepbench.drivers.postgresql.lanes import AnyLane
from stepbench.drivers.protocol import AnswerT
from stepbench.drivers.tasked import Tasked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from psycopg.pq.abc import PGconn, PGresult

    from stepbench.clock import Clock
    from stepbench.drivers.postgresql.conversation import Conversation
    from stepbench.drivers.postgresql.lanes import Lanes
    from stepbench.drivers.protocol import Made, Outcome


class SpeakingLane(AnyLane, Protocol):
    """A lane with its conversation."""

    @property
    def conversation(self) -> Conversation:
        """Idle while the lane is."""
        ...


OfferT = TypeVar("OfferT")
LaneT = TypeVar("LaneT", bound=SpeakingLane)


class Ways(NamedTuple, Generic[OfferT, LaneT, AnswerT]):
    """
    What executions of one driver have in common.

    lanes: the connections. instead: offered as a task where no lane is idle that has the statement prepared; it opens
    one, or waits. clock: for tasks that are given up.
    """

    lanes: Lanes[LaneT]
    instead: Callable[[OfferT], Awaitable[AnswerT]]
    clock: Clock


class Execution(ABC, Generic[OfferT, LaneT, AnswerT]):
    """
    `Made` of one statement, but for what its answer means.

    Args:
        ways: see there.
        offer: what it is the execution of.
        statement: its name.
        values: of $1, $2 … in binary format: in text format libpq would silently cut a value at a NUL.
    """

    __slots__ = ("_done", "_formats", "_lane", "_offer", "_statement", "_tasked", "_values", "_ways")

    def __init__(
        self, ways: Ways[OfferT, LaneT, AnswerT], offer: OfferT, statement: bytes, values: list[bytes]
    ) -> None:
        self._ways = ways
        self._offer = offer
        self._statement = statement
        self._values = values
        self._formats = (1,) * len(values)
        self._lane: LaneT | None = None
        self._done: Callable[[AnswerT], None] | None = None
        self._tasked: Made[AnswerT] | None = None

    def send(self, done: Callable[[AnswerT], None]) -> None:
        """See `Made`."""
        lanes = self._ways.lanes
        lane = lanes.take()
        if lane is not None:
            conversation = lane.conversation
            if self._statement in conversation.prepared:
                self._lane, self._done = lane, done
                conversation.start(self._hand_over, self._answered)
                return
            lanes.release(lane)
        ways, offer = self._ways, self._offer
        self._begin(lambda: ways.instead(offer), done)

    def abandon(self) -> None:
        """See `Made`."""
        if self._tasked is not None:
            self._tasked.abandon()
        elif self._lane is not None:
            self._lane.conversation.give_up()

    def _begin(self, task: Callable[[], Awaitable[AnswerT]], done: Callable[[AnswerT], None]) -> None:
        self._tasked = tasked(task, self._ways.clock)
        self._tasked.send(done)

    def _hand_over(self, pgconn: PGconn) -> None:
        pgconn.send_query_prepared(self._statement, self._values, self._formats)

    @abstractmethod
    def _answered(self, t1_ns: int, t2_ns: int, outcome: Outcome, error: str, result: PGresult | None) -> None:
        """What comes of it, in the parts of an `Answer`; in the end, `_finish` is called."""

    def _finish(self, answer: AnswerT) -> None:
        lane, done = self._lane, self._done
        self._lane = self._done = None
        if lane is not None and done is not None:
            self._ways.lanes.release(lane)  # before `done`, which may send the next at once
            done(answer)


def tasked(start: Callable[[], Awaitable[AnswerT]], clock: Clock) -> Made[AnswerT]:
    """As `Tasked`, whose `Operated` for what never began is good for whoever takes a `Written`."""
    return cast("Made[AnswerT]", Tasked(start, clock))

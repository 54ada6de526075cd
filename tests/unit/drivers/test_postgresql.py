"""What the PostgreSQL driver decides without a server."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, cast

import pytest

from stepbench.drivers.postgresql import PostgresqlDriver
from stepbench.drivers.postgresql.conversation import Conversation, outcome_of
from stepbench.drivers.postgresql.driver import region_of
from stepbench.drivers.postgresql.lanes import Lanes
from stepbench.drivers.protocol import Outcome
from stepbench.errors import PlanError, TargetUnavailableError
from stepbench.settings import Settings
from stepbench.testing.driver_subject import contract_spec
from stepbench.testing.fake_clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from psycopg.pq.abc import PGconn


@pytest.mark.parametrize(
    ("severity", "sqlstate", "outcome"),
    [
        ("ERROR", "23505", Outcome.FAILED),  # unique_violation
        ("ERROR", "38000", Outcome.FAILED),  # the trigger could not invoke
        ("ERROR", "57014", Outcome.FAILED),  # statement_timeout
        ("ERROR", "53200", Outcome.FAILED),  # out_of_memory
        ("FATAL", "57P01", Outcome.UNKNOWN),  # admin_shutdown
        ("PANIC", "XX000", Outcome.UNKNOWN),
        ("ERROR", "40003", Outcome.UNKNOWN),  # statement_completion_unknown
        ("ERROR", "08007", Outcome.UNKNOWN),  # transaction_resolution_unknown
        ("", "", Outcome.UNKNOWN),  # libpq's own report: the connection is gone
    ],
)
def test_only_a_rollback_is_failed(severity: str, sqlstate: str, outcome: Outcome) -> None:
    """A write that may have been committed, counted as failed, would turn its arrival into a contradiction."""
    assert outcome_of(severity, sqlstate) is outcome


@pytest.mark.parametrize(
    ("function", "region"),
    [("arn:aws:lambda:eu-central-1:000000000000:function:f", "eu-central-1"), ("f", ""), ("arn:aws", "")],
)
def test_the_receivers_region_is_in_its_arn(function: str, region: str) -> None:
    """Aurora refuses a region that contradicts the ARN."""
    assert region_of(function) == region


class _Connection:
    """As much of libpq's connection as a conversation needs that ends before it begins."""

    nonblocking = 0

    def __init__(self, descriptor: int) -> None:
        self.socket = descriptor

    def finish(self) -> None:
        """Nothing to end."""


async def test_nothing_is_sent_over_a_connection_that_is_broken() -> None:
    """What certainly never left is no open question."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        conversation = Conversation(cast("PGconn", _Connection(ours.fileno())), FakeClock(), limit_s=1)
        conversation.close()
        sent: list[str] = []
        answer = await conversation.exchange(lambda _: sent.append("a statement"))
    assert (answer.outcome, answer.error, sent) == (Outcome.FAILED, "connection lost", [])


def test_no_endpoint_is_refused_with_the_remedy() -> None:
    """The stack may come without PostgreSQL; the plan's author is told what to give."""
    settings = Settings(results_table="t", results_bucket="b")
    with pytest.raises(PlanError, match="PostgresqlEndpoint"):
        PostgresqlDriver(contract_spec({"store": "postgresql"}), settings, FakeClock())


class _Lane:
    """As much of a lane as its keeper sees."""

    def __init__(self) -> None:
        self.broken = False
        self.closed = False

    def close(self) -> None:
        self.closed = True


class _Server:
    """Makes lanes, until `refuse_from` of them exist."""

    def __init__(self, refuse_from: int = 1_000) -> None:
        self.made: list[_Lane] = []
        self.refuse_from = refuse_from

    async def make(self) -> _Lane:
        await asyncio.sleep(0)
        if len(self.made) >= self.refuse_from:
            message = "too many connections"
            raise TargetUnavailableError(message)
        self.made.append(_Lane())
        return self.made[-1]


def _lanes(server: _Server, cap: int) -> Lanes[_Lane]:
    make: Callable[[], Coroutine[None, None, _Lane]] = server.make
    return Lanes(make, cap)


async def _tick() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_cap_holds_also_while_lanes_are_being_opened() -> None:
    """Ten writes that start together must not open ten connections where the plan allows three."""
    server = _Server()
    lanes = _lanes(server, cap=3)
    waiting = [asyncio.create_task(lanes.acquire()) for _ in range(10)]
    await _tick()
    assert len(server.made) == 3
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_whoever_waits_longest_is_served_first() -> None:
    """Requests queue in order; another order would move delay from one event to the next."""
    lanes = _lanes(_Server(), cap=1)
    lane = await lanes.acquire()
    served: list[int] = []

    async def write(number: int) -> None:
        held = await lanes.acquire()
        served.append(number)
        lanes.release(held)

    waiting = [asyncio.create_task(write(number)) for number in range(5)]
    await _tick()
    lanes.release(lane)
    await asyncio.gather(*waiting)
    assert served == [0, 1, 2, 3, 4]


async def test_a_broken_lane_is_closed_and_replaced() -> None:
    """A connection that is lost must cost one write, not the writer."""
    server = _Server()
    lanes = _lanes(server, cap=1)
    lane = await lanes.acquire()
    next_one = asyncio.create_task(lanes.acquire())
    await _tick()
    lane.broken = True
    lanes.release(lane)
    replacement: object = await next_one
    assert replacement is server.made[1]
    assert server.made[0].closed


async def test_a_lane_that_broke_while_idle_is_not_handed_out() -> None:
    """The server may end sessions that nobody uses at the moment."""
    server = _Server()
    lanes = _lanes(server, cap=2)
    await lanes.warm_up(1)
    server.made[0].broken = True
    acquired: object = await lanes.acquire()
    assert acquired is server.made[1]


async def test_a_server_that_is_full_lowers_the_cap() -> None:
    """With 100 sessions allowed and 64 wanted by each of two writers, the rest has to queue and not to fail."""
    server = _Server(refuse_from=1)
    lanes = _lanes(server, cap=2)
    lane = await lanes.acquire()
    second = asyncio.create_task(lanes.acquire())
    await _tick()
    assert not second.done()
    lanes.release(lane)
    assert await second is lane


async def test_without_any_lane_the_refusal_reaches_everyone() -> None:
    """Nobody is left to wait for a lane that will never come."""
    lanes = _lanes(_Server(refuse_from=0), cap=1)
    outcomes = await asyncio.gather(*(lanes.acquire() for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [TargetUnavailableError] * 3
    with pytest.raises(TargetUnavailableError):
        await lanes.warm_up(4)


async def test_a_lane_given_to_somebody_who_has_gone_is_not_lost() -> None:
    """A cancelled write at the wrong moment would otherwise shrink the pool for good."""
    lanes = _lanes(_Server(), cap=1)
    lane = await lanes.acquire()
    gone = asyncio.create_task(lanes.acquire())
    await _tick()
    lanes.release(lane)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    assert await asyncio.wait_for(lanes.acquire(), 1) is lane


async def test_closing_closes_every_lane() -> None:
    """A stage that ends leaves no session on the server."""
    server = _Server()
    lanes = _lanes(server, cap=4)
    await lanes.warm_up(8)
    lanes.close()
    lanes.close()
    assert [lane.closed for lane in server.made] == [True] * 4


async def test_who_insists_is_told_that_there_are_no_more() -> None:
    """Ten clients on three connections would be measured as three: they have to see the refusal."""
    server = _Server(refuse_from=1)
    lanes: Lanes[_Lane] = Lanes(server.make, cap=3, insist=True)
    held = await lanes.acquire()
    with pytest.raises(TargetUnavailableError):
        await lanes.acquire()
    server.refuse_from = 2
    assert await lanes.acquire() is not held

"""Connections that a driver keeps: made once at a time, dropped when broken; and requests over them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.support.fake_clock import START_NS, FakeClock

from stepbench.errors import TargetUnavailableError
from stepbench.model.errors import NO_ANSWER, WITHDRAWN
from stepbench.model.request import Outcome, Result
from stepbench.wire.link import Link, LinkedRequest, Links

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.wire.answers import OnAnswer
    from stepbench.wire.socket import OutgoingBytes


class FakeConnection:
    """Keeps what is sent over it until the test answers."""

    def __init__(self, *, takes: bool = True) -> None:
        self.is_open = True
        self.takes = takes
        self.sent: list[tuple[bytes, OnAnswer[bytes]]] = []

    def send(self, request: bytes, outgoing: OutgoingBytes, done: OnAnswer[bytes]) -> None:
        """Take it, or leave it waiting as behind a full buffer."""
        outgoing.t1_ns = START_NS + 1 if self.takes else 0
        self.sent.append((request, done))

    def withdraw(self, outgoing: OutgoingBytes) -> bool:
        """See `InOrderConnection`."""
        return not outgoing.t1_ns

    def close(self) -> None:
        """End it."""
        self.is_open = False


class Server:
    """Counts who connects; while `failure` is set, nobody can."""

    def __init__(self) -> None:
        self.made: list[FakeConnection] = []
        self.attempts = 0
        self.keys: list[object] = []
        self.failure: Exception | None = None

    async def connect(self) -> FakeConnection:
        """Connect, some turns of the loop later."""
        self.attempts += 1
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure
        self.made.append(FakeConnection())
        return self.made[-1]

    async def connect_key(self, key: object) -> FakeConnection:
        """Connect for a key, which is noted."""
        self.keys.append(key)
        return await self.connect()


def link_to(server: Server) -> Link[FakeConnection]:
    """Return a link that is not connected yet."""
    return Link(server.connect, FakeClock())


def judge(answer: bytes) -> tuple[Outcome, str, str]:
    """Take anything but "no" for a token."""
    return (Outcome.FAILED, "", "refused") if answer == b"no" else (Outcome.OK, answer.decode(), "")


@pytest.fixture
def server() -> Server:
    """See `Server`."""
    return Server()


async def test_all_who_wait_get_the_one_connection(server: Server) -> None:
    """A hundred clients that find none must not make a hundred."""
    link = link_to(server)
    assert link.find() is None
    reached = await asyncio.gather(*(link.reach() for _ in range(5)))
    assert (set(reached), server.attempts) == ({link.find()}, 1)


async def test_all_who_wait_share_a_failure_and_the_next_one_tries_again(server: Server) -> None:
    """Else each would wait for the limit of a connection of its own, one after the other."""
    server.failure = ConnectionRefusedError("nobody")
    link = link_to(server)
    assert await asyncio.gather(*(link.reach() for _ in range(5))) == ["connect: refused"] * 5
    assert server.attempts == 1
    server.failure = None
    assert await link.reach() is server.made[0]


async def test_one_who_stops_waiting_takes_nobody_along(server: Server) -> None:
    """The next in line connects instead."""
    link = link_to(server)
    first, second = asyncio.create_task(link.reach()), asyncio.create_task(link.reach())
    await asyncio.sleep(0)
    first.cancel()
    assert await second is server.made[0]
    assert first.cancelled()


async def test_what_has_ended_is_made_anew(server: Server) -> None:
    """It makes no difference whether the peer ended it, or the driver is done with it."""
    link = link_to(server)
    await link.reach()
    (old,) = server.made
    old.close()
    assert link.find() is None
    assert await link.reach() is server.made[1] is link.find()


async def test_nothing_is_left_open_after_the_end(server: Server) -> None:
    """Not even what was being made just then."""
    links = Links(server.connect_key, FakeClock())
    await links.open(range(3))
    late = asyncio.create_task(links["late"].reach())
    await asyncio.sleep(0)
    links.close()
    links.close()
    await late
    assert [each.is_open for each in server.made] == [False] * 4
    assert server.keys == [0, 1, 2, "late"]


async def test_a_server_may_let_us_have_fewer_connections_than_asked_for(server: Server) -> None:
    """The trial goes on with those there are; without any it ends."""
    links = Links(server.connect_key, FakeClock())
    await links[0].reach()
    server.failure = ConnectionResetError("too many")
    await links.open(range(3))
    assert [links[key].find() is not None for key in range(3)] == [True, False, False]
    with pytest.raises(TargetUnavailableError, match="too many"):
        await links.open([1, 2])


def request_over(link: Link[FakeConnection], told: Callable[[Result], None]) -> LinkedRequest[bytes, bytes]:
    """Return a request that has been sent."""
    request = LinkedRequest(link, b"data", judge)
    request.send(told)
    return request


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ((b"7", ""), Result(START_NS + 1, START_NS + 9, Outcome.OK, "7")),
        ((b"no", ""), Result(START_NS + 1, START_NS + 9, Outcome.FAILED, error="refused")),
        ((None, "timeout"), Result(START_NS + 1, START_NS + 9, Outcome.UNKNOWN, error="timeout")),
    ],
    ids=["acknowledged", "refused", "unanswered"],
)
async def test_a_request_is_judged_where_its_answer_arrives(
    server: Server, answer: tuple[bytes | None, str], result: Result
) -> None:
    """In that very turn, by the connection's stamps; and without a task where there is a connection."""
    link, told = link_to(server), list[Result]()
    await link.reach()
    request = request_over(link, told.append)
    ((data, done),) = server.made[0].sent
    done(START_NS + 9, *answer)
    request.abandon()
    assert (data, told) == (b"data", [result])


@pytest.mark.parametrize("takes", [True, False])
async def test_an_abandoned_request_says_whether_it_has_left(server: Server, *, takes: bool) -> None:
    """A late answer changes nothing: `done` is called once."""
    link, told = link_to(server), list[Result]()
    await link.reach()
    server.made[0].takes = takes
    request = request_over(link, told.append)
    request.abandon()
    server.made[0].sent[0][1](START_NS + 9, b"7", "")
    expected = (Outcome.UNKNOWN, NO_ANSWER) if takes else (Outcome.FAILED, WITHDRAWN)
    assert [(each.outcome, each.error) for each in told] == [expected]


async def test_without_a_connection_one_is_made_first(server: Server) -> None:
    """Outside the request's time, which begins with t1."""
    told: list[Result] = []
    request_over(link_to(server), told.append)
    for _ in range(5):
        await asyncio.sleep(0)
    assert [data for data, _ in server.made[0].sent] == [b"data"]
    assert told == []


@pytest.mark.parametrize(
    ("failure", "outcome", "error"),
    [
        (ConnectionRefusedError(), Outcome.FAILED, "connect: refused"),
        (KeyError(), Outcome.FAILED, "KeyError in the driver"),
    ],
)
async def test_where_none_can_be_made_the_request_has_failed(
    server: Server, failure: Exception, outcome: Outcome, error: str
) -> None:
    """Nothing of it has left us."""
    server.failure, told = failure, list[Result]()
    request_over(link_to(server), told.append)
    for _ in range(5):
        await asyncio.sleep(0)
    assert [(each.outcome, each.error) for each in told] == [(outcome, error)]
    assert all(START_NS <= each.t1_ns <= each.t2_ns for each in told)


async def test_a_request_that_is_abandoned_while_it_waits_for_a_connection_is_never_sent(server: Server) -> None:
    """It certainly had no effect."""
    link, told = link_to(server), list[Result]()
    request = request_over(link, told.append)
    await asyncio.sleep(0)
    request.abandon()
    await asyncio.sleep(0)
    await link.reach()
    assert [(each.outcome, each.error) for each in told] == [(Outcome.FAILED, WITHDRAWN)]
    assert server.made[0].sent == []


async def test_connections_ahead_end_in_total(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand, some at a time, each with five seconds of its own, would take minutes where nobody answers."""
    monkeypatch.setattr("stepbench.wire.link.OPEN_LIMIT_S", -1.0)
    links = Links(server.connect_key, FakeClock())
    with pytest.raises(TargetUnavailableError, match="timeout"):
        await links.open(range(100))
    assert server.attempts == 0

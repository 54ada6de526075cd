"""Redis over a bad network: every command ends in bounded time, and what is known of it is true."""

from __future__ import annotations

import asyncio
import socket
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.fault_proxy import Cut, Delay, Drop, FaultProxy, Limit, Rule, fault_proxy, plain

from stepbench.clock import AnchoredClock
from stepbench.wire.resp import MalformedReplyError, Push
from stepbench.wire.resp.connection import Login, RespConnection
from stepbench.wire.resp.requests import ReplyLimits, RespReader, encode_command
from stepbench.wire.socket import OutgoingBytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.integration.wire.conftest import Connect

    from stepbench.wire.resp import Reply
    from stepbench.wire.resp.connection import RespAnswer
    from stepbench_tools.local.stores import LocalStore

    Ended = list[tuple[int, Reply, str]]
    """Of each command by its number, in the order in which they were told."""


pytestmark = pytest.mark.stores
LIMIT_S = 30
MARK = b"marked"
ENDS = ("connection-closed", "connection-reset")


@pytest.fixture
def proxy(valkey_server: LocalStore) -> Iterator[FaultProxy]:
    """In front of the module's server."""
    with fault_proxy(valkey_server.endpoint, plain) as proxy:
        yield proxy


@pytest.mark.parametrize("how", ["rst", "fin"])
@pytest.mark.parametrize("at", ["before-request", "in-request", "before-answer", "in-answer"])
async def test_a_cut_leaves_the_command_unknown(at: str, how: str, proxy: FaultProxy, connect_to: Connect) -> None:
    """Wherever it happens; half an answer is none."""
    connection = (await connect_to(proxy.endpoint)).connection
    await connection.call(b"SET", b"k", MARK)
    proxy.follow(Rule(Cut(at, how, after_bytes=3), match=b"GET"))  # type: ignore[arg-type]
    async with asyncio.timeout(LIMIT_S):
        answer = await connection.call(b"GET", b"k")
    assert (answer.reply, answer.sent, connection.is_open) == (None, True, False)
    assert answer.error in ENDS


async def test_counts_agree_with_outcomes_whatever_is_cut(proxy: FaultProxy, connect_to: Connect) -> None:
    """At least what was acknowledged has happened, at most what was sent, and nothing was answered twice."""
    proxy.follow(
        Rule(Cut("before-answer"), match=b"INCR", share=0.1, seed=1),
        Rule(Cut("in-answer", after_bytes=2), match=b"INCR", share=0.1, seed=2),
        Rule(Cut("before-request"), match=b"INCR", share=0.1, seed=3),
    )
    answers: list[RespAnswer] = []
    connection = (await connect_to(proxy.endpoint)).connection
    await connection.call(b"SET", b"count", b"0")
    async with asyncio.timeout(LIMIT_S):
        for _ in range(60):
            if not connection.is_open:
                connection = (await connect_to(proxy.endpoint)).connection
            answers += await asyncio.gather(*(connection.call(b"INCR", b"count") for _ in range(10)))
    proxy.follow()
    last = (await (await connect_to(proxy.endpoint)).connection.call(b"GET", b"count")).reply
    acknowledged = [each.reply for each in answers if not each.error]
    assert isinstance(last, bytes)
    assert len(acknowledged) <= int(last) <= sum(each.sent for each in answers)
    assert len(acknowledged) < len(answers)
    assert sorted(set(acknowledged), key=repr) == sorted(acknowledged, key=repr)


async def test_a_delay_is_seen_in_the_answers_time(proxy: FaultProxy, connect_to: Connect) -> None:
    """And in that of all commands behind it: t1 is when they were sent, not when their turn came."""
    connection = (await connect_to(proxy.endpoint)).connection
    proxy.follow(Rule(Delay(answer_s=0.3), times=1))
    async with asyncio.timeout(LIMIT_S):
        answers = await asyncio.gather(*(connection.call(b"ECHO", b"%d" % each) for each in range(20)))
    assert [each.reply for each in answers] == [b"%d" % each for each in range(20)]
    assert all(each.t2_ns - each.t1_ns > 0.29e9 for each in answers)


@pytest.mark.parametrize("part", ["request", "answer"])
async def test_a_black_hole_ends_in_time_outs(part: str, proxy: FaultProxy, connect_to: Connect) -> None:
    """A connection that carries nothing does not say so."""
    connection = (await connect_to(proxy.endpoint, answer_s=0.3)).connection
    proxy.follow(Rule(Drop(part)))  # type: ignore[arg-type]
    async with asyncio.timeout(LIMIT_S):
        answers = await asyncio.gather(*(connection.call(b"PING") for _ in range(10)))
    assert {each.error for each in answers} == {"timeout"}


async def test_answers_that_trickle_in_are_put_together(proxy: FaultProxy, connect_to: Connect) -> None:
    """Small segments split replies anywhere."""
    connection = (await connect_to(proxy.endpoint)).connection
    value = bytes(range(256)) * 4
    await connection.call(b"SET", b"k", value)
    proxy.follow(Rule(Limit(bytes_per_s=4000)))
    async with asyncio.timeout(LIMIT_S):
        answers = await asyncio.gather(*connection.pipeline([(b"GET", b"k"), (b"STRLEN", b"k")]))
    assert [each.reply for each in answers] == [value, 1024]


async def test_a_stalled_connection_goes_on_where_it_was(proxy: FaultProxy, connect_to: Connect) -> None:
    """Nothing is lost, nothing is doubled."""
    connection = (await connect_to(proxy.endpoint)).connection
    proxy.stall()
    calls = [connection.call(b"ECHO", b"%d" % each) for each in range(100)]
    await asyncio.sleep(0.1)
    assert connection.in_flight == 100
    proxy.resume()
    async with asyncio.timeout(LIMIT_S):
        answers = await asyncio.gather(*calls)
    assert [each.reply for each in answers] == [b"%d" % each for each in range(100)]


async def test_a_cut_while_logging_in_is_an_oserror(proxy: FaultProxy, connect_to: Connect) -> None:
    """And leaves no socket behind: an open one would be a warning, and warnings are errors here."""
    proxy.follow(Rule(Cut("before-answer")))
    with pytest.raises(ConnectionError, match="connection-"):
        await connect_to(proxy.endpoint, login=Login(database=1))


LIMITS = ReplyLimits(size_bytes=200, elements=6, depth=2)
PING = encode_command(b"PING")
LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]

WHOLE = st.sampled_from(
    [b"+OK\r\n", b":7\r\n", b"$3\r\nabc\r\n", b"$-1\r\n", b"*2\r\n:1\r\n$1\r\nx\r\n", b"-ERR no\r\n", b">1\r\n+p\r\n"]
)
BROKEN = st.sampled_from(
    [b"?", b"$9\r\nab", b"$3\r\nabcde", b"*99\r\n", b"$300\r\n", b"*1\r\n*1\r\n*1\r\n", b"HTTP/1.1 "]
)
SAID = st.lists(WHOLE | st.one_of(WHOLE, WHOLE, WHOLE, BROKEN, st.binary(max_size=12)), max_size=10).map(b"".join)
CUTS = st.lists(st.integers(0, 200), max_size=5)


def answers_in(said: bytes) -> list[Reply]:
    """Return the answers in these bytes, uncut, up to the first that is none."""
    try:
        replies: Sequence[Reply] = RespReader(LIMITS).feed(said)
    except MalformedReplyError as error:
        replies = error.replies
    return [each for each in replies if not isinstance(each, Push)]


async def offered(said: bytes, cuts: list[int], commands: int, *, reset: bool) -> Ended:
    """Return what becomes of so many commands where the peer sends this, in pieces, and goes."""
    ours, theirs = socket.socketpair() if not reset else _connected()
    ours.setblocking(False)  # noqa: FBT003 -- the standard library's
    connection = RespConnection(ours, AnchoredClock(), limits=LIMITS)
    ended: Ended = []
    for number in range(commands):

        def told(_t2_ns: int, reply: Reply, error: str, number: int = number) -> None:
            ended.append((number, reply, error))

        connection.send(PING, OutgoingBytes(), told)
    with theirs:  # closed with our commands unread, which is a reset
        for start, end in pairwise([0, *sorted(cut % (len(said) + 1) for cut in cuts), len(said)]):
            if connection.is_open:
                theirs.send(said[start:end])
            await asyncio.sleep(0)
    try:
        async with asyncio.timeout(LIMIT_S):
            while connection.is_open:  # noqa: ASYNC110 -- it tells nobody
                await asyncio.sleep(0.001)
    finally:
        connection.close()
    return ended


def _connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    return ours, theirs


@pytest.mark.parametrize("loop_factory", LOOPS)
@given(said=SAID, cuts=CUTS, commands=st.integers(0, 6))
@settings(max_examples=150, deadline=None)
def test_each_command_ends_once_with_its_own_answer(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], said: bytes, cuts: list[int], commands: int
) -> None:
    """Those answered before the break have their answers, in order; all behind it have a reason, and nobody waits."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        ended = runner.run(offered(said, cuts, commands, reset=False))
    answers = answers_in(said)[:commands]
    assert [number for number, _, _ in ended] == list(range(commands))
    assert [reply for _, reply, error in ended if not error] == answers
    assert all(error for _, _, error in ended[len(answers) :])


@pytest.mark.parametrize("loop_factory", LOOPS)
@given(said=SAID, cuts=CUTS, commands=st.integers(0, 6))
@settings(max_examples=25, deadline=None)
def test_so_it_is_where_the_connection_is_reset(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], said: bytes, cuts: list[int], commands: int
) -> None:
    """A reset may overtake what came before it, but it changes no answer and leaves nobody waiting."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        ended = runner.run(offered(said, cuts, commands, reset=True))
    answered = [reply for _, reply, error in ended if not error]
    assert [number for number, _, _ in ended] == list(range(commands))
    assert answered == answers_in(said)[: len(answered)]
    assert all(error for _, _, error in ended[len(answered) :])

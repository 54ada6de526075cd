"""Redis over a bad network: every command ends in bounded time, and what is known of it is true."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from stepbench.testing.fault_proxy import Cut, Delay, Drop, FaultProxy, Limit, Rule, fault_proxy, plain
from stepbench.wire.resp_connect import Login

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.wire.conftest import Connect

    from stepbench.local.processes import LocalStore
    from stepbench.wire.resp_connection import Answered

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
    answers: list[Answered] = []
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

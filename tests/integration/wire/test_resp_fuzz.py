"""Whatever a peer says, and however it is cut: each command ends once, with its own answer or without one."""

from __future__ import annotations

import asyncio
import socket
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from stepbench.clock import AnchoredClock
from stepbench.wire.byte_socket import Shipment
from stepbench.wire.resp import ReplyLimits, RespReader, encode_command
from stepbench.wire.resp_connection import RespConnection
from stepbench.wire.resp_values import MalformedReplyError, Push

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepbench.wire.resp_values import Reply

    Ended = list[tuple[int, Reply, str]]
    """Of each command by its number, in the order in which they were told."""

LIMIT_S = 20
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
    """Of these bytes by themselves, uncut: what comes before the first that is none."""
    try:
        replies: Sequence[Reply] = RespReader(LIMITS).feed(said)
    except MalformedReplyError as error:
        replies = error.replies
    return [each for each in replies if not isinstance(each, Push)]


async def offered(said: bytes, cuts: list[int], commands: int, *, reset: bool) -> Ended:
    """What becomes of so many commands where the peer says this, in pieces, and goes."""
    ours, theirs = socket.socketpair() if not reset else _connected()
    ours.setblocking(False)  # noqa: FBT003 -- the standard library's
    connection = RespConnection(ours, AnchoredClock(), limits=LIMITS)
    ended: Ended = []
    for number in range(commands):

        def told(_t2_ns: int, reply: Reply, error: str, number: int = number) -> None:
            ended.append((number, reply, error))

        connection.send(PING, Shipment(), told)
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

"""A gRPC connection over a real pair of sockets, by a clock of the test's own: alarms, and unplanned ends."""

from __future__ import annotations

import asyncio
import gc
import socket
from typing import TYPE_CHECKING, Any

import pytest

from stepbench.testing.fake_clock import START_NS, FakeClock
from stepbench.wire.grpc_answer import GrpcAnswer, Status
from stepbench.wire.grpc_connection import GrpcConnection, GrpcLimits
from stepbench.wire.http2_frames import END_HEADERS, END_STREAM, HEADERS, encode_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from stepbench.clock import Clock

LIMIT_S = 2.0
NO_SUCH_KEY = b"\x88\x00\x0bgrpc-status\x015"
"""An answer's fields: HTTP status 200, NOT_FOUND."""


class Wired:
    """A connection, and the socket at its other end."""

    def __init__(self, clock: Clock) -> None:
        ours, self.peer = socket.socketpair()
        ours.settimeout(0)
        self.connection = GrpcConnection(ours, clock, "host:1", GrpcLimits(answer_s=LIMIT_S))


def run(scenario: Callable[[Wired, FakeClock], Coroutine[Any, Any, None]]) -> None:
    """With a connection that is closed afterwards."""
    clock = FakeClock()

    async def wired() -> None:
        made = Wired(clock)
        try:
            await scenario(made, clock)
        finally:
            made.connection.close()
            made.peer.close()

    clock.run(wired())


async def turns() -> None:
    """Let the loop look at its sockets, without time passing."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_a_call_ends_at_its_limit_whatever_is_asked_after_it() -> None:
    """The later steps of other operations have what is left of theirs: a little less, again and again."""

    async def scenario(wired: Wired, clock: FakeClock) -> None:
        first, others = list[GrpcAnswer](), list[GrpcAnswer]()
        wired.connection.call("/a/b", b"", first.append)
        for _ in range(5):
            await clock.sleep_async(LIMIT_S / 4)
            wired.connection.call("/a/b", b"", others.append, LIMIT_S * 0.9)
        (ended,) = first
        assert ended.status is Status.DEADLINE_EXCEEDED
        assert (ended.t2_ns - START_NS) / 1e9 == pytest.approx(LIMIT_S)
        await clock.sleep_async(LIMIT_S)
        assert [(each.t2_ns - each.t1_ns) / 1e9 for each in others] == pytest.approx([LIMIT_S * 0.9] * 5)

    run(scenario)


def test_a_call_of_a_shorter_limit_ends_at_that() -> None:
    """It overtakes the one that was asked before it."""

    async def scenario(wired: Wired, clock: FakeClock) -> None:
        ended: list[tuple[str, int]] = []
        wired.connection.call("/a/b", b"", lambda answer: ended.append(("long", answer.t2_ns - START_NS)))
        wired.connection.call("/a/b", b"", lambda answer: ended.append(("short", answer.t2_ns - START_NS)), 0.5)
        await clock.sleep_async(2 * LIMIT_S)
        assert [name for name, _ in ended] == ["short", "long"]
        assert [after_ns / 1e9 for _, after_ns in ended] == pytest.approx([0.5, LIMIT_S])

    run(scenario)


def test_an_error_of_ours_at_an_answer_lets_nobody_wait() -> None:
    """The answers behind it are lost: their calls end at once, and the error is not hushed up."""

    async def scenario(wired: Wired, _clock: FakeClock) -> None:
        told: list[BaseException | None] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context.get("exception")))
        others: list[GrpcAnswer] = []
        problem = ValueError("of ours")

        def fail(_answer: GrpcAnswer) -> None:
            raise problem

        wired.connection.call("/a/b", b"", fail)
        wired.connection.call("/a/b", b"", others.append)
        wired.peer.send(b"".join(encode_frame(HEADERS, END_HEADERS | END_STREAM, n, NO_SUCH_KEY) for n in (1, 3)))
        await turns()
        assert [(each.status, each.is_untouched) for each in others] == [(Status.UNAVAILABLE, False)]
        assert (told, wired.connection.is_open) == ([problem], False)

    run(scenario)


@pytest.mark.parametrize("how", ["closed by the server", "never greeted"])
def test_a_connection_without_a_greeting_leaves_no_garbage(how: str) -> None:
    """The collector is off under load, and a server that is down is dialled again and again."""

    async def refused(clock: FakeClock) -> None:
        wired = Wired(clock)
        if how == "closed by the server":
            wired.peer.close()
        try:
            async with asyncio.timeout(LIMIT_S):
                await wired.connection.greeted()
        except OSError:
            pass
        finally:
            wired.connection.close()
            wired.peer.close()

    async def scenario(_wired: Wired, clock: FakeClock) -> None:
        await refused(clock)
        gc.collect()
        gc.disable()
        try:
            await refused(clock)
            await turns()
            left = gc.collect()
        finally:
            gc.enable()
        assert left == 0

    run(scenario)

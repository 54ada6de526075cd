"""Answers in the order of their requests, over a real pair of sockets and by a clock of the test's own."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.example_store.connection import OVERSIZED, ParsedConnection, TimedAnswer, parse_line
from tests.support.fake_clock import FakeClock

from stepbench.model.errors import CONNECTION_CLOSED, GARBAGE, TIMEOUT, UNASKED
from stepbench.wire.socket import OutgoingBytes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

LIMIT_S = 2.0
UNENDING = 8_000_000
"""Bytes that no kernel takes at once."""


def parse(data: bytes) -> tuple[bytes, int] | None:
    """Lines, of which none may be garbage."""
    if data.startswith(b"garbage"):
        raise ValueError
    return parse_line(data)


class Wired:
    """A connection, and the socket at its other end."""

    def __init__(self, clock: FakeClock) -> None:
        ours, self.peer = socket.socketpair()
        ours.settimeout(0)
        self.connection = ParsedConnection(ours, clock, parse, answer_s=LIMIT_S, answer_bytes=100)


def run(steps: Callable[[Wired], Awaitable[None]]) -> None:
    """Take the steps on a loop that lives by the clock."""
    clock = FakeClock()

    async def wired() -> None:
        async with asyncio.timeout(20 * LIMIT_S):
            it = Wired(clock)
            try:
                await steps(it)
            finally:
                it.connection.close()
                it.peer.close()

    clock.run(wired())


def bodies(answers: Iterable[TimedAnswer[bytes]]) -> list[bytes | str]:
    """Return each one's answer, or why there is none."""
    return [each.answer if each.answer is not None else each.error for each in answers]


@given(cuts=st.sets(st.integers(1, 14)))
def test_each_request_gets_its_own_answer(cuts: set[int]) -> None:
    """Wherever TCP cuts the answers."""

    async def steps(it: Wired) -> None:
        futures = [it.connection.call(b"%d\n" % n) for n in range(3)]
        said, begin = b"first\r\n\nthird\r\n", 0
        for cut in [*sorted(cuts), len(said)]:
            it.peer.send(said[begin:cut])
            begin = cut
            await asyncio.sleep(0)
        answers = await asyncio.gather(*futures)
        assert bodies(answers) == [b"first", b"", b"third"]
        assert all(each.sent and each.t1_ns <= each.t2_ns for each in answers)
        assert it.connection.in_flight == 0

    run(steps)


@pytest.mark.parametrize(
    ("said", "bodies_of_two"),
    [
        (b"one\ngarbage", [b"one", GARBAGE]),
        (b"one\n" + b"x" * 101, [b"one", OVERSIZED]),
        (b"one\ntwo\nthree\n", [b"one", b"two"]),
        (b"", [CONNECTION_CLOSED] * 2),
    ],
    ids=["garbage", "oversized", "unasked", "closed"],
)
def test_whatever_is_irregular_ends_the_connection(said: bytes, bodies_of_two: list[bytes | str]) -> None:
    """What came before counts; nothing behind it is taken for the answer to a later request."""

    async def steps(it: Wired) -> None:
        futures = [it.connection.call(b"request\n") for _ in range(2)]
        if said:
            it.peer.send(said)
        else:
            it.peer.shutdown(socket.SHUT_WR)
        assert bodies(await asyncio.gather(*futures)) == bodies_of_two
        await asyncio.sleep(0)
        assert not it.connection.is_open
        after = await it.connection.call(b"after\n")
        assert (after.sent, after.answer) == (False, None)

    run(steps)


def test_an_answer_without_a_request_ends_the_connection() -> None:
    """It would be the next one's, with a service time of nothing."""

    async def steps(it: Wired) -> None:
        first: list[tuple[int, bytes | None, str]] = []
        outgoing = OutgoingBytes()

        def done(_t2_ns: int, answer: bytes | None, error: str) -> None:
            first.append((it.connection.in_flight, answer, error))
            if answer:
                it.connection.send(b"second\n", outgoing, done)

        it.connection.send(b"first\n", OutgoingBytes(), done)
        it.peer.send(b"one\ntwo\n")
        while len(first) < 2:  # noqa: ASYNC110 -- the loop has no event for it
            await asyncio.sleep(0)
        assert first == [(0, b"one", ""), (0, None, UNASKED)]

    run(steps)


def test_the_oldest_request_has_its_time_from_its_own_send() -> None:
    """One timer serves all: it went off for the first, which was answered, and is set again for the second."""

    async def steps(it: Wired) -> None:
        first = it.connection.call(b"first\n")
        it.peer.send(b"one\n")
        assert bodies([await first]) == [b"one"]
        await asyncio.sleep(LIMIT_S / 2)
        second, third = it.connection.call(b"second\n"), it.connection.call(b"third\n")
        answers = await asyncio.gather(second, third)
        assert bodies(answers) == [TIMEOUT] * 2
        assert [each.sent for each in answers] == [True] * 2

    run(steps)


def test_what_the_kernel_never_took_is_unsent_or_can_be_taken_back() -> None:
    """A peer that reads nothing: the second request never leaves, so that it certainly had no effect."""

    async def steps(it: Wired) -> None:
        first = it.connection.call(bytes(UNENDING))
        waiting, given = OutgoingBytes(), []
        it.connection.send(b"second\n", waiting, lambda *each: given.append(each))
        assert it.connection.withdraw(waiting)
        assert not it.connection.withdraw(waiting)
        third = it.connection.call(b"third\n")
        answers = await asyncio.gather(first, third)
        assert [(each.error, each.sent) for each in answers] == [(TIMEOUT, True), (TIMEOUT, False)]
        assert given == []

    run(steps)

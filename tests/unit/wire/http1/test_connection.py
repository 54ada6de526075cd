"""One connection over a real pair of sockets, by a clock of the test's own: times, pairing, every irregular end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fake_clock import START_NS, FakeClock

from stepbench.wire.http1 import HttpAnswer, MalformedHttpError, parse_answer
from stepbench.wire.http1.connection import ABANDONED, HttpConnection, HttpExchange, HttpRequest, wait_for_exchange

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    Steps = Callable[["Wired"], Coroutine[Any, Any, HttpExchange]]

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
LIMIT_S = 2.0
UNENDING = 4_000_000
"""Bytes that no kernel takes at once."""


class Wired:
    """A connection, and the socket at its other end."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        ours, self.peer = socket.socketpair()
        ours.settimeout(0)
        self.peer.settimeout(0)
        self.connection = HttpConnection(ours, clock, answer_s=LIMIT_S)

    async def exchange(self, *steps: Callable[[], object], request: bytes = b"request") -> HttpExchange:
        """Send a request, then let the peer do its steps, some turns of the loop apart."""
        pending = asyncio.create_task(self.connection.exchange(request))
        for step in steps:
            await turns()
            step()
        return await pending

    def says(self, data: bytes) -> Callable[[], object]:
        """A step of the peer's."""
        return lambda: self.peer.send(data)

    def closes(self) -> None:
        """The peer ends the connection in an orderly way."""
        self.peer.shutdown(socket.SHUT_WR)


async def turns() -> None:
    """Let the loop look at its sockets, without time passing."""
    for _ in range(3):
        await asyncio.sleep(0)


def run(scenario: Steps) -> HttpExchange:
    """Run the steps on a connection that is closed afterwards."""
    clock = FakeClock()

    async def wired() -> HttpExchange:
        made = Wired(clock)
        try:
            return await scenario(made)
        finally:
            made.connection.abort()
            made.peer.close()

    return clock.run(wired())


def exchanged(
    steps_of: Callable[[Wired], Sequence[Callable[[], object]]],
    *,
    usable: bool | None = None,
    request: bytes = b"request",
) -> HttpExchange:
    """Exchange one request with a peer that does these steps; check what is left of the connection, if asked to."""

    async def scenario(wired: Wired) -> HttpExchange:
        result = await wired.exchange(*steps_of(wired), request=request)
        assert usable in (None, wired.connection.usable)
        return result

    return run(scenario)


def body_of(exchange: HttpExchange) -> bytes:
    """Return the body of the answer that there is."""
    assert exchange.answer is not None
    return exchange.answer.body


class Noted(HttpRequest):
    """Keeps what came of it."""

    __slots__ = ("heard",)

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.heard: list[HttpExchange] = []

    def finish(self, t2_ns: int, answer: HttpAnswer | None, error: str) -> None:
        """See `HttpRequest`."""
        self.heard.append(self.exchange(t2_ns, answer, error))


def test_t1_is_when_it_is_sent_and_t2_when_the_last_of_the_answer_is_there() -> None:
    """Acknowledged means all of it; what the peer takes between two pieces is latency, too."""

    async def scenario(wired: Wired) -> HttpExchange:
        wired.clock.advance(1_000)
        later = [lambda: wired.clock.advance(5_000), wired.says(ANSWER[:20]), lambda: wired.clock.advance(7_000)]
        result = await wired.exchange(*later, wired.says(ANSWER[20:]))
        assert wired.connection.usable
        assert wired.peer.recv(100) == b"request"
        return result

    result = run(scenario)
    assert (body_of(result), result.t1_ns - START_NS, result.t2_ns - START_NS) == (b"ok", 1_000, 13_000)


@pytest.mark.parametrize("whole", [ANSWER, CHUNKED, INTERIM + ANSWER], ids=["counted", "chunked", "interim"])
def test_an_answer_is_found_wherever_it_is_split(whole: bytes) -> None:
    """TCP cuts anywhere, and the connection serves the next request afterwards."""

    async def scenario(wired: Wired) -> HttpExchange:
        for cut in range(1, len(whole)):
            result = await wired.exchange(wired.says(whole[:cut]), wired.says(whole[cut:]))
            assert (result.answer and result.answer.body, wired.connection.usable) == (b"ok", True), cut
        return result

    run(scenario)


def test_silence_ends_at_the_time_out() -> None:
    """The late answer would otherwise be paired with the next request, so the connection ends as well."""
    result = exchanged(lambda _: (), usable=False)
    assert (result.answer, result.error, result.sent) == (None, "timeout", True)
    assert result.t2_ns - result.t1_ns == pytest.approx(LIMIT_S * 1e9, abs=10_000)


def test_each_request_has_the_whole_time_out() -> None:
    """One alarm serves all of a connection's requests; one that began just before it rings is not cut short."""

    async def scenario(wired: Wired) -> HttpExchange:
        await wired.exchange(lambda: wired.clock.advance(1_900_000_000), wired.says(ANSWER))
        return await wired.exchange()

    result = run(scenario)
    assert result.error == "timeout"
    assert result.t2_ns - result.t1_ns == pytest.approx(LIMIT_S * 1e9, abs=10_000)


def test_a_trickle_does_not_extend_the_time_out() -> None:
    """A peer that sends a byte now and then would hold the request for ever."""
    result = exchanged(lambda wired: (wired.says(b"H"), lambda: wired.clock.advance(1_000_000_000), wired.says(b"T")))
    assert result.error == "timeout"
    assert result.t2_ns - result.t1_ns == pytest.approx(LIMIT_S * 1e9, abs=10_000)


def test_an_orderly_close_may_be_the_end_of_an_answer() -> None:
    """Without a length it is the only end there is."""
    result = exchanged(lambda wired: (wired.says(b"HTTP/1.1 200 OK\r\n\r\nrest"), wired.closes))
    assert body_of(result) == b"rest"


def test_our_own_end_is_not_the_end_of_an_answer() -> None:
    """A pool that closes in the middle of one must not make an acknowledgement of it."""
    result = exchanged(lambda wired: (wired.says(b"HTTP/1.1 200 OK\r\n\r\nre"), wired.connection.abort))
    assert (result.answer, result.error, result.sent) == (None, "connection-closed", True)


@pytest.mark.parametrize("said", [b"", ANSWER[:-1], INTERIM])
def test_a_connection_that_ends_too_early_leaves_the_outcome_open(said: bytes) -> None:
    """The write was sent and may have happened."""
    result = exchanged(lambda wired: (lambda: said and wired.peer.send(said), wired.closes))
    assert (result.answer, result.error, result.sent) == (None, "connection-closed", True)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"\x00\x01\x02", "garbage-answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok", "garbage-answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", "oversized-answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", "timeout"),
    ],
)
def test_what_is_no_answer_ends_the_connection(said: bytes, error: str) -> None:
    """Whatever comes after it has no known beginning."""
    result = exchanged(lambda wired: (wired.says(said),), usable=False)
    assert (result.answer, result.error, result.sent) == (None, error, True)


@pytest.mark.parametrize(
    "said",
    [
        ANSWER.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
        ANSWER.replace(b"HTTP/1.1", b"HTTP/1.0"),
        ANSWER + b"x",
        ANSWER + ANSWER,
    ],
    ids=["asked to close", "HTTP/1.0", "garbage after", "two answers"],
)
def test_a_spent_connection_still_gives_its_answer(said: bytes) -> None:
    """And no other request goes over it: the second answer would be the next one's."""

    async def scenario(wired: Wired) -> HttpExchange:
        result = await wired.exchange(wired.says(said))
        assert not wired.connection.usable
        with pytest.raises(RuntimeError, match="none after its end"):
            await wired.connection.exchange(b"second")
        return result

    assert body_of(run(scenario)) == b"ok"


def test_an_answer_to_half_a_request_spends_the_connection() -> None:
    """The rest of a refused upload would be read as the head of the next request."""
    result = exchanged(lambda wired: (wired.says(ANSWER),), usable=False, request=b"x" * UNENDING)
    assert body_of(result) == b"ok"


def test_bytes_that_nobody_asked_for_end_an_idle_connection() -> None:
    """They would be the answer to the next request, at once."""

    async def scenario(wired: Wired) -> HttpExchange:
        result = await wired.exchange(wired.says(ANSWER))
        assert wired.connection.usable
        wired.peer.send(ANSWER)
        await turns()
        assert not wired.connection.usable
        return result

    run(scenario)


def test_a_reset_while_nothing_was_sent_is_no_open_outcome() -> None:
    """What the kernel has taken none of has certainly had no effect: FAILED, and not UNKNOWN."""

    async def scenario(wired: Wired) -> HttpExchange:
        wired.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wired.peer.close()
        noted = Noted(b"request")
        wired.connection.send(noted)  # in the same turn: the loop has not seen the end yet
        assert noted.heard == []
        await turns()
        return noted.heard[0]

    result = run(scenario)
    assert (result.answer, result.sent, result.t1_ns) == (None, False, result.t2_ns)


@pytest.mark.parametrize("cancels", [False, True], ids=["abandoned", "cancelled"])
def test_what_is_abandoned_ends_the_connection(cancels: bool) -> None:  # noqa: FBT001 -- a case
    """Its answer may still come."""

    async def scenario(wired: Wired) -> HttpExchange:
        noted = Noted(b"request")
        if cancels:
            waiting = asyncio.create_task(
                wait_for_exchange(b"request", wired.connection.send, wired.connection.abandon)
            )
            await turns()
            waiting.cancel()
            await asyncio.wait({waiting})
            assert waiting.cancelled()
            noted.heard.append(HttpExchange(0, 0, None, ABANDONED))
        else:
            wired.connection.send(noted)
            wired.connection.abandon(noted)
            wired.connection.abandon(noted)
        assert not wired.connection.usable
        return noted.heard[0]

    result = run(scenario)
    assert (result.answer, result.error, result.sent) == (None, ABANDONED, True)


def test_abandoning_what_was_answered_does_nothing() -> None:
    """The connection carries somebody else's request by then."""

    async def scenario(wired: Wired) -> HttpExchange:
        first, second = Noted(b"1"), Noted(b"2")
        wired.connection.send(first)
        wired.peer.send(ANSWER)
        await turns()
        wired.connection.send(second)
        wired.connection.abandon(first)
        wired.peer.send(ANSWER)
        await turns()
        assert (len(first.heard), len(second.heard)) == (1, 1)
        return second.heard[0]

    assert run(scenario).error == ""


def test_a_second_request_in_flight_is_refused() -> None:
    """No pipelining: with two in flight, one lost answer shifts all that follow."""

    async def scenario(wired: Wired) -> HttpExchange:
        first = asyncio.create_task(wired.connection.exchange(b"request"))
        await turns()
        with pytest.raises(RuntimeError, match="one request at a time"):
            await wired.connection.exchange(b"second")
        wired.peer.send(ANSWER)
        result = await first
        assert wired.peer.recv(100) == b"request"
        return result

    assert run(scenario).error == ""


def test_no_request_leaves_garbage_behind() -> None:
    """The collector is off under load: what only it finds stays until the writer's end."""

    async def scenario(wired: Wired) -> HttpExchange:
        noted = Noted(b"request")
        gc.collect()
        gc.disable()
        try:
            for _ in range(20):
                wired.connection.send(noted)
                wired.peer.send(ANSWER)
                await turns()
            broken = Wired(wired.clock)
            broken.connection.send(Noted(b"request"))
            broken.closes()
            await turns()
            broken.peer.close()
            del broken
            await turns()
            left = gc.collect()
        finally:
            gc.enable()
        assert left == 0
        return noted.heard[0]

    assert run(scenario).error == ""


PIECES = st.sampled_from(
    [ANSWER, ANSWER[:10], ANSWER[10:], CHUNKED, CHUNKED[:50], CHUNKED[50:], INTERIM, b"\r\n", b"", b"Content-Length: 1"]
)


@given(st.lists(st.one_of(PIECES, st.binary(max_size=8)), max_size=4), st.sampled_from(["fin", "rst", "silence"]))
def test_any_peer_is_answered_for_once_and_in_bounded_time(said: list[bytes], end: str) -> None:
    """Never a hang, a crash or a wrong pairing: what is OK is an answer that all of these bytes begin with."""

    async def scenario(wired: Wired) -> HttpExchange:
        noted = Noted(b"request")
        wired.connection.send(noted)
        for piece in said:
            with contextlib.suppress(OSError):  # we may have hung up already
                wired.peer.send(piece)
            await turns()
        clean = wired.connection.usable
        if end == "rst":
            wired.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if end != "silence":
            wired.peer.close()
        await asyncio.sleep(LIMIT_S * 1.5)
        assert len(noted.heard) == 1
        whole = b"".join(said)
        if clean:
            assert (parse_answer(whole) or HttpAnswer(0, b"", b"", reusable=False)).reusable
        return noted.heard[0]

    result = run(scenario)
    assert result.sent
    assert bool(result.answer) == (not result.error)
    if result.answer is not None:
        assert result.answer in list(_answers_that_begin(b"".join(said)))


def _answers_that_begin(said: bytes) -> list[HttpAnswer]:
    """Return what a peer may have meant that cuts its bytes anywhere and closes."""
    found = []
    for cut in range(len(said) + 1):
        for closed in (False, True):
            try:
                answer = parse_answer(said[:cut], closed=closed)
            except MalformedHttpError:
                continue
            if answer is not None:
                found.append(answer)
    return found

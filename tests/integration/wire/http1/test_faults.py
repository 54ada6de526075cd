"""Bad HTTP over real sockets: every request ends once, in bounded time, and no answer is ever another request's."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from stepbench.clock import AnchoredClock
from stepbench.wire.http1.connection import ABANDONED, HttpRequest
from stepbench.wire.http1.pool import HttpAddress, HttpPool, PoolLimits

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from stepbench.wire.http1 import HttpAnswer
    from stepbench.wire.http1.connection import HttpExchange

LIMIT_S = 20
QUICK = PoolLimits(connections=2, connect_s=2.0, answer_s=0.3)
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"


class Bad(NamedTuple):
    """An answer to the first request, in pieces, and what comes of it. then: "fin", "rst" or nothing."""

    pieces: tuple[bytes, ...]
    error: str
    then: str = ""


def bytewise(data: bytes) -> tuple[bytes, ...]:
    """Each byte by itself."""
    return tuple(data[at : at + 1] for at in range(len(data)))


ENDS_OK = ""
CASES = {
    "silence": Bad((), "timeout"),
    "no HTTP": Bad((b"SSH-2.0-OpenSSH_9.2\r\n",), "garbage-answer"),
    "HTTP/2": Bad((b"HTTP/2.0 200 OK\r\n\r\n",), "garbage-answer"),
    "a status of four digits": Bad((b"HTTP/1.1 2000 OK\r\n\r\n",), "garbage-answer"),
    "a field without a colon": Bad((HEAD + b"nothing\r\n\r\n",), "garbage-answer"),
    "two lengths": Bad((HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",), "garbage-answer"),
    "a length and chunks": Bad((HEAD + b"Content-Length: 1\r\n" + CHUNKED[17:],), "garbage-answer"),
    "a negative length": Bad((HEAD + b"Content-Length: -1\r\n\r\n",), "garbage-answer"),
    "a length too long": Bad((HEAD + b"Content-Length: 5\r\n\r\nfour",), "timeout"),
    "a length too long, and the end": Bad((HEAD + b"Content-Length: 5\r\n\r\nfour",), "connection-closed", "fin"),
    "a length too short": Bad((HEAD + b"Content-Length: 3\r\n\r\nfour",), ENDS_OK),
    "too much": Bad((HEAD + b"Content-Length: 65537\r\n\r\n",), "oversized-answer"),
    "a chunk too large": Bad((CHUNKED[:47] + b"fffff\r\n",), "oversized-answer"),
    "a chunk of no number": Bad((CHUNKED[:47] + b"xyz\r\n",), "garbage-answer"),
    "chunks that never end": Bad((CHUNKED[:-5],), "timeout"),
    "chunks that end too early": Bad((CHUNKED[:-5],), "connection-closed", "fin"),
    "chunks, a byte at a time": Bad(bytewise(CHUNKED), ENDS_OK),
    "a byte at a time": Bad(bytewise(GOOD), ENDS_OK),
    "a byte at a time, cut": Bad(bytewise(GOOD[:-1]), "connection-reset", "rst"),
    "1xx and an answer": Bad(
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Hint\r\nLink: x\r\n\r\n" + GOOD), ENDS_OK
    ),
    "1xx and no more": Bad((INTERIM,), "timeout"),
    "another protocol": Bad((b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",), "garbage-answer"),
    "two answers": Bad((GOOD + GOOD,), ENDS_OK),
    "garbage after it": Bad((GOOD + b"\x00\x00",), ENDS_OK),
    "closed at once": Bad((), "connection-closed", "fin"),
    "reset at once": Bad((), "connection-reset", "rst"),
    "until the end": Bad((HEAD + b"\r\nall of it",), ENDS_OK, "fin"),
    "asked to close": Bad((GOOD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),), ENDS_OK, "fin"),
}


class Server:
    """
    Says what is bad to the first request that it gets, and to every later one that one's own line.

    lines: of all requests, in the order in which they came.
    """

    def __init__(self, bad: Bad) -> None:
        self._bad: Bad | None = bad
        self.lines: list[bytes] = []

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := (await reader.readline()).strip():
                self.lines.append(line)
                bad, self._bad = self._bad, None
                if bad is None:
                    writer.write(HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(line), line))
                elif await self._say(bad, writer):
                    break
        except ConnectionError:
            pass  # the client's right
        finally:
            writer.close()

    async def _say(self, bad: Bad, writer: asyncio.StreamWriter) -> bool:
        connected: socket.socket = writer.get_extra_info("socket")
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in bad.pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if bad.then == "rst":
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return bool(bad.then)

    @asynccontextmanager
    async def pool(self, limits: PoolLimits = QUICK) -> AsyncIterator[HttpPool]:
        """A pool that leads here."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        pool = HttpPool(
            HttpAddress("127.0.0.1", server.sockets[0].getsockname()[1], tls=False), AnchoredClock(), limits
        )
        try:
            async with asyncio.timeout(LIMIT_S):
                yield pool
        finally:
            await pool.close()
            server.close()
            await server.wait_closed()


@pytest.mark.parametrize("bad", CASES.values(), ids=CASES)
async def test_a_bad_answer_costs_its_own_request_only(bad: Bad) -> None:
    """What is no answer is never OK, and the requests after it get their own answers, each sent once."""
    server = Server(bad)
    async with server.pool() as pool:
        first = await pool.exchange(b"first\r\n")
        later = [await pool.exchange(b"later-%d\r\n" % number) for number in range(3)]
    assert (first.error, first.sent, first.answer is not None) == (bad.error, True, not bad.error)
    assert [each.answer and each.answer.body for each in later] == [b"later-0", b"later-1", b"later-2"]
    assert server.lines == [b"first", b"later-0", b"later-1", b"later-2"]


async def test_an_answer_before_the_request_has_ended_is_the_last_on_its_connection() -> None:
    """The server has refused an upload half way; what it still reads is no head of a request."""
    server = Server(Bad((GOOD,), ""))
    upload = b"first\r\n" + b"x" * 20_000_000
    async with server.pool(QUICK._replace(answer_s=5.0)) as pool:
        first = await pool.exchange(upload)
        later = await pool.exchange(b"later\r\n")
    assert first.answer is not None
    assert first.answer.body == b"good"
    assert later.answer is not None
    assert later.answer.body == b"later"


class Noted(HttpRequest):
    """Says into a queue what came of it."""

    __slots__ = ("_heard",)

    def __init__(self, data: bytes, heard: asyncio.Queue[HttpExchange]) -> None:
        super().__init__(data)
        self._heard = heard

    def finish(self, t2_ns: int, answer: HttpAnswer | None, error: str) -> None:
        """See `HttpRequest`."""
        self._heard.put_nowait(self.exchange(t2_ns, answer, error))


class Sender:
    """Sends through a pool, and keeps what it hears of it, in that order."""

    def __init__(self, pool: HttpPool) -> None:
        self._pool = pool
        self._heard: asyncio.Queue[HttpExchange] = asyncio.Queue()

    def send(self, *lines: bytes) -> list[Noted]:
        """One request a line, all in one turn of the loop."""
        sendings = [Noted(line + b"\r\n", self._heard) for line in lines]
        for sending in sendings:
            self._pool.send(sending, AnchoredClock().now_ns())
        return sendings

    async def hears(self, count: int) -> list[HttpExchange]:
        """The next so many ends."""
        async with asyncio.timeout(LIMIT_S):
            return [await self._heard.get() for _ in range(count)]


async def test_requests_wait_in_order_for_a_busy_connection() -> None:
    """The first that waits is served first: response time is counted from when it was due."""
    server, lines = Server(Bad((GOOD,), "")), [b"%d" % number for number in range(6)]
    async with server.pool(QUICK._replace(connections=1, answer_s=5.0)) as pool:
        sender = Sender(pool)
        sender.send(*lines)
        results = await sender.hears(6)
    assert server.lines == lines
    assert [each.answer and each.answer.body for each in results] == [b"good", *lines[1:]]


async def test_what_waits_can_be_withdrawn_and_what_is_sent_cannot() -> None:
    """One is as if it had never been offered; of the other nobody knows."""
    server = Server(Bad((), ""))
    async with server.pool(QUICK._replace(connections=1, answer_s=60.0)) as pool:
        await pool.warm(1)
        sender = Sender(pool)
        sent, waits = sender.send(b"sent", b"waits")
        for each in (waits, sent, waits, sent):
            pool.abandon(each)
        results = await sender.hears(2)
        await pool.exchange(b"after\r\n")
    assert [(each.error, each.sent) for each in results] == [(ABANDONED, False), (ABANDONED, True)]
    assert server.lines[-1] == b"after"
    assert b"waits" not in server.lines


async def test_a_pool_that_closes_leaves_nobody_waiting() -> None:
    """Neither those that wait for a connection, nor those that come afterwards."""
    async with Server(Bad((), "")).pool(QUICK._replace(connections=1, answer_s=60.0)) as pool:
        await pool.warm(1)
        sender = Sender(pool)
        sender.send(b"0", b"1", b"2")
        await pool.close()
        sender.send(b"late")
        results = await sender.hears(4)
    assert [(each.error, each.sent) for each in results] == [
        ("connection-closed", True),
        *[("connection-closed", False)] * 3,
    ]


async def test_each_request_that_waits_hears_of_a_server_that_is_gone() -> None:
    """One failed connection is one request's outcome; the others do not wait for ever for what never comes."""
    async with Server(Bad((), "")).pool() as pool:
        address = pool.address
    nobody = HttpPool(address, AnchoredClock(), QUICK)
    sender = Sender(nobody)
    sender.send(*[b"x"] * 5)
    results = await sender.hears(5)
    await nobody.close()
    assert {(each.error, each.sent) for each in results} == {("connect: ConnectionRefusedError", False)}

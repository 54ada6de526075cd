"""Streams on a socket of the kernel's, whose other end does what the test says."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from stepbench.drivers.blobs import IDLE_S, StreamPool
from stepbench.drivers.cassandra.chunks import CqlStream, StartedRow
from stepbench.drivers.redis.blobs import RespStream
from stepbench.wire.http1.stream import HttpStream
from stepbench.wire.stream import ByteStream, StreamEndedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

MIB = 2**20
LIMIT_S = 20
STALL_S = 0.2
StreamT = TypeVar("StreamT", bound=ByteStream)


def ends_of(build: type[StreamT], **more: Any) -> tuple[StreamT, socket.socket]:  # noqa: ANN401
    """Return a stream over TCP, and its other end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
    for each in (ours, theirs):
        each.setblocking(False)  # noqa: FBT003 -- the standard library's
    return build(ours, **more), theirs


async def say(theirs: socket.socket, data: bytes) -> None:
    """Have the other end say something."""
    await asyncio.get_running_loop().sock_sendall(theirs, data)


@pytest.fixture
async def ends() -> AsyncIterator[tuple[ByteStream, socket.socket]]:
    """Yield both ends, and close them."""
    stream, theirs = ends_of(ByteStream, stall_s=STALL_S)
    yield stream, theirs
    stream.close()
    theirs.close()


async def test_a_payload_arrives_in_whatever_pieces(ends: tuple[ByteStream, socket.socket]) -> None:
    """The kernel is told to wake us for many bytes at a time, and the last are fewer: nobody may wait for more."""
    stream, theirs = ends
    payload = bytes(range(256)) * (3 * MIB // 256)
    place = bytearray(len(payload) - 3)

    async def speak() -> None:
        for begin, end in ((0, 3), (3, 10), (10, 2 * MIB), (2 * MIB, len(payload) - 5), (len(payload) - 5, None)):
            await say(theirs, payload[begin:end])
            await asyncio.sleep(0.02)

    async with asyncio.timeout(LIMIT_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(speak())
        assert await stream.take(3) == payload[:3]
        await stream.fill(memoryview(place))
    assert place == payload[3:]
    assert stream.is_usable()


async def test_a_peer_that_refuses_is_heard_while_we_send(ends: tuple[ByteStream, socket.socket]) -> None:
    """S3 says why and closes; who goes on sending learns no more than that the connection was reset."""
    stream, theirs = ends
    await say(theirs, b"no")
    assert not await stream.send(bytes(64 * MIB), attentive=True)
    assert stream.received == b"no"


async def test_what_a_peer_said_before_it_closed_is_heard(ends: tuple[ByteStream, socket.socket]) -> None:
    """It may even have gone before we begin."""
    stream, theirs = ends
    await say(theirs, b"no")
    theirs.shutdown(socket.SHUT_WR)
    assert not await stream.send(bytes(64 * MIB), attentive=True)
    await asyncio.sleep(0.01)
    with pytest.raises(StreamEndedError, match="connection-closed"):
        await stream.receive()
    assert stream.received == b"no"


@pytest.mark.parametrize(
    "work", [lambda stream: stream.send(bytes(64 * MIB)), lambda stream: stream.fill(memoryview(bytearray(9)))]
)
async def test_a_peer_that_stands_still_is_given_up(
    ends: tuple[ByteStream, socket.socket], work: Callable[[ByteStream], Coroutine[Any, Any, object]]
) -> None:
    """Whichever way: a limit for the whole would have to know how long 256 MiB may take."""
    stream, _ = ends
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(StreamEndedError, match="timeout"):
            await work(stream)
    assert not stream.is_open


async def test_closing_ends_whoever_waits(ends: tuple[ByteStream, socket.socket]) -> None:
    """A task that is given up closes its store; a transfer that went on would hold the function."""
    stream, _ = ends
    waiting = asyncio.create_task(stream.receive())
    await asyncio.sleep(0)
    stream.close()
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(StreamEndedError, match="connection-closed"):
            await waiting


async def test_a_pool_keeps_what_is_of_use() -> None:
    """A connection that the peer has ended meanwhile, or on which it speaks unasked, costs no transfer."""
    others: list[socket.socket] = []

    async def connect(_key: str) -> ByteStream:
        stream, theirs = ends_of(ByteStream)
        others.append(theirs)
        return stream

    pool: StreamPool[str, ByteStream] = StreamPool(connect)

    async def use(*, made: int) -> None:
        await asyncio.sleep(0.01)
        async with pool.use("there") as stream:
            assert stream.is_open
            assert len(others) == made

    await use(made=1)
    await use(made=1)
    others[0].close()
    await use(made=2)
    await say(others[1], b"unasked")
    await use(made=3)
    with pytest.raises(KeyError):
        async with pool.use("there"):
            raise KeyError
    await use(made=4)
    pool.close()
    for other in others:
        other.close()


@pytest.mark.parametrize(("rested_s", "made"), [(IDLE_S, 1), (IDLE_S + 1, 2), (-1, 2)])
async def test_a_stream_that_has_rested_long_is_not_used_again(
    rested_s: float, made: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frozen sandbox's monotonic clock stands still, and a balancer's goes on: it may have forgotten the stream."""
    others: list[socket.socket] = []

    async def connect(_key: str) -> ByteStream:
        stream, theirs = ends_of(ByteStream)
        others.append(theirs)
        return stream

    pool: StreamPool[str, ByteStream] = StreamPool(connect)
    wall_s = 1e9
    monkeypatch.setattr("time.time", lambda: wall_s)
    async with pool.use("there"):
        pass
    wall_s += rested_s
    async with pool.use("there"):
        assert len(others) == made
    pool.close()
    for other in others:
        other.close()


async def _body(stream: HttpStream) -> bytearray:
    return await stream.body(await stream.head(), 8)


ROW = "84 00 0003 08 0000100c 00000002 00000004 00000002 00000001 00000001 2a 00000ff3"
"""The begin of a row of two columns, 1 and 4,083 bytes."""


@pytest.mark.parametrize(
    ("build", "ask", "said", "error"),
    [
        (RespStream, lambda stream: stream.reply(99), b"HTTP/1.1 400\r\n", "garbage-answer"),
        (RespStream, lambda stream: stream.reply(99), b"$100\r\n", "oversized-answer"),
        (RespStream, lambda stream: stream.reply(99), b"$2\r\nabcd", "garbage-answer"),
        (RespStream, lambda stream: stream.reply(99), b"*1\r\n", "garbage-answer"),
        (HttpStream, lambda stream: stream.head(), b"-ERR what?\r\n", "garbage-answer"),
        (HttpStream, _body, b"HTTP/1.1 200 OK\r\n\r\n", "no-content-length"),
        (HttpStream, _body, b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", "oversized-answer"),
        (CqlStream, lambda stream: stream.answer(), b"HTTP/1.1 400\r\n\r\n", "garbage-answer"),
        (CqlStream, lambda stream: stream.answer(), bytes.fromhex(ROW[:-2] + "f4"), "garbage-answer"),
    ],
)
async def test_what_is_no_answer_ends_the_stream(
    build: type[ByteStream], ask: Callable[[Any], Coroutine[Any, Any, object]], said: bytes, error: str
) -> None:
    """Of such a peer the next bytes would be taken for the next answer, and a length for memory."""
    stream, theirs = ends_of(build)
    await say(theirs, said)
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(StreamEndedError, match=error):
            await ask(stream)
    assert not stream.is_open
    theirs.close()


async def test_a_large_row_is_handed_over_but_for_its_last_value() -> None:
    """And one that comes with warnings, as a large partition's may, is taken whole."""
    stream, theirs = ends_of(CqlStream)
    warned = bytes.fromhex("84 08 0001 08 00001017 0001 0002 6869") + bytes(0x1017 - 6)
    await say(theirs, bytes.fromhex(ROW) + bytes(0xFF3) + warned)
    async with asyncio.timeout(LIMIT_S):
        row = await stream.answer()
        assert row == StartedRow(3, (b"\x2a",), 0xFF3)
        await stream.fill(memoryview(bytearray(0xFF3)))
        frame = await stream.answer()
    assert not isinstance(frame, StartedRow)
    assert (frame.stream, len(frame.body)) == (1, 0x1017 - 6)
    stream.close()
    theirs.close()


async def test_an_answer_of_http_that_ends_with_the_connection_is_read() -> None:
    """Some servers refuse so; a stream that is over takes no other request."""
    stream, theirs = ends_of(HttpStream)
    await say(theirs, b"HTTP/1.1 503 Slow Down\r\n\r\n<Code>SlowDown</Code>")
    theirs.close()
    async with asyncio.timeout(LIMIT_S):
        answer = await stream.answer()
    assert (answer.status, answer.body) == (503, b"<Code>SlowDown</Code>")
    assert not stream.is_usable()

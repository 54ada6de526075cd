"""Frames over real sockets on loopback, the peer written by hand."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import uvloop
from tests.samples.ports import UNSERVED_PORT

from stepbench.clock import SystemClock
from stepbench.drivers.reference.frames import Frame, FramedSocket, FrameKind, encode_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT_S = 10
MOST_TRIES = 20
FRAME = encode_frame(FrameKind.CHANGE, 1, b"one")


@dataclass
class Pair:
    """Our end and the peer's."""

    peer: socket.socket
    ours: FramedSocket = field(init=False)
    arrived: list[tuple[int, Frame]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, now_ns: int, frames: Sequence[Frame]) -> None:
        """Keep what came in."""
        self.arrived += [(now_ns, frame) for frame in frames]
        self.news.set()

    def lose(self, reason: str) -> None:
        """Keep the reason of the end."""
        self.lost.append(reason)
        self.news.set()

    def reset(self) -> None:
        """End the peer's side with RST instead of FIN."""
        self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.peer.close()

    async def await_news(self) -> None:
        """Wait for the next of either."""
        async with asyncio.timeout(LIMIT_S):
            await self.news.wait()
        self.news.clear()


@asynccontextmanager
async def connected() -> AsyncIterator[Pair]:
    """Yield a connection within this process."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        pair = Pair(server)
        port = server.getsockname()[1]
        ours = await FramedSocket.connect("127.0.0.1", port, SystemClock(), pair.take, pair.lose)
        pair.peer, _ = server.accept()
        pair.peer.settimeout(LIMIT_S)
        pair.ours = ours
        try:
            yield pair
        finally:
            ours.close()
            pair.peer.close()


async def test_what_is_sent_lies_between_its_times() -> None:
    """t1 comes before the bytes are at the peer, and an arrival's time after the peer has sent it."""
    async with connected() as pair:
        clock = SystemClock()
        before_ns = clock.now_ns()
        sent_ns = pair.ours.send(FRAME)
        assert await asyncio.to_thread(pair.peer.recv, 100) == FRAME
        assert before_ns <= sent_ns <= clock.now_ns()
        answered_ns = clock.now_ns()
        pair.peer.sendall(FRAME)
        await pair.await_news()
    ((at_ns, frame),) = pair.arrived
    assert (frame, at_ns >= answered_ns) == (Frame(FrameKind.CHANGE, 1, b"one"), True)


async def test_the_kernel_tells_when_bytes_came_in_not_when_they_were_fetched() -> None:
    """
    A process that is slow to wake up is no part of the way to it.

    Linux begins to stamp a moment after the first socket has asked (net_enable_timestamp defers it to a work queue),
    so the first bytes may still have the time of their fetching.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        pair = Pair(server)
        with socket.create_connection(server.getsockname()) as peer:
            accepted, _ = server.accept()
            accepted.settimeout(0)
            ours = FramedSocket(accepted, SystemClock(), pair.take, pair.lose, kernel_stamps=True)
            stood_still: list[tuple[int, int]] = []
            for _ in range(MOST_TRIES):
                sent_ns = time.time_ns()
                peer.sendall(FRAME)
                time.sleep(0.05)  # noqa: ASYNC251 -- the loop is to stand still
                stood_still.append((sent_ns, time.time_ns()))
                await pair.await_news()
                if pair.arrived[-1][0] < stood_still[-1][1]:
                    break
            ours.close()
    told = [at_ns for at_ns, _ in pair.arrived]
    assert all(sent_ns <= at_ns for (sent_ns, _), at_ns in zip(stood_still, told, strict=True))
    assert told[-1] < stood_still[-1][1]


async def test_what_the_kernel_does_not_take_at_once_follows_in_order() -> None:
    """A slow peer must cost neither bytes nor their order."""
    big = [encode_frame(FrameKind.CHANGE, number, bytes([number]) * 4_000_000) for number in range(4)]
    async with connected() as pair:
        for each in big:
            pair.ours.send(each)
        whole = sum(map(len, big))
        received = await asyncio.to_thread(_receive, pair.peer, whole)
    assert received == b"".join(big)


def _receive(peer: socket.socket, whole: int) -> bytes:
    parts, size = [], 0
    while size < whole:
        parts.append(peer.recv(1 << 20))
        size += len(parts[-1])
    return b"".join(parts)


async def test_the_peers_end_is_told_once() -> None:
    """A close of our own is no loss."""
    async with connected() as pair:
        pair.peer.close()
        await pair.await_news()
        assert pair.lost == ["connection-closed"]
        assert not pair.ours.is_open
        pair.ours.close()
    assert pair.lost == ["connection-closed"]


async def test_garbage_ends_the_connection() -> None:
    """Nothing after it could be told apart from it."""
    async with connected() as pair:
        pair.peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await pair.await_news()
    assert pair.lost == ["garbage-answer"]


@pytest.mark.parametrize("bytes_on_the_way", [0, 8_000_000])
async def test_a_reset_is_a_loss_also_while_something_is_being_sent(bytes_on_the_way: int) -> None:
    """Whoever waits for an answer has to hear of it."""
    async with connected() as pair:
        pair.ours.send(bytes(bytes_on_the_way))
        pair.reset()
        await pair.await_news()
    assert len(pair.lost) == 1


def test_a_reset_right_behind_bytes_is_a_loss_on_the_measuring_loop_too() -> None:
    """The loop calls the reader for the bytes, and never for the reset."""

    async def run() -> Pair:
        async with connected() as pair:
            pair.peer.sendall(FRAME)
            pair.reset()
            while not pair.lost:
                await pair.await_news()
            return pair

    pair = uvloop.run(run())
    assert len(pair.lost) == 1
    assert len(pair.arrived) <= 1  # a reset may overtake what was sent before it


async def test_sending_into_a_reset_connection_is_a_loss() -> None:
    """The kernel may know before the loop does."""
    async with connected() as pair:
        pair.reset()
        pair.ours.send(FRAME)  # the loop has had no turn since
    assert pair.lost == ["connection-reset"]


async def test_nobody_there_is_an_oserror() -> None:
    """A driver makes it a `TargetUnavailableError`."""
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await FramedSocket.connect("127.0.0.1", UNSERVED_PORT, SystemClock(), Pair.take, Pair.lose)  # type: ignore[arg-type]

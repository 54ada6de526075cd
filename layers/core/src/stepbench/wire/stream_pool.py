"""Streams that are kept for their next use."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Generic, TypeVar

from stepbench.wire.stream import ByteStream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

IDLE_S = 10.0
"""What has rested longer may be dead without a sign: a frozen sandbox answers nothing, and balancers forget."""
_FRESH_S = 0.001
"""What was in use so lately is not looked at: who means to end a connection says so in the answer."""
KeyT = TypeVar("KeyT")
StreamT = TypeVar("StreamT", bound=ByteStream)


class StreamPool(Generic[KeyT, StreamT]):
    """
    Streams that wait for their next use, by where they lead; as many are made as are in use at a time.

    Args:
        connect: makes one, within a time of its own.
    """

    def __init__(self, connect: Callable[[KeyT], Awaitable[StreamT]]) -> None:
        self._connect = connect
        self._idle: dict[KeyT, list[tuple[StreamT, float]]] = {}
        self._in_use: set[StreamT] = set()

    def use(self, key: KeyT) -> _BorrowedStream[KeyT, StreamT]:
        """
        Return a stream for a block, `async with`; if that raises, it is closed.

        Raises:
            Exception: at the block's begin, as `connect`.
        """
        return _BorrowedStream(self, key)

    async def take(self, key: KeyT) -> StreamT:
        """Return a stream that is in use from now on. Raises as `connect`."""
        stream = self._find_idle(key) or await self._connect(key)
        stream.has_sent = False
        self._in_use.add(stream)
        return stream

    def give_back(self, key: KeyT, stream: StreamT) -> None:
        """Keep a stream for its next use, if it is open."""
        self._in_use.discard(stream)
        if stream.is_open:
            self._idle.setdefault(key, []).append((stream, time.time()))

    def close(self) -> None:
        """End all of them, those in use, too."""
        for stream in [*self._in_use, *(stream for idle in self._idle.values() for stream, _ in idle)]:
            stream.close()
        self._idle.clear()

    def _find_idle(self, key: KeyT) -> StreamT | None:
        now_s, idle = time.time(), self._idle.get(key, [])  # the other clock may stand still with the sandbox
        while idle:
            stream, since_s = idle.pop()
            rested_s = now_s - since_s
            if 0 <= rested_s <= _FRESH_S or (0 <= rested_s <= IDLE_S and stream.is_usable()):
                return stream
            stream.close()
        return None


class _BorrowedStream(Generic[KeyT, StreamT]):
    """A block's use of a stream; a generator in its place would take four times as long."""

    __slots__ = ("_key", "_pool", "_stream")
    _stream: StreamT

    def __init__(self, pool: StreamPool[KeyT, StreamT], key: KeyT) -> None:
        self._pool = pool
        self._key = key

    async def __aenter__(self) -> StreamT:
        self._stream = await self._pool.take(self._key)
        return self._stream

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._stream.close()
        self._pool.give_back(self._key, self._stream)

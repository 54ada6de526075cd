"""One HTTP/1.1 connection: one request in flight, never a second one before the answer to the first is complete."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple, cast

from stepbench.wire.http1 import MAX_ANSWER_BYTES, Answer, MalformedAnswerError, parse_answer

if TYPE_CHECKING:
    from stepbench.clock import Clock


class Exchange(NamedTuple):
    """
    What came of one request.

    t1_ns: the last statement before the bytes went to the transport (if they never did: as `t2_ns`).
    t2_ns: the first statement after the bytes arrived that completed the answer, or the moment of giving up.
    answer: None if there is none; `error` says why then.
    sent: False: the peer never got any of it, so the request certainly had no effect.
    """

    t1_ns: int
    t2_ns: int
    answer: Answer | None
    error: str = ""
    sent: bool = True


class Connection(asyncio.Protocol):
    """
    An open connection.

    Whatever irregular happens ends it: an answer that comes late, or bytes that nobody asked for, could otherwise be
    taken for the answer to the next request.
    """

    def __init__(self, clock: Clock, most_bytes: int = MAX_ANSWER_BYTES) -> None:
        self._clock = clock
        self._most_bytes = most_bytes
        self._transport: asyncio.Transport | None = None
        self._pending: asyncio.Future[Exchange] | None = None
        self._received = b""
        self._t1_ns = 0
        self.idle_since_ns = 0

    @property
    def usable(self) -> bool:
        """Whether a request can be sent now."""
        return self._transport is not None and self._pending is None

    async def exchange(self, request: bytes, timeout_s: float) -> Exchange:
        """Send a request and wait for its answer; bounded by `timeout_s`. Only while `usable`."""
        loop = asyncio.get_running_loop()
        pending: asyncio.Future[Exchange] = loop.create_future()
        transport = self._transport
        if transport is None or self._pending is not None:
            message = "a connection carries one request at a time, and none after its end"
            raise RuntimeError(message)
        self._pending, self._received = pending, b""
        time_out = loop.call_later(timeout_s, self._give_up, "timeout")
        self._t1_ns = self._clock.now_ns()
        transport.write(request)
        try:
            return await pending
        finally:
            time_out.cancel()
            if self._pending is not None:  # we were cancelled: the answer may still come
                self._pending = None
                self.abort()

    def abort(self) -> None:
        """End the connection at once; a request in flight ends as unknown."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        if self._pending is not None:
            self._settle(self._clock.now_ns(), None, "connection-closed")

    def _give_up(self, error: str) -> None:
        self._settle(self._clock.now_ns(), None, error)
        self.abort()

    def _settle(self, t2_ns: int, answer: Answer | None, error: str = "") -> None:
        pending, self._pending, self._received = self._pending, None, b""
        self.idle_since_ns = t2_ns
        if pending is not None and not pending.done():
            pending.set_result(Exchange(self._t1_ns, t2_ns, answer, error))

    # --- asyncio.Protocol ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        self._transport = cast("asyncio.Transport", transport)
        self.idle_since_ns = self._clock.now_ns()

    def data_received(self, data: bytes) -> None:
        """Called by the event loop; t2 before anything else."""
        now_ns = self._clock.now_ns()
        if self._pending is None or self._transport is None:
            self.abort()
            return
        self._received = self._received + data if self._received else data
        try:
            answer = parse_answer(self._received, most_bytes=self._most_bytes)
        except MalformedAnswerError as error:
            self._give_up(error.code)
            return
        if answer is None:
            return
        # A peer may refuse a request before it has read all of it; the rest would be taken for the next one.
        keeps = answer.reusable and self._transport.get_write_buffer_size() == 0
        self._settle(now_ns, answer)
        if not keeps:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop; an answer without a length ends here."""
        now_ns = self._clock.now_ns()
        self._transport = None
        if self._pending is None:
            return
        if exc is not None:
            self._settle(now_ns, None, "connection-reset")
            return
        try:
            self._settle(now_ns, parse_answer(self._received, closed=True, most_bytes=self._most_bytes))
        except MalformedAnswerError as error:
            self._settle(now_ns, None, error.code)

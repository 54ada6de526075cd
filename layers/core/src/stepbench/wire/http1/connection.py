"""One HTTP/1.1 connection: one request in flight, never a second one before the answer to the first is complete."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from stepbench.model.errors import CONNECTION_CLOSED, UNASKED
from stepbench.wire.answers import AnswerDeadline
from stepbench.wire.http1 import MAX_ANSWER_BYTES, HttpAnswer, MalformedHttpError, parse_answer
from stepbench.wire.socket import ByteSocket, OutgoingBytes

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.wire.connect import TlsSession

    OnChange = Callable[["HttpConnection"], None]
    """Called when the connection can take a request again, and when it never will: see `usable`."""

ABANDONED = "abandoned"
"""The error of an exchange that was given up."""


class HttpExchange(NamedTuple):
    """
    The end of one request.

    t1_ns: the last statement before the kernel took the first of its bytes (if it never did: as `t2_ns`).
    t2_ns: the first statement after the bytes arrived that completed the answer, or the moment of giving up.
    answer: None if there is none; `error` says why then.
    sent: False: the kernel never got any of it, so the request certainly had no effect.
    """

    t1_ns: int
    t2_ns: int
    answer: HttpAnswer | None
    error: str = ""
    sent: bool = True


class HttpRequest(OutgoingBytes):
    """
    A request on its way, for one use; what is to be done with its answer is a subclass's.

    data: the request. connection: by which it went, as long as its answer is awaited.
    """

    __slots__ = ("connection", "data")

    def __init__(self, data: bytes) -> None:
        self.t1_ns = 0
        self.data = data
        self.connection: HttpConnection | None = None

    def finish(self, t2_ns: int, answer: HttpAnswer | None, error: str) -> None:
        """Take what came of it, once, on the loop; what the arguments are, see `HttpExchange`."""
        raise NotImplementedError

    def exchange(self, t2_ns: int, answer: HttpAnswer | None, error: str) -> HttpExchange:
        """Return all that is known of its end."""
        return HttpExchange(self.t1_ns or t2_ns, t2_ns, answer, error, self.t1_ns != 0)


class _Awaited(HttpRequest):
    """One whose answer a coroutine awaits."""

    __slots__ = ("_future",)

    def __init__(self, data: bytes, future: asyncio.Future[HttpExchange]) -> None:
        super().__init__(data)
        self._future = future

    def finish(self, t2_ns: int, answer: HttpAnswer | None, error: str) -> None:
        """See `HttpRequest`."""
        if not self._future.done():
            self._future.set_result(self.exchange(t2_ns, answer, error))


async def wait_for_exchange(
    data: bytes, send: Callable[[HttpRequest], None], abandon: Callable[[HttpRequest], None]
) -> HttpExchange:
    """Send a request and wait for its answer; it is abandoned when its task is cancelled."""
    future: asyncio.Future[HttpExchange] = asyncio.get_running_loop().create_future()
    sending = _Awaited(data, future)
    send(sending)
    try:
        return await future
    finally:
        if not future.done() or future.cancelled():
            abandon(sending)


class HttpConnection:
    """
    An open connection; `usable` says whether a request can be sent now.

    Whatever irregular happens ends it: an answer that comes late, or bytes that nobody asked for, could otherwise be
    taken for the answer to the next request.

    Args:
        connected: a non-blocking TCP socket; it is closed with this object.
        clock: for the times.
        tls: after its handshake over this socket, if it is to be spoken.
        answer_s: the longest wait for an answer.
        most_bytes: of an answer.
        changed: see `OnChange`.
    """

    def __init__(  # noqa: PLR0913 -- all but two have defaults
        self,
        connected: socket.socket,
        clock: Clock,
        tls: TlsSession | None = None,
        *,
        answer_s: float = 10.0,
        most_bytes: int = MAX_ANSWER_BYTES,
        changed: OnChange | None = None,
    ) -> None:
        self._clock = clock
        self._most_bytes = most_bytes
        self._changed = changed
        self._pending: HttpRequest | None = None
        self._received = b""
        self._socket = ByteSocket(connected, clock, self._arrived, self._lost, tls)
        self._deadline = AnswerDeadline(answer_s, clock, self._find_pending, self._socket.end)
        self.idle_since_ns = clock.now_ns()
        self.usable = True

    def send(self, sending: HttpRequest) -> None:
        """
        Send a request now. Only while `usable`.

        Raises:
            RuntimeError: it is not.
        """
        if not self.usable:
            message = "a connection carries one request at a time, and none after its end"
            raise RuntimeError(message)
        self.usable = False
        self._pending = sending
        sending.connection = self
        if not self._deadline.is_set:
            self._deadline.start()
        self._socket.send(sending.data, sending)

    async def exchange(self, request: bytes) -> HttpExchange:
        """Send a request and wait for its answer. Only while `usable`."""
        return await wait_for_exchange(request, self.send, self.abandon)

    def abandon(self, sending: HttpRequest) -> None:
        """Await an answer no longer: it may still come, so the connection ends."""
        if self._pending is sending:
            self._socket.end(ABANDONED)

    def abort(self) -> None:
        """End the connection at once; a request in flight ends as unknown."""
        self._received = b""  # our end is not the end of an answer without a length
        self._socket.end(CONNECTION_CLOSED)

    def _arrived(self, now_ns: int, data: bytes) -> None:
        pending = self._pending
        if pending is None or not pending.t1_ns:
            self._socket.end(UNASKED)
            return
        if self._received:
            data = self._received + data
        try:
            answer = parse_answer(data, most_bytes=self._most_bytes)
        except MalformedHttpError as error:
            self._socket.end(error.code)
            return
        if answer is None:
            self._received = data
            return
        # The next request goes out before this one's answer is looked at: it has waited longer.
        self._received = b""
        self._pending = pending.connection = None
        self.idle_since_ns = now_ns
        # A peer may refuse a request before it has read all of it; the rest would be taken for the next one.
        if answer.reusable and not self._socket.is_sending:
            self.usable = True
        else:
            self._close()
        if self._changed is not None:
            self._changed(self)
        pending.finish(now_ns, answer, "")

    def _lost(self, reason: str) -> None:
        """Take the end of the connection; an answer without a length ends here, too."""
        now_ns = self._clock.now_ns()
        pending, received, self._pending, self._received = self._pending, self._received, None, b""
        self.usable = False
        self._close()
        if self._changed is not None:
            self._changed(self)
        if pending is None:
            return
        pending.connection = None
        answer = None
        if reason == CONNECTION_CLOSED and pending.t1_ns:
            try:
                answer = parse_answer(received, closed=True, most_bytes=self._most_bytes)
            except MalformedHttpError as error:
                reason = error.code
        pending.finish(now_ns, answer, "" if answer else reason)

    def _close(self) -> None:
        self._socket.close()
        self._deadline.stop()

    def _find_pending(self) -> HttpRequest | None:
        return self._pending

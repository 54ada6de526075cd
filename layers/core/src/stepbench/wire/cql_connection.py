"""One connection to Cassandra or ScyllaDB: many requests in flight, each answered on its own stream."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from stepbench.wire.byte_socket import ByteSocket, Shipment
from stepbench.wire.cql import STREAMS, CqlReader, Frame, MalformedAnswerError, Opcode, Request, encode

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.wire.tls_session import TlsSession

    Told = Callable[[int, Frame, str], None]
    """Given t2, the frame, and the error: as in `CqlAnswered`."""

NOTHING = Frame(-1, Opcode.ERROR, b"")
"""In place of an answer that has not come."""


class CqlAnswered(NamedTuple):
    """
    What came of one request.

    t1_ns: the last statement before its bytes went to the kernel (if they never did: as `t2_ns`).
    t2_ns: the first statement after the bytes arrived that completed its answer, or the moment of giving up.
    frame: what the server said, a refusal included; `NOTHING` where there is an `error`.
    error: why there is no answer ("timeout", "connection-closed", "connection-reset", "garbage-answer", …), else "".
    sent: False: the kernel never got any of it, so the request certainly had no effect.
    """

    t1_ns: int
    t2_ns: int
    frame: Frame
    error: str = ""
    sent: bool = True


class _Waiting(NamedTuple):
    """A request under way; `until_s`: by the loop's time."""

    shipment: Shipment
    told: Told
    until_s: float


class CqlConnection:
    """
    An open connection.

    Whatever irregular happens ends it: a time-out, an answer that nobody asked for, bytes that are no answer. Every
    request in flight then ends without an answer, and whether it had an effect is unknown.

    Args:
        connected: a non-blocking TCP socket; it is closed with this object.
        clock: for the times.
        answer_s: the longest wait for an answer, of each request.
        tls: after its handshake over this socket, if it is to be spoken.
    """

    def __init__(
        self, connected: socket.socket, clock: Clock, *, answer_s: float = 10.0, tls: TlsSession | None = None
    ) -> None:
        self._clock = clock
        self._answer_s = answer_s
        self._loop = asyncio.get_running_loop()
        self._reader = CqlReader()
        self._in_flight: dict[int, _Waiting] = {}
        self._last_stream = STREAMS - 1
        self._alarm: asyncio.TimerHandle | None = None
        self._socket = ByteSocket(connected, clock, self._arrived, self._lost, tls)

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._socket.is_open

    def send(self, request: Request, shipment: Shipment, told: Told) -> None:
        """
        Send a request now.

        told: called on the loop in the turn in which the answer came, so that the next request can be sent at once;
            before this returns only if nothing was sent, which the shipment's t1 of 0 says.

        Raises:
            ValueError: 32,768 requests are in flight already.
        """
        stream = self._free_stream()
        self._in_flight[stream] = _Waiting(shipment, told, self._loop.time() + self._answer_s)
        if self._alarm is None:
            self._alarm = self._loop.call_later(self._answer_s, self._look)
        self._socket.send(encode(request, stream), shipment)

    def withdraw(self, shipment: Shipment) -> bool:
        """Whether a request could be taken back of which the kernel has got nothing; nobody is told of it then."""
        if not self._socket.withdraw(shipment):
            return False
        del self._in_flight[next(stream for stream, each in self._in_flight.items() if each.shipment is shipment)]
        return True

    def call(self, request: Request) -> asyncio.Future[CqlAnswered]:
        """
        As `send`; its future never raises for the server's or the network's doings.

        A caller who is cancelled abandons the answer.
        """
        shipment = Shipment()
        future: asyncio.Future[CqlAnswered] = self._loop.create_future()
        self.send(request, shipment, partial(_resolve, future, shipment))
        return future

    def close(self) -> None:
        """Close; requests in flight end without an answer. Safe to call twice."""
        self._socket.end("connection-closed")

    def _free_stream(self) -> int:
        """The next one: a number that was free long ago tells a late answer from ours."""
        if len(self._in_flight) >= STREAMS:
            message = f"{STREAMS:,} requests are in flight on one connection; use more connections"
            raise ValueError(message)
        stream = self._last_stream
        while (stream := (stream + 1) % STREAMS) in self._in_flight:
            pass
        self._last_stream = stream
        return stream

    def _look(self) -> None:
        """One alarm for all; requests are kept in the order in which they were sent, so the first is overdue first."""
        self._alarm = None
        oldest = next(iter(self._in_flight.values()), None)
        if oldest is None:
            return
        left_s = oldest.until_s - self._loop.time()
        if left_s > 0:
            self._alarm = self._loop.call_later(left_s, self._look)
        else:
            self._socket.end("timeout")

    def _arrived(self, now_ns: int, data: bytes) -> None:
        try:
            frames = self._reader.feed(data)
        except MalformedAnswerError:
            self._socket.end("garbage-answer")
            return
        paired, reason = [], ""  # all before anybody is told, who might send what has had no time to be answered
        for frame in frames:
            waiting = self._in_flight.get(frame.stream)
            if waiting is None or not waiting.shipment.t1_ns:
                reason = "unasked-answer"
                break
            del self._in_flight[frame.stream]
            paired.append((frame, waiting.told))
        for frame, told in paired:
            told(now_ns, frame, "")
        if reason:
            self._socket.end(reason)

    def _lost(self, reason: str) -> None:
        now_ns = self._clock.now_ns()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        waiting, self._in_flight = self._in_flight, {}
        for each in waiting.values():
            each.told(now_ns, NOTHING, reason)


def _resolve(future: asyncio.Future[CqlAnswered], shipment: Shipment, t2_ns: int, frame: Frame, error: str) -> None:
    if not future.done():
        t1_ns = shipment.t1_ns
        future.set_result(CqlAnswered(t1_ns or t2_ns, t2_ns, frame, error, sent=t1_ns != 0))

"""One connection to Cassandra or ScyllaDB: many requests in flight, each answered on its own stream."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from stepbench.wire.byte_socket import ByteSocket, Shipment
from stepbench.wire.cql import STREAMS, CqlReader, Frame, MalformedAnswerError, Opcode, Request, encode

if TYPE_CHECKING:
    import socket

    from stepbench.clock import Clock
    from stepbench.wire.tls_session import TlsSession

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
        self._in_flight: dict[int, tuple[asyncio.Future[CqlAnswered], Shipment, float]] = {}
        self._last_stream = STREAMS - 1
        self._alarm: asyncio.TimerHandle | None = None
        self._socket = ByteSocket(connected, clock, self._arrived, self._lost, tls)

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._socket.is_open

    def call(self, request: Request) -> asyncio.Future[CqlAnswered]:
        """
        Send a request now; its future never raises for the server's or the network's doings.

        A caller who is cancelled abandons the answer.

        Raises:
            ValueError: 32,768 requests are in flight already.
        """
        stream = self._free_stream()
        data = encode(request, stream)
        shipment = Shipment()
        future: asyncio.Future[CqlAnswered] = self._loop.create_future()
        self._in_flight[stream] = future, shipment, self._loop.time() + self._answer_s
        if self._alarm is None:
            self._alarm = self._loop.call_later(self._answer_s, self._look)
        self._socket.send(data, shipment)
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
        left_s = oldest[2] - self._loop.time()
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
        for frame in frames:
            waiting = self._in_flight.pop(frame.stream, None)
            if waiting is None:
                self._socket.end("unasked-answer")
                return
            future, shipment, _ = waiting
            if not future.done():
                future.set_result(CqlAnswered(shipment.t1_ns, now_ns, frame))

    def _lost(self, reason: str) -> None:
        now_ns = self._clock.now_ns()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        waiting, self._in_flight = self._in_flight, {}
        for future, shipment, _ in waiting.values():
            if not future.done():
                sent = shipment.t1_ns != 0
                future.set_result(CqlAnswered(shipment.t1_ns if sent else now_ns, now_ns, NOTHING, reason, sent))

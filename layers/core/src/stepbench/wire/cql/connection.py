"""
Connections to Cassandra or ScyllaDB: TCP, TLS and login, each timed by itself, then many requests in flight.

Each request is answered on a stream of its own; answers may overtake each other.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from stepbench.model.errors import GARBAGE, UNASKED, ServerRefusalError, lost_connection
from stepbench.wire import cql
from stepbench.wire.answers import AwaitingConnection, settle
from stepbench.wire.connect import dial
from stepbench.wire.cql import STREAMS, CqlFrame, CqlReader, CqlRequest, MalformedCqlError, Opcode, encode
from stepbench.wire.cql.answers import CqlError, refusal
from stepbench.wire.socket import OutgoingBytes

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

    from stepbench.clock import Clock
    from stepbench.wire.connect import ConnectTimes, ServerAddress, TlsSession

    OnFrame = Callable[[int, CqlFrame, str], None]
    """Given t2, the frame, and the error: as in `CqlAnswer`."""

NOTHING = CqlFrame(-1, Opcode.ERROR, b"")
"""It stands for an answer that has not come."""


class CqlAnswer(NamedTuple):
    """
    The end of one request, with the times, the error and `sent` of `HttpExchange` (wire/http1/connection.py).

    frame: what the server said, a refusal included; `NOTHING` where there is an `error`.
    """

    t1_ns: int
    t2_ns: int
    frame: CqlFrame
    error: str = ""
    sent: bool = True


class CqlConnection(AwaitingConnection):
    """
    An open connection; arguments as `AwaitingConnection`'s.

    statement_ids: by which its node knows the statements that were prepared over it; set by whoever has prepared them.
    """

    def __init__(
        self, connected: socket.socket, clock: Clock, *, answer_s: float = 10.0, tls: TlsSession | None = None
    ) -> None:
        self.statement_ids: Mapping[str, bytes] = {}
        self._loop = asyncio.get_running_loop()
        self._reader = CqlReader()
        self._in_flight: dict[int, tuple[OutgoingBytes, OnFrame]] = {}  # in the order in which they were sent
        self._last_stream = STREAMS - 1
        super().__init__(connected, clock, answer_s=answer_s, tls=tls)

    def send(self, request: CqlRequest, outgoing: OutgoingBytes, done: OnFrame) -> None:
        """
        Send a request now.

        done: called on the loop in the turn in which the answer came, so that the next request can be sent at once;
            before this returns only if nothing was sent, which `outgoing.t1_ns` of 0 says.

        Raises:
            ValueError: 32,768 requests are in flight already.
        """
        stream = self._free_stream()
        self._in_flight[stream] = outgoing, done
        if not self._deadline.is_set:
            self._deadline.start()
        self._socket.send(encode(request, stream), outgoing)

    def withdraw(self, outgoing: OutgoingBytes) -> bool:
        """Take a request back of which the kernel has got nothing; True: that was so, and its `done` is not called."""
        if not self._socket.withdraw(outgoing):
            return False
        del self._in_flight[next(stream for stream, (each, _) in self._in_flight.items() if each is outgoing)]
        return True

    def call(self, request: CqlRequest) -> asyncio.Future[CqlAnswer]:
        """
        Send a request now; its future never raises for the server's or the network's doings.

        A caller who is cancelled abandons the answer.
        """
        outgoing = OutgoingBytes()
        future: asyncio.Future[CqlAnswer] = self._loop.create_future()
        self.send(request, outgoing, partial(settle, future, CqlAnswer, outgoing))
        return future

    def _free_stream(self) -> int:
        """Return the next free number; the longest free one, so that no late answer is taken for ours."""
        if len(self._in_flight) >= STREAMS:
            message = f"{STREAMS:,} requests are in flight on one connection; use more connections"
            raise ValueError(message)
        stream = self._last_stream
        while (stream := (stream + 1) % STREAMS) in self._in_flight:
            pass
        self._last_stream = stream
        return stream

    def _find_oldest(self) -> OutgoingBytes | None:
        return next((outgoing for outgoing, _ in self._in_flight.values()), None)

    def _arrived(self, now_ns: int, data: bytes) -> None:
        try:
            frames = self._reader.feed(data)
        except MalformedCqlError:
            self._socket.end(GARBAGE)
            return
        paired, reason = [], ""  # all before anybody is done, who might send what has had no time to be answered
        for frame in frames:
            waiting = self._in_flight.get(frame.stream)
            if waiting is None or not waiting[0].t1_ns:
                reason = UNASKED
                break
            del self._in_flight[frame.stream]
            paired.append((frame, waiting[1]))
        for frame, done in paired:
            done(now_ns, frame, "")
        if reason:
            self._socket.end(reason)

    def _lost(self, reason: str) -> None:
        now_ns = self._clock.now_ns()
        self._deadline.stop()
        waiting, self._in_flight = self._in_flight, {}
        for _, done in waiting.values():
            done(now_ns, NOTHING, reason)


ANONYMOUS = ("cassandra", "cassandra")
"""Cassandra's own default, for a server that asks although no credentials were given."""


class CqlRefusedError(ServerRefusalError):
    """The server took the connection and refused who we are, or how we speak; `error` is what it said."""

    def __init__(self, error: CqlError) -> None:
        self.error = error
        super().__init__(f"{error.name} {error.message}")

    @property
    def is_lasting(self) -> bool:
        """Return whether waiting is of no use: it is for a node that is overloaded, or only just starting."""
        return self.error.name in {"BadCredentials", "ProtocolError", "Unauthorized"}


class CqlConnected(NamedTuple):
    """`times.authenticate_ns` is STARTUP's, which no connection can do without, and the login's."""

    connection: CqlConnection
    times: ConnectTimes


async def connect_cql(
    server: ServerAddress,
    clock: Clock,
    login: tuple[str, str] = ANONYMOUS,
    *,
    connect_s: float = 5.0,
    answer_s: float = 10.0,
) -> CqlConnected:
    """
    Connect, shake hands, start up and log in.

    Args:
        server: where.
        clock: for all times of the connection.
        login: user name and password; done only to a server that asks.
        connect_s: for all of it.
        answer_s: for each request.

    Raises:
        CqlRefusedError: wrong password, another protocol, a way to log in that is not SASL's PLAIN.
        OSError: nobody is there, or nobody whom we trust, or not in time (the one above, TimeoutError and
            ssl.SSLError are kinds of it).
    """

    def build(connected: socket.socket, tls: TlsSession | None) -> CqlConnection:
        return CqlConnection(connected, clock, answer_s=answer_s, tls=tls)

    async with asyncio.timeout(connect_s):
        dialled = await dial(server, clock, build)
        try:
            ready_ns = await _start_up(dialled.connection, login)
        except BaseException:
            dialled.connection.close()
            raise
    return CqlConnected(dialled.connection, dialled.times(ready_ns))


async def _start_up(connection: CqlConnection, login: tuple[str, str]) -> int:
    """Start up, with a login if it is asked for; return when the last answer was in hand."""
    opcode, at_ns = await _request(connection, cql.startup())
    if opcode == cql.Opcode.AUTHENTICATE:
        opcode, at_ns = await _request(connection, cql.plain_credentials(*login))
    if opcode not in {cql.Opcode.READY, cql.Opcode.AUTH_SUCCESS}:
        raise CqlRefusedError(CqlError("ProtocolError", f"start-up was answered with opcode {opcode:#04x}"))
    return at_ns


async def _request(connection: CqlConnection, request: cql.CqlRequest) -> tuple[int, int]:
    answered = await connection.call(request)
    if answered.error:
        raise lost_connection(answered.error)
    if error := refusal(answered.frame):
        raise CqlRefusedError(error)
    return answered.frame.opcode, answered.t2_ns

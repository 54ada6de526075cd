"""
Connections to a gRPC server: TCP, TLS and HTTP/2's settings, then any number of calls at a time, each with a deadline.

A server that says nothing while something is awaited is pinged, and given up without an answer to that.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from stepbench.model.errors import PROTOCOL_BROKEN, lost_connection
from stepbench.wire.answers import NEVER_NS, DeadlineTimer
from stepbench.wire.connect import dial, tls_context
from stepbench.wire.http2 import Http2Error, RequestFields
from stepbench.wire.http2.grpc_answer import GrpcAnswer, GrpcStatus, prefixed
from stepbench.wire.http2.grpc_call import GrpcCall, Subscription, UnaryCall
from stepbench.wire.http2.session import Http2Session
from stepbench.wire.socket import ByteSocket

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.wire.connect import ServerAddress, TlsSession
    from stepbench.wire.http2.streams import Http2Stream


class GrpcLimits(NamedTuple):
    """
    The time limits of a connection.

    answer_s: a call, unless it says otherwise. ping_every_s, pong_within_s: a host that vanishes sends no RST, so a
        connection over which something is awaited and nothing comes is pinged, and given up without an answer to that.
    """

    answer_s: float = 10.0
    ping_every_s: float = 10.0
    pong_within_s: float = 5.0


class _CallDeadline(DeadlineTimer):
    """Gives up each call at its own deadline; the connection goes on."""

    __slots__ = ("_session",)

    def __init__(self, clock: Clock, session: Http2Session) -> None:
        super().__init__(clock)
        self._session = session

    def _check(self, now_ns: int) -> int:
        calls = [each for each in self._session.unanswered() if isinstance(each, UnaryCall)]
        for call in calls:
            if call.expires_ns <= now_ns:
                call.give_up(GrpcStatus.DEADLINE_EXCEEDED, "no answer in time")
        return min((call.expires_ns for call in calls if call.expires_ns > now_ns), default=NEVER_NS)


class GrpcConnection:
    """
    An open connection; calls are for after `greeted`.

    Args:
        connected: a non-blocking TCP socket; it is closed with this object.
        clock: for the times.
        authority: `host:port`, as the server knows itself.
        limits: of time.
        tls: after its handshake over this socket, if it is to be spoken.
    """

    def __init__(
        self, connected: socket.socket, clock: Clock, authority: str, limits: GrpcLimits, tls: TlsSession | None = None
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._answer_ns = int(limits.answer_s * 1e9)
        self._loop = asyncio.get_running_loop()
        self._settings_known: asyncio.Future[str] = self._loop.create_future()
        self._session = Http2Session(RequestFields("https" if tls else "http", authority), self._note_settings)
        self._deadline = _CallDeadline(clock, self._session)
        self._ping_timer: asyncio.TimerHandle | None = None
        self._is_taking = self._was_heard = False
        self.now_ns = 0
        self._socket = ByteSocket(connected, clock, self._arrived, self._lost, tls)
        self._flush()

    @property
    def is_open(self) -> bool:
        """Return whether calls can be begun."""
        return self._socket.is_open and self._session.is_accepting

    async def wait_for_settings(self) -> None:
        """
        Wait until the server has said what it allows; the caller bounds it.

        Raises:
            ConnectionResetError: it has ended the connection instead.
        """
        reason = await self._settings_known
        if reason:  # not an exception in the future: it would hold the frames, and they us, until the collector runs
            raise lost_connection(reason)

    def call(
        self, method: str, message: bytes, done: Callable[[GrpcAnswer], None], limit_s: float | None = None
    ) -> UnaryCall:
        """Ask now; `done` is called once, from within this call only if nothing was sent."""
        limit_ns = self._answer_ns if limit_s is None else int(limit_s * 1e9)
        call = UnaryCall(self, done, self._clock.now_ns() + limit_ns)
        self._begin(call, method, message)
        if call.expires_ns < self._deadline.due_ns:
            self._deadline.set(call.expires_ns)
        return call

    async def call_and_wait(self, method: str, message: bytes, limit_s: float | None = None) -> GrpcAnswer:
        """Call and wait for the answer; a caller who is cancelled abandons it."""
        answered: asyncio.Future[GrpcAnswer] = self._loop.create_future()
        call = self.call(method, message, partial(_resolve, answered), limit_s)
        try:
            return await answered
        finally:
            call.give_up(GrpcStatus.CANCELLED, "abandoned")

    def subscribe(
        self, method: str, message: bytes, arrived: Callable[[int, bytes], None], done: Callable[[GrpcAnswer], None]
    ) -> Subscription:
        """Ask for a stream of answers; our side of it stays open."""
        subscription = Subscription(self, arrived, done)
        self._begin(subscription, method, message, ends=False)
        return subscription

    def cancel(self, stream: Http2Stream) -> None:
        """See `CallConnection`."""
        if not self._is_taking:
            self.now_ns = self._clock.now_ns()
        self._session.cancel(stream)
        self._flush()

    def close(self) -> None:
        """Close; calls under way end without an answer. Safe to call twice."""
        self._socket.end("the connection was closed")

    def _begin(self, stream: GrpcCall, method: str, message: bytes, *, ends: bool = True) -> None:
        if not self.is_open:
            self.now_ns = self._clock.now_ns()
            stream.give_up(GrpcStatus.UNAVAILABLE, "the connection has ended")
            return
        self._session.begin(stream, method, prefixed(message), ends=ends)
        if not (self._is_taking and self._session.may_wait):
            self._flush()
        if self._ping_timer is None:
            self._was_heard = True
            self._check_liveness()

    def _flush(self) -> None:
        if self._session.has_outgoing:
            self._socket.send(*self._session.take())

    # --- what comes in -----------------------------------------------------------------------------------------

    def _arrived(self, now_ns: int, data: bytes) -> None:
        self.now_ns, self._is_taking, self._was_heard = now_ns, True, True
        problem = ""
        try:
            self._session.receive(data)
        except Http2Error as error:
            problem = f"{PROTOCOL_BROKEN}: {error}"
            self._session.send_goaway(error.code)
        except Exception as error:  # of ours; what came behind it is lost, so nobody must wait for it
            self._is_taking = False
            self._socket.end(f"{type(error).__name__} at an answer")
            raise
        finally:
            self._is_taking = False
        self._flush()
        if problem:
            self._socket.end(problem)
        elif not self._session.is_accepting and not self._session.streams:
            self._socket.end("the server said goodbye")

    def _note_settings(self) -> None:
        if not self._settings_known.done():
            self._settings_known.set_result("")

    def _lost(self, reason: str) -> None:
        self.now_ns = self._clock.now_ns()
        self._deadline.stop()
        if self._ping_timer is not None:
            self._ping_timer.cancel()
        if not self._settings_known.done():
            self._settings_known.set_result(reason)
        self._session.lose(reason)

    # --- a peer that says nothing --------------------------------------------------------------------------------

    def _check_liveness(self) -> None:
        """Check that the server still sends something while an answer is awaited."""
        self._ping_timer = None
        if not self._session.streams:
            return
        if self._was_heard:
            self._was_heard = False
            self._ping_timer = self._loop.call_later(self._limits.ping_every_s, self._check_liveness)
        else:
            self._session.ping()
            self._flush()
            self._ping_timer = self._loop.call_later(self._limits.pong_within_s, self._expect_pong)

    def _expect_pong(self) -> None:
        if self._was_heard:
            self._check_liveness()
        else:
            self._socket.end("no answer to a ping")


def _resolve(answered: asyncio.Future[GrpcAnswer], answer: GrpcAnswer) -> None:
    if not answered.done():
        answered.set_result(answer)


class GrpcConnected(NamedTuple):
    """
    A connection over which calls can be made, and how long that took.

    connect_ns: TCP, and the server's settings. tls_ns: the handshake, 0 without.
    """

    connection: GrpcConnection
    connect_ns: int
    tls_ns: int


def http2_tls_context() -> ssl.SSLContext:
    """Return a context that trusts the system's authorities, for HTTP/2; to be made once: it takes 20 to 30 ms."""
    context = tls_context()
    context.set_alpn_protocols(["h2"])
    return context


async def connect_grpc(
    server: ServerAddress,
    authority: str,
    clock: Clock,
    limits: GrpcLimits = GrpcLimits(),  # noqa: B008 -- immutable
    *,
    connect_s: float = 5.0,
) -> GrpcConnected:
    """
    Connect, shake hands, and wait for the server's settings, all within `connect_s`.

    `authority`: what the server is called, `host:port`. TLS is spoken with a context of `http2_tls_context`.

    Raises:
        OSError: nobody is there, or nobody whom we trust or who speaks HTTP/2, or not in time (TimeoutError and
            ssl.SSLError are kinds of it).
    """

    def build(connected: socket.socket, tls: TlsSession | None) -> GrpcConnection:
        if tls is not None and tls.protocol != "h2":
            message = f"the server at {authority} does not speak HTTP/2 over TLS"
            raise ConnectionRefusedError(message)
        return GrpcConnection(connected, clock, authority, limits, tls)

    async with asyncio.timeout(connect_s):
        dialled = await dial(server, clock, build)
        try:
            await dialled.connection.wait_for_settings()
        except BaseException:
            dialled.connection.close()
            raise
    times = dialled.times(clock.now_ns())
    return GrpcConnected(dialled.connection, times.connect_ns + times.authenticate_ns, times.tls_ns)

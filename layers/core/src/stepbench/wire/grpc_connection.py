"""One connection to a gRPC server: HTTP/2 over a socket, any number of calls at a time, and the alarms for them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from stepbench.wire.byte_socket import ByteSocket
from stepbench.wire.grpc_answer import GrpcAnswer, Status, prefixed
from stepbench.wire.grpc_call import NEVER_NS, Answering, Call, Subscription
from stepbench.wire.http2_fields import RequestFields
from stepbench.wire.http2_frames import Http2Error
from stepbench.wire.http2_session import Session
from stepbench.wire.http2_streams import Stream

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from stepbench.clock import Clock
    from stepbench.wire.tls_session import TlsSession


class GrpcLimits(NamedTuple):
    """
    How long things may take.

    answer_s: a call, unless it says otherwise. ping_every_s, pong_within_s: a host that vanishes sends no RST, so a
        connection over which something is awaited and nothing comes is pinged, and given up without an answer to that.
    """

    answer_s: float = 10.0
    ping_every_s: float = 10.0
    pong_within_s: float = 5.0


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
        self,
        connected: socket.socket,
        clock: Clock,
        authority: str,
        limits: GrpcLimits,
        tls: TlsSession | None = None,
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._answer_ns = int(limits.answer_s * 1e9)
        self._loop = asyncio.get_running_loop()
        self._greeted: asyncio.Future[str] = self._loop.create_future()
        self._session = Session(RequestFields("https" if tls else "http", authority), self._welcome)
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ns = NEVER_NS
        self._pulse: asyncio.TimerHandle | None = None
        self._is_taking = self._was_heard = False
        self.now_ns = 0
        self._socket = ByteSocket(connected, clock, self._arrived, self._lost, tls)
        self._flush()

    @property
    def is_open(self) -> bool:
        """Whether calls can be begun."""
        return self._socket.is_open and self._session.is_accepting

    async def greeted(self) -> None:
        """
        Wait until the server has said what it allows; the caller bounds it.

        Raises:
            ConnectionResetError: it has ended the connection instead.
        """
        reason = await self._greeted
        if reason:  # not an exception in the future: it would hold the frames, and they us, until the collector runs
            raise ConnectionResetError(reason)

    def call(
        self, method: str, message: bytes, done: Callable[[GrpcAnswer], None], limit_s: float | None = None
    ) -> Call:
        """Ask now; `done` is called once, from within this call only if nothing was sent."""
        limit_ns = self._answer_ns if limit_s is None else int(limit_s * 1e9)
        call = Call(self, done, self._clock.now_ns() + limit_ns)
        self._begin(call, method, message)
        if call.expires_ns < self._alarm_ns:
            self._set_alarm(call.expires_ns)
        return call

    async def ask(self, method: str, message: bytes, limit_s: float | None = None) -> GrpcAnswer:
        """As `call`, for whoever wants to wait; one who is cancelled abandons the answer."""
        answered: asyncio.Future[GrpcAnswer] = self._loop.create_future()
        call = self.call(method, message, partial(_tell, answered), limit_s)
        try:
            return await answered
        finally:
            call.give_up(Status.CANCELLED, "abandoned")

    def subscribe(
        self,
        method: str,
        message: bytes,
        arrived: Callable[[int, bytes], None],
        done: Callable[[GrpcAnswer], None],
    ) -> Subscription:
        """Ask for a stream of answers; our side of it stays open."""
        subscription = Subscription(self, arrived, done)
        self._begin(subscription, method, message, ends=False)
        return subscription

    def cancel(self, stream: Stream) -> None:
        """See `grpc_call.Line`."""
        if not self._is_taking:
            self.now_ns = self._clock.now_ns()
        self._session.cancel(stream)
        self._flush()

    def close(self) -> None:
        """Close; calls under way end without an answer. Safe to call twice."""
        self._socket.end("the connection was closed")

    def _begin(self, stream: Answering, method: str, message: bytes, *, ends: bool = True) -> None:
        if not self.is_open:
            self.now_ns = self._clock.now_ns()
            stream.give_up(Status.UNAVAILABLE, "the connection has ended")
            return
        self._session.begin(stream, method, prefixed(message), ends=ends)
        if not (self._is_taking and self._session.may_wait):
            self._flush()
        if self._pulse is None:
            self._was_heard = True
            self._beat()

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
            problem = f"the server broke the protocol: {error}"
            self._session.say_goodbye(error.code)
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

    def _welcome(self) -> None:
        if not self._greeted.done():
            self._greeted.set_result("")

    def _lost(self, reason: str) -> None:
        self.now_ns = self._clock.now_ns()
        for timer in (self._alarm, self._pulse):
            if timer is not None:
                timer.cancel()
        self._alarm_ns = 0  # no call is due before: there are no more alarms
        if not self._greeted.done():
            self._greeted.set_result(reason)
        self._session.lose(reason)

    # --- alarms ------------------------------------------------------------------------------------------------

    def _set_alarm(self, due_ns: int) -> None:
        """In place of one that is due later."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ns = due_ns
        self._alarm = self._loop.call_later((due_ns - self._clock.now_ns()) / 1e9, self._look)

    def _look(self) -> None:
        """One alarm for all calls: the first of them is due, or others that came after it."""
        self._alarm, self._alarm_ns = None, NEVER_NS
        calls = [each for each in self._session.unanswered() if isinstance(each, Call)]
        now_ns = self._clock.now_ns()
        for call in calls:
            if call.expires_ns <= now_ns:
                call.give_up(Status.DEADLINE_EXCEEDED, "no answer in time")
        next_ns = min((call.expires_ns for call in calls if call.expires_ns > now_ns), default=NEVER_NS)
        if next_ns < self._alarm_ns:
            self._set_alarm(next_ns)

    def _beat(self) -> None:
        """While something is awaited, see that the server still says something."""
        self._pulse = None
        if not self._session.streams:
            return
        if self._was_heard:
            self._was_heard = False
            self._pulse = self._loop.call_later(self._limits.ping_every_s, self._beat)
        else:
            self._session.ping()
            self._flush()
            self._pulse = self._loop.call_later(self._limits.pong_within_s, self._expect_pong)

    def _expect_pong(self) -> None:
        if self._was_heard:
            self._beat()
        else:
            self._socket.end("no answer to a ping")


def _tell(answered: asyncio.Future[GrpcAnswer], answer: GrpcAnswer) -> None:
    if not answered.done():
        answered.set_result(answer)

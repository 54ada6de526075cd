"""One connection to Redis or Valkey: many commands in flight, answered in the order in which they were sent."""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from stepbench.wire.byte_socket import ByteSocket, Shipment
from stepbench.wire.resp import ReplyLimits, RespReader, encode_command
from stepbench.wire.resp_values import MalformedReplyError, Push, Reply

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from stepbench.clock import Clock
    from stepbench.wire.tls_session import TlsSession

    Pushed = Callable[[int, Push], None]
    """Given when the bytes were in hand (ns since the epoch) and what the server said unasked."""

    Told = Callable[[int, Reply, str], None]
    """Given t2, the reply, and the error: as in `Answered`."""

_SUBSCRIBING = frozenset(
    prefix + name for prefix in (b"", b"P", b"S") for name in (b"SUBSCRIBE", b"UNSUBSCRIBE")
)  # RESP3: acknowledged by pushes
_NEVER_CALLED = _SUBSCRIBING | {b"MONITOR"}
_UNASKED = "unasked-answer"


class Answered(NamedTuple):
    """
    What came of one command.

    t1_ns: the last statement before its bytes went to the kernel (if they never did: as `t2_ns`).
    t2_ns: the first statement after the bytes arrived that completed its answer, or the moment of giving up.
    reply: what the server said, an `ErrorReply` if it said no; nothing where there is an `error`.
    error: why there is no answer ("timeout", "connection-closed", "connection-reset", "garbage-answer", …), else "".
    sent: False: the kernel never got any of it, so the command certainly had no effect.
    """

    t1_ns: int
    t2_ns: int
    reply: Reply
    error: str = ""
    sent: bool = True


class RespConnection:
    """
    An open connection.

    Whatever irregular happens ends it: a time-out, an answer that nobody asked for, bytes that are no answer. Every
    command in flight then ends without an answer, and whether it had an effect is unknown.

    Args:
        connected: a non-blocking TCP socket; it is closed with this object.
        clock: for the times.
        answer_s: the longest wait for an answer.
        pushed: called on the loop with RESP3's out-of-band messages; without it they are dropped.
        tls: after its handshake over this socket, if it is to be spoken.
        limits: of one reply.
    """

    def __init__(  # noqa: PLR0913 -- all but two have defaults
        self,
        connected: socket.socket,
        clock: Clock,
        *,
        answer_s: float = 10.0,
        pushed: Pushed | None = None,
        tls: TlsSession | None = None,
        limits: ReplyLimits = ReplyLimits(),  # noqa: B008 -- immutable
    ) -> None:
        self._clock = clock
        self._answer_s = answer_s
        self._pushed = pushed
        self._loop = asyncio.get_running_loop()
        self._reader = RespReader(limits)
        self._in_flight: deque[tuple[Shipment, Told]] = deque()
        self._alarm: asyncio.TimerHandle | None = None
        self._stuck: Shipment | None = None
        self._socket = ByteSocket(connected, clock, self._arrived, self._lost, tls)

    @property
    def is_open(self) -> bool:
        """Whether commands can be sent."""
        return self._socket.is_open

    @property
    def in_flight(self) -> int:
        """How many commands await their answer."""
        return len(self._in_flight)

    def send(self, command: bytes, shipment: Shipment, told: Told) -> None:
        """
        Send a command now, of `encode_command`'s bytes and one that is answered once.

        told: called on the loop in the turn in which the answer came, so that the next command can be sent at once;
            before this returns only if nothing was sent, which the shipment's t1 of 0 says.
        """
        self._in_flight.append((shipment, told))
        if self._alarm is None:
            self._alarm = self._loop.call_later(self._answer_s, self._look)
        self._socket.send(command, shipment)

    def withdraw(self, shipment: Shipment) -> bool:
        """Whether a command could be taken back of which the kernel has got nothing; nobody is told of it then."""
        if not self._socket.withdraw(shipment):
            return False
        place = next(place for place, (waiting, _) in enumerate(self._in_flight) if waiting is shipment)
        del self._in_flight[place]
        return True

    def call(self, *parts: bytes) -> asyncio.Future[Answered]:
        """
        Send a command now; its future never raises for the server's or the network's doings.

        A caller who is cancelled abandons the answer; the ones after it still find their own.

        Raises:
            ValueError: an empty command, or one that is not answered once (SUBSCRIBE and its kin: `tell`; MONITOR).
        """
        return self.call_encoded(_encode(parts))

    def call_encoded(self, command: bytes) -> asyncio.Future[Answered]:
        """As `call`, of `encode_command`'s bytes and one that is answered once."""
        shipment = Shipment()
        future: asyncio.Future[Answered] = self._loop.create_future()
        self.send(command, shipment, partial(_resolve, future, shipment))
        return future

    def pipeline(self, commands: Sequence[Sequence[bytes]]) -> list[asyncio.Future[Answered]]:
        """Send commands in one piece, all with the same t1; otherwise as `call`."""
        pieces = [_encode(parts) for parts in commands]
        shipment = Shipment()
        futures: list[asyncio.Future[Answered]] = [self._loop.create_future() for _ in pieces]
        if futures:
            *others, last = [partial(_resolve, future, shipment) for future in futures]
            self._in_flight.extend((shipment, told) for told in others)
            self.send(b"".join(pieces), shipment, last)
        return futures

    def tell(self, *parts: bytes) -> Shipment:
        """
        Send a command that is answered by pushes only, under RESP3: SUBSCRIBE and its kin.

        Raises:
            ValueError: it is another one.
        """
        if not parts or parts[0].upper() not in _SUBSCRIBING:
            message = f"{parts[:1]} would be answered, and that taken for the answer to the next command"
            raise ValueError(message)
        shipment = Shipment()
        self._socket.send(encode_command(*parts), shipment)
        return shipment

    def close(self) -> None:
        """Close; commands in flight end without an answer. Safe to call twice."""
        self._socket.end("connection-closed")

    def _look(self) -> None:
        """One alarm for all: answers come in order, so that the oldest command is overdue first."""
        self._alarm = None
        if not self._in_flight:
            return
        oldest = self._in_flight[0][0]
        if oldest.t1_ns:
            left_s = self._answer_s - (self._clock.now_ns() - oldest.t1_ns) / 1e9
        else:  # behind a full buffer, and with no answer to wait for: that long at most once more
            left_s = 0 if oldest is self._stuck else self._answer_s
            self._stuck = oldest
        if left_s > 0:
            self._alarm = self._loop.call_later(left_s, self._look)
        else:
            self._socket.end("timeout")

    def _arrived(self, now_ns: int, data: bytes) -> None:
        reply = self._reader.alone(data)
        if reply is None or not self._in_flight:
            self._take(now_ns, data)
            return
        shipment, told = self._in_flight[0]
        if shipment.t1_ns:
            self._in_flight.popleft()
            told(now_ns, reply, "")
        else:
            self._socket.end(_UNASKED)

    def _take(self, now_ns: int, data: bytes) -> None:
        """Anything but a common reply by itself."""
        reason = ""
        try:
            replies: Sequence[Reply] = self._reader.feed(data)
        except MalformedReplyError as error:
            replies, reason = error.replies, "garbage-answer"
        due = len(self._in_flight)  # what whoever is told sends at once has had no time to be answered
        for reply in replies:
            if isinstance(reply, Push):
                if self._pushed is not None:
                    self._pushed(now_ns, reply)
            elif not due or not self._in_flight or not self._in_flight[0][0].t1_ns:
                reason = _UNASKED
                break
            else:
                due -= 1
                self._in_flight.popleft()[1](now_ns, reply, "")
        if reason:
            self._socket.end(reason)

    def _lost(self, reason: str) -> None:
        now_ns = self._clock.now_ns()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        while self._in_flight:
            self._in_flight.popleft()[1](now_ns, None, reason)


def _resolve(future: asyncio.Future[Answered], shipment: Shipment, t2_ns: int, reply: Reply, error: str) -> None:
    if not future.done():
        t1_ns = shipment.t1_ns
        future.set_result(Answered(t1_ns or t2_ns, t2_ns, reply, error, sent=t1_ns != 0))


def _encode(parts: Sequence[bytes]) -> bytes:
    """As `encode_command`; also raises ValueError for a command that is not answered once."""
    data = encode_command(*parts)
    if parts[0].upper() in _NEVER_CALLED:
        message = f"{parts[0].decode()} is not answered once, so that every later answer would be misread; see `tell`"
        raise ValueError(message)
    return data

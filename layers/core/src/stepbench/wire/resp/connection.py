"""
A connection to Redis or Valkey: TCP, TLS and login, each timed by itself, then many commands in flight.

They are answered in the order in which they were sent.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from stepbench.model.errors import GARBAGE, UNASKED, ServerRefusalError, lost_connection
from stepbench.wire.answers import InOrderConnection, settle
from stepbench.wire.connect import dial
from stepbench.wire.resp import ErrorReply, MalformedReplyError, MapReply, Push, Reply
from stepbench.wire.resp.requests import ReplyLimits, RespReader, encode_command
from stepbench.wire.socket import OutgoingBytes

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from stepbench.clock import Clock
    from stepbench.wire.connect import ConnectTimes, ServerAddress, TlsSession


_NOT_ANSWERED_ONCE = frozenset(
    (*(prefix + name for prefix in (b"", b"P", b"S") for name in (b"SUBSCRIBE", b"UNSUBSCRIBE")), b"MONITOR")
)


class RespAnswer(NamedTuple):
    """
    The end of one command, with the times, the error and `sent` of `HttpExchange` (wire/http1/connection.py).

    reply: what the server said, an `ErrorReply` if it said no; nothing where there is an `error`.
    """

    t1_ns: int
    t2_ns: int
    reply: Reply
    error: str = ""
    sent: bool = True


class RespConnection(InOrderConnection[Reply]):
    """
    An open connection; what it takes beyond `InOrderConnection`. RESP3's out-of-band messages are dropped.

    Args:
        connected, clock, answer_s, tls: as `InOrderConnection`.
        limits: of one reply.
    """

    def __init__(
        self,
        connected: socket.socket,
        clock: Clock,
        *,
        answer_s: float = 10.0,
        tls: TlsSession | None = None,
        limits: ReplyLimits = ReplyLimits(),  # noqa: B008 -- immutable
    ) -> None:
        super().__init__(connected, clock, answer_s=answer_s, tls=tls)
        self._loop = asyncio.get_running_loop()
        self._reader = RespReader(limits)

    def call(self, *parts: bytes) -> asyncio.Future[RespAnswer]:
        """
        Send a command now; its future never raises for the server's or the network's doings.

        A caller who is cancelled abandons the answer; the ones after it still find their own.

        Raises:
            ValueError: an empty command, or one that is not answered once (SUBSCRIBE and its kin, MONITOR).
        """
        command = _encode(parts)
        outgoing = OutgoingBytes()
        future: asyncio.Future[RespAnswer] = self._loop.create_future()
        self.send(command, outgoing, partial(settle, future, RespAnswer, outgoing))
        return future

    def pipeline(self, commands: Sequence[Sequence[bytes]]) -> list[asyncio.Future[RespAnswer]]:
        """Send commands in one piece, all with the same t1; otherwise as `call`."""
        pieces = [_encode(parts) for parts in commands]
        outgoing = OutgoingBytes()
        futures: list[asyncio.Future[RespAnswer]] = [self._loop.create_future() for _ in pieces]
        if futures:
            *others, last = [partial(settle, future, RespAnswer, outgoing) for future in futures]
            self._in_flight.extend((outgoing, done) for done in others)
            self.send(b"".join(pieces), outgoing, last)
        return futures

    def _arrived(self, now_ns: int, data: bytes) -> None:
        reply = self._reader.read_single(data)
        if reply is None or not self._in_flight:
            self._take(now_ns, data)
            return
        outgoing, done = self._in_flight[0]
        if outgoing.t1_ns:
            self._in_flight.popleft()
            done(now_ns, reply, "")
        else:
            self._socket.end(UNASKED)

    def _take(self, now_ns: int, data: bytes) -> None:
        """Read whatever is not a single common reply."""
        reason = ""
        try:
            replies: Sequence[Reply] = self._reader.feed(data)
        except MalformedReplyError as error:
            replies, reason = error.replies, GARBAGE
        due = len(self._in_flight)  # what is sent from within `done` has had no time to be answered
        for reply in replies:
            if isinstance(reply, Push):
                continue
            if not due or not self._in_flight or not self._in_flight[0][0].t1_ns:
                reason = UNASKED
                break
            due -= 1
            self._in_flight.popleft()[1](now_ns, reply, "")
        if reason:
            self._socket.end(reason)


@dataclass(frozen=True)
class Login:
    """
    The user and the database, and the protocol to speak.

    user: "" for the default user. password: "" for none. database: for SELECT, 0 needs none. protocol: 3 says HELLO,
    which servers before Redis 6 do not know; 2 does not.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    database: int = 0
    protocol: Literal[2, 3] = 3


_PASSING = frozenset({"BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "TRYAGAIN"})
"""What a server says that will serve us after a while."""
_FULL = "max number of clients"


class LoginRefusedError(ServerRefusalError):
    """The server took the connection and refused who we are, or what we want; `reply` is what it said."""

    def __init__(self, reply: ErrorReply) -> None:
        self.reply = reply
        super().__init__(f"{reply.code} {reply.message}")

    @property
    def is_lasting(self) -> bool:
        """Return whether waiting is of no use: it is for a server that loads its data, or has no room now."""
        return self.reply.code not in _PASSING and _FULL not in self.reply.message


class RespConnected(NamedTuple):
    """
    A connection on which commands can be sent.

    times: `authenticate_ns` is HELLO or AUTH, and SELECT. greeting: what HELLO answered (`server`, `version`, `mode`,
    `role`, …); empty without.
    """

    connection: RespConnection
    times: ConnectTimes
    greeting: dict[str, str]


def _encode(parts: Sequence[bytes]) -> bytes:
    """Encode a command; ValueError also for one that is not answered once."""
    data = encode_command(*parts)
    if parts[0].upper() in _NOT_ANSWERED_ONCE:
        message = f"{parts[0].decode()} is not answered once: later answers would be misread"
        raise ValueError(message)
    return data


async def connect_resp(  # noqa: PLR0913 -- all but two have defaults
    server: ServerAddress,
    clock: Clock,
    login: Login = Login(),
    *,
    connect_s: float = 5.0,
    answer_s: float = 10.0,
    limits: ReplyLimits = ReplyLimits(),  # noqa: B008 -- immutable
) -> RespConnected:
    """
    Connect, shake hands and log in.

    Args:
        server: where.
        clock: for all times of the connection.
        login: as whom.
        connect_s: for TCP, TLS and authentication together.
        answer_s: for each command after that.
        limits: of each answer.

    Raises:
        LoginRefusedError: wrong password, no such database, a server too old for HELLO.
        OSError: nobody is there, or nobody whom we trust, or not in time (the one above, TimeoutError and
            ssl.SSLError are kinds of it).
    """

    def build(connected: socket.socket, tls: TlsSession | None) -> RespConnection:
        return RespConnection(connected, clock, answer_s=answer_s, tls=tls, limits=limits)

    async with asyncio.timeout(connect_s):
        dialled = await dial(server, clock, build)
        try:
            greeting, ready_ns = await _log_in(dialled.connection, login, dialled.secure_ns)
        except BaseException:
            dialled.connection.close()
            raise
    return RespConnected(dialled.connection, dialled.times(ready_ns), greeting)


async def _log_in(connection: RespConnection, login: Login, now_ns: int) -> tuple[dict[str, str], int]:
    """Log in; return HELLO's answer, and when the last answer was in hand (`now_ns` without any)."""
    greeting: Reply = None
    for command in _login_commands(login):
        answered = await connection.call(*command)
        if answered.error:
            raise lost_connection(answered.error)
        if isinstance(answered.reply, ErrorReply):
            raise LoginRefusedError(answered.reply)
        now_ns = answered.t2_ns
        greeting = greeting or answered.reply
    pairs = greeting.pairs if isinstance(greeting, MapReply) else []
    return {_text(name): _text(value) for name, value in pairs if isinstance(value, bytes | str | int)}, now_ns


def _login_commands(login: Login) -> list[tuple[bytes, ...]]:
    user, password = login.user.encode(), login.password.encode()
    commands: list[tuple[bytes, ...]] = []
    if login.protocol == 3:  # noqa: PLR2004 -- its name
        commands.append((b"HELLO", b"3", b"AUTH", user or b"default", password) if password else (b"HELLO", b"3"))
    elif password:
        commands.append((b"AUTH", user, password) if user else (b"AUTH", password))
    if login.database:
        commands.append((b"SELECT", b"%d" % login.database))
    return commands


def _text(value: Reply) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

"""From an address to an open connection to Redis or Valkey: TCP, TLS, authentication, each timed by itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from stepbench.wire.reaching import reach
from stepbench.wire.resp import ReplyLimits
from stepbench.wire.resp_connection import RespConnection
from stepbench.wire.resp_values import ErrorReply, MapReply, Reply

if TYPE_CHECKING:
    import socket
    import ssl

    from stepbench.clock import Clock
    from stepbench.wire.reaching import ConnectTimes
    from stepbench.wire.resp_connection import Pushed
    from stepbench.wire.tls_session import TlsSession


@dataclass(frozen=True)
class Login:
    """
    Who we are, and what we want.

    user: "" for the default user. password: "" for none. database: for SELECT, 0 needs none. protocol: 3 says HELLO,
    which servers before Redis 6 do not know; 2 does not.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    database: int = 0
    protocol: Literal[2, 3] = 3


class RespEndpoint(NamedTuple):
    """
    Where to connect, and within which bounds; see also `Place`.

    connect_s: for TCP, TLS and authentication together. answer_s: for each command after that. reply: for each answer.
    """

    host: str
    port: int
    login: Login = Login()
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    connect_s: float = 5.0
    answer_s: float = 10.0
    reply: ReplyLimits = ReplyLimits()
    reset_at_close: bool = False


class LoginRefusedError(ConnectionError):
    """The server took the connection and refused who we are, or what we want; `reply` is what it said."""

    def __init__(self, reply: ErrorReply) -> None:
        self.reply = reply
        super().__init__(f"{reply.code} {reply.message}")


class Connected(NamedTuple):
    """
    A connection on which commands can be sent.

    times: `authenticate_ns` is HELLO or AUTH, and SELECT. greeting: what HELLO told (`server`, `version`, `mode`,
    `role`, …); empty without.
    """

    connection: RespConnection
    times: ConnectTimes
    greeting: dict[str, str]


async def connect(endpoint: RespEndpoint, clock: Clock, pushed: Pushed | None = None) -> Connected:
    """
    Connect, shake hands and log in.

    Args:
        endpoint: where.
        clock: for all times of the connection.
        pushed: as `RespConnection`'s.

    Raises:
        LoginRefusedError: wrong password, no such database, a server too old for HELLO.
        OSError: nobody is there, or nobody whom we trust, or not in time (the one above, TimeoutError and
            ssl.SSLError are kinds of it).
    """

    def speak(connected: socket.socket, tls: TlsSession | None) -> RespConnection:
        return RespConnection(
            connected, clock, answer_s=endpoint.answer_s, pushed=pushed, tls=tls, limits=endpoint.reply
        )

    async with asyncio.timeout(endpoint.connect_s):
        reached = await reach(endpoint, clock, speak)
        try:
            greeting, ready_ns = await _log_in(reached.spoken, endpoint.login, reached.secure_ns)
        except BaseException:
            reached.spoken.close()
            raise
    return Connected(reached.spoken, reached.times(ready_ns), greeting)


async def _log_in(connection: RespConnection, login: Login, now_ns: int) -> tuple[dict[str, str], int]:
    """HELLO's answer, and when the last answer was in hand (`now_ns` without any)."""
    greeting: Reply = None
    for command in _login_commands(login):
        answered = await connection.call(*command)
        if answered.error:
            raise ConnectionResetError(answered.error)
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

"""From an address to an open connection to Redis or Valkey: TCP, TLS, authentication, each timed by itself."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from stepbench.wire.resp import ReplyLimits
from stepbench.wire.resp_connection import RespConnection
from stepbench.wire.resp_values import ErrorReply, MapReply, Reply
from stepbench.wire.tcp import connect_tcp, reset_at_close
from stepbench.wire.tls_session import TlsSession

if TYPE_CHECKING:
    import socket

    from stepbench.clock import Clock
    from stepbench.wire.resp_connection import Pushed


class ConnectTimes(NamedTuple):
    """
    How long it took until commands could be sent; the sum is all of it.

    connect_ns: the name's resolution, where it is one, and TCP. tls_ns: the handshake; 0 without TLS.
    authenticate_ns: HELLO or AUTH, and SELECT, from the first statement after the handshake to the last answer; 0
        where none is asked for.
    """

    connect_ns: int
    tls_ns: int
    authenticate_ns: int


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
    Where to connect, and within which bounds.

    tls: the context, made once, or None for none. server_name: what the certificate must be for; "": the host.
    connect_s: for TCP, TLS and authentication together. answer_s: for each command after that. reply: for each answer.
    reset_at_close: whether the connection ends with a reset, so that its local port is free at once. For those who make
        one after the other: the kernel keeps a port that we have closed for a minute, and has 28,000 of them.
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
    """`greeting`: what HELLO told (`server`, `version`, `mode`, `role`, …); empty without."""

    connection: RespConnection
    times: ConnectTimes
    greeting: dict[str, str]


def tls_context(ca_file: str | None = None) -> ssl.SSLContext:
    """
    A context that trusts the authorities of a PEM file only, or the system's; to be made once, since the latter
    takes 20 to 30 ms.

    Raises:
        OSError: there is no such file, or it holds none.
    """  # noqa: D205
    return ssl.create_default_context(cafile=ca_file)


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
    async with asyncio.timeout(endpoint.connect_s):
        began_ns = clock.now_ns()
        connected = await connect_tcp(endpoint.host, endpoint.port)
        try:
            connected_ns = clock.now_ns()
            if endpoint.reset_at_close:
                reset_at_close(connected)
            tls = await _shake_hands(connected, endpoint)
            secure_ns = clock.now_ns()
            connection = RespConnection(
                connected, clock, answer_s=endpoint.answer_s, pushed=pushed, tls=tls, limits=endpoint.reply
            )
        except BaseException:
            connected.close()
            raise
        try:
            greeting, ready_ns = await _log_in(connection, endpoint.login, secure_ns)
        except BaseException:
            connection.close()
            raise
    tls_ns = secure_ns - connected_ns if tls else 0
    connect_ns = (connected_ns if tls else secure_ns) - began_ns
    return Connected(connection, ConnectTimes(connect_ns, tls_ns, ready_ns - secure_ns), greeting)


async def _shake_hands(connected: socket.socket, endpoint: RespEndpoint) -> TlsSession | None:
    if endpoint.tls is None:
        return None
    session = TlsSession(endpoint.tls, endpoint.server_name or endpoint.host)
    await session.shake_hands(connected)
    return session


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

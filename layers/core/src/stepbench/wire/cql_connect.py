"""From an address to an open connection to Cassandra or ScyllaDB: TCP, TLS, login, each timed by itself."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

from stepbench.wire import cql
from stepbench.wire.cql_answers import CqlError, refusal
from stepbench.wire.cql_connection import CqlConnection
from stepbench.wire.resp_connect import ConnectTimes
from stepbench.wire.tcp import connect_tcp
from stepbench.wire.tls_session import TlsSession

if TYPE_CHECKING:
    import ssl

    from stepbench.clock import Clock

_NO_LINGERING = struct.pack("ii", 1, 0)
ANONYMOUS = ("cassandra", "cassandra")
"""Cassandra's own default, for a server that asks although no credentials were given."""


class CqlEndpoint(NamedTuple):
    """
    Where to connect, and within which bounds.

    login: user name and password; told only to a server that asks. tls: the context, made once, or None for none.
    server_name: what the certificate must be for; "": the host. connect_s: for all of it. answer_s: for each request.
    reset_at_close: whether the connection ends with a reset, so that its local port is free at once (`RespEndpoint`).
    """

    host: str
    port: int
    login: tuple[str, str] = ANONYMOUS
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    connect_s: float = 5.0
    answer_s: float = 10.0
    reset_at_close: bool = False


class CqlRefusedError(ConnectionError):
    """The server took the connection and refused who we are, or how we speak; `error` is what it said."""

    def __init__(self, error: CqlError) -> None:
        self.error = error
        super().__init__(f"{error.name} {error.message}")


class CqlConnected(NamedTuple):
    """`times.authenticate_ns` is STARTUP's, which no connection can do without, and the login's."""

    connection: CqlConnection
    times: ConnectTimes


async def connect_cql(endpoint: CqlEndpoint, clock: Clock) -> CqlConnected:
    """
    Connect, shake hands, start up and log in.

    Raises:
        CqlRefusedError: wrong password, another protocol, a way to log in that is not SASL's PLAIN.
        OSError: nobody is there, or nobody whom we trust, or not in time (the one above, TimeoutError and
            ssl.SSLError are kinds of it).
    """
    async with asyncio.timeout(endpoint.connect_s):
        began_ns = clock.now_ns()
        connected = await connect_tcp(endpoint.host, endpoint.port)
        try:
            connected_ns = clock.now_ns()
            if endpoint.reset_at_close:
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING)
            tls: TlsSession | None = None
            if endpoint.tls is not None:
                tls = TlsSession(endpoint.tls, endpoint.server_name or endpoint.host)
                await tls.shake_hands(connected)
            secure_ns = clock.now_ns() if tls else connected_ns
            connection = CqlConnection(connected, clock, answer_s=endpoint.answer_s, tls=tls)
        except BaseException:
            connected.close()
            raise
        try:
            ready_ns = await _start_up(connection, endpoint.login)
        except BaseException:
            connection.close()
            raise
    times = ConnectTimes(connected_ns - began_ns, secure_ns - connected_ns, ready_ns - secure_ns)
    return CqlConnected(connection, times)


async def _start_up(connection: CqlConnection, login: tuple[str, str]) -> int:
    """When the last answer was in hand."""
    opcode, at_ns = await _ask(connection, cql.startup())
    if opcode == cql.Opcode.AUTHENTICATE:
        opcode, at_ns = await _ask(connection, cql.plain_credentials(*login))
    if opcode not in {cql.Opcode.READY, cql.Opcode.AUTH_SUCCESS}:
        raise CqlRefusedError(CqlError("ProtocolError", f"start-up was answered with opcode {opcode:#04x}"))
    return at_ns


async def _ask(connection: CqlConnection, request: cql.Request) -> tuple[int, int]:
    answered = await connection.call(request)
    if answered.error:
        raise ConnectionResetError(answered.error)
    if error := refusal(answered.frame):
        raise CqlRefusedError(error)
    return answered.frame.opcode, answered.t2_ns

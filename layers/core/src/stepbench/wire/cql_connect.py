"""From an address to an open connection to Cassandra or ScyllaDB: TCP, TLS, login, each timed by itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from stepbench.wire import cql
from stepbench.wire.cql_answers import CqlError, refusal
from stepbench.wire.cql_connection import CqlConnection
from stepbench.wire.reaching import reach

if TYPE_CHECKING:
    import socket
    import ssl

    from stepbench.clock import Clock
    from stepbench.wire.reaching import ConnectTimes
    from stepbench.wire.tls_session import TlsSession

ANONYMOUS = ("cassandra", "cassandra")
"""Cassandra's own default, for a server that asks although no credentials were given."""


class CqlEndpoint(NamedTuple):
    """
    Where to connect, and within which bounds; see also `Place`.

    login: user name and password; told only to a server that asks. connect_s: for all of it. answer_s: for each
    request.
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

    def speak(connected: socket.socket, tls: TlsSession | None) -> CqlConnection:
        return CqlConnection(connected, clock, answer_s=endpoint.answer_s, tls=tls)

    async with asyncio.timeout(endpoint.connect_s):
        reached = await reach(endpoint, clock, speak)
        try:
            ready_ns = await _start_up(reached.spoken, endpoint.login)
        except BaseException:
            reached.spoken.close()
            raise
    return CqlConnected(reached.spoken, reached.times(ready_ns))


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

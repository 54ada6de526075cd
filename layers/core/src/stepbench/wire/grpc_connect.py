"""From an address to an open connection to a gRPC server: TCP, TLS, HTTP/2's settings."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, NamedTuple

from stepbench.wire.grpc_connection import GrpcConnection, GrpcLimits
from stepbench.wire.tcp import connect_tcp, reset_at_close
from stepbench.wire.tls_session import TlsSession

if TYPE_CHECKING:
    import socket

    from stepbench.clock import Clock


class GrpcEndpoint(NamedTuple):
    """
    Where to connect, and within which bounds.

    host: a name or an address. authority: what the server is called, `host:port`. tls: a context of `tls_context`, or
    None for none. server_name: what the certificate must be for. connect_s: for all of it. reset_at_close: whether the
    connection ends with a reset, so that its local port is free at once.
    """

    host: str
    port: int
    authority: str
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    connect_s: float = 5.0
    limits: GrpcLimits = GrpcLimits()
    reset_at_close: bool = False


class Connected(NamedTuple):
    """
    A connection over which calls can be made, and how long that took.

    connect_ns: TCP, and the server's settings. tls_ns: the handshake, 0 without.
    """

    connection: GrpcConnection
    connect_ns: int
    tls_ns: int


def tls_context() -> ssl.SSLContext:
    """One that trusts the system's authorities (`SSL_CERT_FILE`), for HTTP/2; to be made once: it takes 20 to 30 ms."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2"])
    return context


async def connect(endpoint: GrpcEndpoint, clock: Clock) -> Connected:
    """
    Connect, shake hands, and wait for the server's settings.

    Raises:
        OSError: nobody is there, or nobody whom we trust or who speaks HTTP/2, or not in time (TimeoutError and
            ssl.SSLError are kinds of it).
    """
    async with asyncio.timeout(endpoint.connect_s):
        began_ns = clock.now_ns()
        connected = await connect_tcp(endpoint.host, endpoint.port)
        try:
            if endpoint.reset_at_close:
                reset_at_close(connected)
            connected_ns = clock.now_ns()
            tls = await _shake_hands(connected, endpoint)
            secure_ns = clock.now_ns()
            connection = GrpcConnection(connected, clock, endpoint.authority, endpoint.limits, tls)
        except BaseException:
            connected.close()
            raise
        try:
            await connection.greeted()
        except BaseException:
            connection.close()
            raise
    tls_ns = secure_ns - connected_ns if tls else 0
    return Connected(connection, clock.now_ns() - began_ns - tls_ns, tls_ns)


async def _shake_hands(connected: socket.socket, endpoint: GrpcEndpoint) -> TlsSession | None:
    if endpoint.tls is None:
        return None
    session = TlsSession(endpoint.tls, endpoint.server_name or endpoint.host)
    await session.shake_hands(connected)
    if session.protocol != "h2":
        message = f"the server at {endpoint.authority} does not speak HTTP/2 over TLS"
        raise ConnectionRefusedError(message)
    return session

"""From an address to an open connection to a gRPC server: TCP, TLS, HTTP/2's settings."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from stepbench.wire import reaching
from stepbench.wire.grpc_connection import GrpcConnection, GrpcLimits

if TYPE_CHECKING:
    import socket
    import ssl

    from stepbench.clock import Clock
    from stepbench.wire.tls_session import TlsSession


class GrpcEndpoint(NamedTuple):
    """
    Where to connect, and within which bounds; see also `Place`.

    authority: what the server is called, `host:port`. tls: a context of `tls_context`. connect_s: for all of it.
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
    context = reaching.tls_context()
    context.set_alpn_protocols(["h2"])
    return context


async def connect(endpoint: GrpcEndpoint, clock: Clock) -> Connected:
    """
    Connect, shake hands, and wait for the server's settings.

    Raises:
        OSError: nobody is there, or nobody whom we trust or who speaks HTTP/2, or not in time (TimeoutError and
            ssl.SSLError are kinds of it).
    """

    def speak(connected: socket.socket, tls: TlsSession | None) -> GrpcConnection:
        if tls is not None and tls.protocol != "h2":
            message = f"the server at {endpoint.authority} does not speak HTTP/2 over TLS"
            raise ConnectionRefusedError(message)
        return GrpcConnection(connected, clock, endpoint.authority, endpoint.limits, tls)

    async with asyncio.timeout(endpoint.connect_s):
        reached = await reaching.reach(endpoint, clock, speak)
        try:
            await reached.spoken.greeted()
        except BaseException:
            reached.spoken.close()
            raise
    times = reached.times(clock.now_ns())
    return Connected(reached.spoken, times.connect_ns + times.authenticate_ns, times.tls_ns)

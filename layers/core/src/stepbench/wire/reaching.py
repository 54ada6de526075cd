"""From an address to a TCP connection, with TLS where it is asked for, each timed by itself; protocols begin there."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from stepbench.wire.tcp import connect_tcp, reset_at_close
from stepbench.wire.tls_session import TlsSession

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from stepbench.clock import Clock

SpokenT = TypeVar("SpokenT")


class ConnectTimes(NamedTuple):
    """
    How long it took until something could be asked; the sum is all of it.

    connect_ns: the name's resolution, where it is one, and TCP. tls_ns: the handshake; 0 without TLS.
    authenticate_ns: whatever a protocol begins with, from the first statement after the handshake to the last answer; 0
        where nothing is.
    """

    connect_ns: int
    tls_ns: int
    authenticate_ns: int


class Place(Protocol):
    """
    Where to connect.

    tls: the context, made once, or None for none. server_name: what the certificate must be for; "": the host.
    reset_at_close: whether the connection ends with a reset, so that its local port is free at once. For those who make
        one after the other: the kernel keeps a port that we have closed for a minute, and has 28,000 of them.
    """

    @property
    def host(self) -> str: ...  # noqa: D102 -- see above
    @property
    def port(self) -> int: ...  # noqa: D102
    @property
    def tls(self) -> ssl.SSLContext | None: ...  # noqa: D102
    @property
    def server_name(self) -> str: ...  # noqa: D102
    @property
    def reset_at_close(self) -> bool: ...  # noqa: D102


class Reached(NamedTuple, Generic[SpokenT]):
    """What now speaks over the connection; `secure_ns`: after the handshake, as `connected_ns` where there is none."""

    spoken: SpokenT
    began_ns: int
    connected_ns: int
    secure_ns: int

    def times(self, ready_ns: int) -> ConnectTimes:
        """With the moment at which the protocol was ready, by the same clock."""
        tcp_ns, tls_ns = self.connected_ns - self.began_ns, self.secure_ns - self.connected_ns
        return ConnectTimes(tcp_ns, tls_ns, ready_ns - self.secure_ns)


def tls_context(ca_file: str | None = None) -> ssl.SSLContext:
    """
    A context that trusts the authorities of a PEM file only, or the system's; to be made once: it takes 20 to 30 ms.

    Raises:
        OSError: there is no such file, or it holds none.
    """
    return ssl.create_default_context(cafile=ca_file)


async def reach(
    place: Place, clock: Clock, speak: Callable[[socket.socket, TlsSession | None], SpokenT]
) -> Reached[SpokenT]:
    """
    Connect and shake hands; the caller bounds it.

    Args:
        place: where.
        clock: for the times.
        speak: makes what owns the socket from then on; while it raises, the socket is closed here.

    Raises:
        OSError: nobody is there, or nobody whom we trust (ssl.SSLError is a kind of it).
    """
    began_ns = clock.now_ns()
    connected = await connect_tcp(place.host, place.port)
    try:
        connected_ns = secure_ns = clock.now_ns()
        if place.reset_at_close:
            reset_at_close(connected)
        tls: TlsSession | None = None
        if place.tls is not None:
            tls = TlsSession(place.tls, place.server_name or place.host)
            await tls.shake_hands(connected)
            secure_ns = clock.now_ns()
        return Reached(speak(connected, tls), began_ns, connected_ns, secure_ns)
    except BaseException:
        connected.close()
        raise

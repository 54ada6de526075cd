"""
Connecting by TCP, with TLS where it is asked for, each timed by itself; protocols begin with the connection.

A name is no way round the ban on metadata services: all its addresses are judged before one is connected to.

TLS goes between memory and memory, so that the one who sends the bytes can stamp the time between encryption and send.
Measured (redis-server 7.0 with TLS on loopback, SET of 889 bytes, one client, uvloop): t2 - t1 29 µs here, 32 µs with
`ssl.SSLSocket`, where t1 lies before the encryption, 34 µs with a uvloop transport; CPU a command 25.5, 26.2, 28.5 µs.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from stepbench.contracts.endpoint import forbidden_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.clock import Clock


_READ_BYTES = 64 * 1024  # of 256 KB the allocation alone takes longer than a small record


class TlsSession:
    """
    The client's side of one connection; `encrypt` and `decrypt` are for after the handshake.

    is_over: the peer has said goodbye. It may wait for ours before it closes the connection.
    """

    def __init__(self, context: ssl.SSLContext, server_name: str) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)
        self.is_over = False

    async def shake_hands(self, connected: socket.socket) -> None:
        """
        Do the handshake over a non-blocking socket; the caller bounds it.

        Raises:
            OSError: the peer ended the connection, or one does not trust the other (ssl.SSLError is a kind of it).
        """
        loop = asyncio.get_running_loop()
        while not self._hands_are_shaken():
            await self._flush(connected)
            data = await loop.sock_recv(connected, _READ_BYTES)
            if not data:
                message = "the peer ended the connection during the TLS handshake"
                raise ConnectionResetError(message)
            self._incoming.write(data)
        await self._flush(connected)

    def encrypt(self, data: bytes | memoryview) -> bytes:
        """Return what to send for it."""
        if data:
            self._session.write(data)
        return self._outgoing.read()

    def decrypt(self, data: bytes) -> bytes:
        """
        Return what it says, with what came before; `is_over` may be true afterwards.

        Raises:
            ssl.SSLError: it is no TLS.
        """
        self._incoming.write(data)
        parts: list[bytes] = []
        try:
            while part := self._session.read(_READ_BYTES):  # a record, which has 16 KB at most
                if not self._incoming.pending:  # as it is of a small answer: to ask once more takes as long as to read
                    return b"".join([*parts, part]) if parts else part
                parts.append(part)
            self.is_over = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_over = True
        return b"".join(parts)

    def decrypt_into(self, view: memoryview, data: bytes | memoryview = b"") -> int:
        """Decrypt into the beginning of a buffer; return how many bytes, 0 for none. What does not fit is kept."""
        if data:
            self._incoming.write(data)
        at = 0
        try:
            while at < len(view):
                count: int = self._session.read(len(view) - at, view[at:])  # type: ignore[assignment] # with a buffer
                if not count:
                    self.is_over = True
                    break
                at += count
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.is_over = True
        return at

    @property
    def protocol(self) -> str:
        """Return the protocol to be spoken over it (ALPN); "" where the two have not agreed on any."""
        return self._session.selected_alpn_protocol() or ""

    @property
    def must_answer(self) -> bool:
        """Return whether TLS itself has something to send (an answer to a key update): `encrypt` returns it, too."""
        return self._outgoing.pending > 0

    def _hands_are_shaken(self) -> bool:
        try:
            self._session.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    async def _flush(self, connected: socket.socket) -> None:
        if data := self._outgoing.read():
            await asyncio.get_running_loop().sock_sendall(connected, data)


ResolvedAddresses = Sequence[tuple[Any, ...]]
"""What `socket.getaddrinfo` returns."""


async def find_addresses(host: str, port: int) -> ResolvedAddresses:
    """
    Return a host's addresses; a name is looked up, on a thread.

    Raises:
        OSError: it has none.
    """
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def connect_tcp(host: str, port: int, found: ResolvedAddresses | None = None) -> socket.socket:
    """
    Return a non-blocking socket connected to one of the host's addresses, tried in order; the caller bounds it.

    Args:
        host: whose.
        port: of TCP.
        found: what `find_addresses` has returned, for a caller whose time must not hold that.

    Raises:
        OSError: none of them answers, or one of them is never to be asked.
    """
    loop = asyncio.get_running_loop()
    problem: OSError | None = None
    found = found or await find_addresses(host, port)
    if reason := forbidden_name(host, (str(address[0]) for *_, address in found)):
        raise ConnectionRefusedError(reason)
    for family, _, _, _, address in found:
        connected = socket.socket(family, socket.SOCK_STREAM)
        try:
            connected.setblocking(False)  # noqa: FBT003 -- the standard library's
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(connected, address)
        except OSError as error:
            connected.close()
            problem = error
        except BaseException:
            connected.close()
            raise
        else:
            return connected
    try:
        raise problem or OSError(f"{host} has no address")
    finally:
        problem = None  # it holds this frame, and the collector that would find the two is off under load


ConnectionT = TypeVar("ConnectionT")


class ConnectTimes(NamedTuple):
    """
    The parts of the time until something could be asked; their sum is all of it.

    connect_ns: the name's resolution, where it is one, and TCP. tls_ns: the handshake; 0 without TLS.
    authenticate_ns: whatever a protocol begins with, from the first statement after the handshake to the last answer; 0
        where nothing is.
    """

    connect_ns: int
    tls_ns: int
    authenticate_ns: int


class ServerAddress(NamedTuple):
    """
    A server to connect to.

    tls: the context, made once, or None for none. server_name: what the certificate must be for; "": the host.
    reset_at_close: whether the connection ends with a reset, so that its local port is free at once. For those who make
        one after the other: one that we end by FIN stays in TIME_WAIT for a minute, and the kernel has 28,000 ports.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    server_name: str = ""
    reset_at_close: bool = False


class Dialled(NamedTuple, Generic[ConnectionT]):
    """A new connection; `secure_ns` is after the handshake, and equals `connected_ns` where there is none."""

    connection: ConnectionT
    began_ns: int
    connected_ns: int
    secure_ns: int

    @property
    def connect_ns(self) -> int:
        """Return how long TCP took, with the name's look-up where the addresses were not given."""
        return self.connected_ns - self.began_ns

    @property
    def tls_ns(self) -> int:
        """Return how long the handshake took; 0 without TLS."""
        return self.secure_ns - self.connected_ns

    def times(self, ready_ns: int) -> ConnectTimes:
        """Return all parts, given the moment at which the protocol was ready, by the same clock."""
        return ConnectTimes(self.connect_ns, self.tls_ns, ready_ns - self.secure_ns)


def tls_context(ca_file: str | None = None) -> ssl.SSLContext:
    """
    Return a context that trusts only a PEM file's authorities, or the system's; to be made once: it takes 20 to 30 ms.

    Raises:
        OSError: there is no such file, or it holds none.
    """
    return ssl.create_default_context(cafile=ca_file)


async def dial(
    server: ServerAddress,
    clock: Clock,
    build: Callable[[socket.socket, TlsSession | None], ConnectionT],
    found: ResolvedAddresses | None = None,
) -> Dialled[ConnectionT]:
    """
    Connect and shake hands; the caller bounds it.

    Args:
        server: where.
        clock: for the times.
        build: makes what owns the socket from then on; if it raises, the socket is closed here.
        found: what `find_addresses` has returned, for a caller whose time must not hold the look-up of a name.

    Raises:
        OSError: nobody is there, or nobody whom we trust (ssl.SSLError is a kind of it).
    """
    began_ns = clock.now_ns()
    connected = await connect_tcp(server.host, server.port, found)
    try:
        connected_ns = secure_ns = clock.now_ns()
        if server.reset_at_close:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        tls: TlsSession | None = None
        if server.tls is not None:
            tls = TlsSession(server.tls, server.server_name or server.host)
            await tls.shake_hands(connected)
            secure_ns = clock.now_ns()
        return Dialled(build(connected, tls), began_ns, connected_ns, secure_ns)
    except BaseException:
        connected.close()
        raise

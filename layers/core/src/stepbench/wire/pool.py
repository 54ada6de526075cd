"""Keep-alive connections to one server, the most recently used first."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from stepbench.wire.connection import Connection, Exchange
from stepbench.wire.http1 import MAX_ANSWER_BYTES
from stepbench.wire.tcp import connect_tcp, find_addresses, reset_at_close

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from stepbench.clock import Clock
    from stepbench.wire.tcp import Found

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Address(NamedTuple):
    """Where to connect. `tls`: whether to speak TLS."""

    host: str
    port: int
    tls: bool

    @property
    def authority(self) -> str:
        """The Host header: a default port is left out, as botocore does when it signs."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS["https" if self.tls else "http"] else f"{host}:{self.port}"


def parse_address(url: str) -> Address:
    """
    The address of an `http://` or `https://` URL; a path is ignored.

    Raises:
        ValueError: no such URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        message = f"{url!r} is no http:// or https:// URL"
        raise ValueError(message)
    return Address(parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme], parts.scheme == "https")


class Limits(NamedTuple):
    """
    What bounds a pool.

    connections: in flight at most; further requests wait in order.
    idle_s: an idle connection older than this is not used again, lest the request cross the server's own closing.
    warm: opened before the load; more are opened as requests overlap.
    answer_bytes: of an answer at most.
    """

    connections: int = 64
    connect_s: float = 5.0
    answer_s: float = 10.0
    idle_s: float = 15.0
    warm: int = 16
    answer_bytes: int = MAX_ANSWER_BYTES


class Pool:
    """
    Connections to one address.

    No request is ever sent twice: a repeated write would be a second event, and its time would be wrong.
    """

    def __init__(self, address: Address, clock: Clock, limits: Limits, tls: ssl.SSLContext | None = None) -> None:
        self.address = address
        self._clock = clock
        self._limits = limits
        self._tls = tls
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._slots = asyncio.Semaphore(limits.connections)

    async def warm(self, connections: int) -> None:
        """
        Connect so many ahead of the load, so that no measured request waits for a handshake.

        Raises:
            OSError: the server cannot be reached (TimeoutError and ssl.SSLError are kinds of it).
        """
        count = min(connections, self._limits.connections) - len(self._idle) - len(self._busy)
        made = await asyncio.gather(*(self._connect() for _ in range(count)), return_exceptions=True)
        self._idle.extend(one for one in made if isinstance(one, Connection))
        for failure in made:
            if isinstance(failure, BaseException):
                raise failure

    async def exchange(self, request: bytes) -> Exchange:
        """Send one request over a connection of its own; never raises for the peer's doings."""
        async with self._slots:
            try:
                connection = self._take() or await self._connect()
            except OSError as error:
                now_ns = self._clock.now_ns()
                return Exchange(now_ns, now_ns, None, f"connect: {type(error).__name__}", sent=False)
            self._busy.add(connection)
            try:
                return await connection.exchange(request, self._limits.answer_s)
            finally:
                self._busy.discard(connection)
                if connection.usable:
                    self._idle.append(connection)

    async def find(self) -> Found:
        """
        The server's addresses, for `alone`; looked up each time, since those of a service change.

        Raises:
            OSError: it has none, or not in time.
        """
        async with asyncio.timeout(self._limits.connect_s):
            return await find_addresses(self.address.host, self.address.port)

    @asynccontextmanager
    async def alone(self, found: Found) -> AsyncIterator[Dialled]:
        """
        A connection for the block's requests only, to what `find` has told: no time of it holds a name's look-up.

        Raises:
            OSError: the server cannot be reached, or not in time.
        """
        async with self._slots:
            dialled = await dial(self.address, self._clock, self._limits, self._tls, found=found, reset=True)
            try:
                yield dialled
            finally:
                dialled.connection.abort()
                await asyncio.sleep(0)  # as in `close`

    async def close(self) -> None:
        """End all connections; requests in flight end as unknown. Safe to call twice."""
        for connection in (*self._idle, *self._busy):
            connection.abort()
        self._idle.clear()
        # Transports report their end in the loop's next turn; until then they would warn of a resource left open.
        await asyncio.sleep(0)

    def _take(self) -> Connection | None:
        oldest_ns = self._clock.now_ns() - int(self._limits.idle_s * 1e9)
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.idle_since_ns >= oldest_ns:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> Connection:
        return (await dial(self.address, self._clock, self._limits, self._tls)).connection


class Dialled(NamedTuple):
    """
    A new connection, and what its making took.

    began_ns: ns since the epoch. connect_ns: TCP, and the name's look-up where the addresses were not given. tls_ns:
        the handshake; 0 without TLS.
    """

    connection: Connection
    began_ns: int
    connect_ns: int
    tls_ns: int


async def dial(  # noqa: PLR0913 -- its parts
    address: Address,
    clock: Clock,
    limits: Limits,
    tls: ssl.SSLContext | None,
    *,
    found: Found | None = None,
    reset: bool = False,
) -> Dialled:
    """
    Connect. `found`: the addresses, where they are known. `reset`: as `reset_at_close`.

    Raises:
        OSError: nobody is there, or nobody whom we trust or may ask, or not in time.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(limits.connect_s):
        began_ns = clock.now_ns()
        connected = await connect_tcp(address.host, address.port, found)
        connected_ns = clock.now_ns()
        if reset:
            reset_at_close(connected)
        try:
            _, connection = await loop.create_connection(
                lambda: Connection(clock, limits.answer_bytes),
                sock=connected,
                ssl=tls if address.tls else None,
                server_hostname=address.host if address.tls else None,
            )
        except BaseException:
            connected.close()
            raise
        ready_ns = clock.now_ns()
    tls_ns = ready_ns - connected_ns if address.tls else 0
    return Dialled(connection, began_ns, ready_ns - began_ns - tls_ns, tls_ns)

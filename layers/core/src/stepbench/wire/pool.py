"""Keep-alive connections to one server, the most recently used first."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from stepbench.contracts.endpoint import forbidden_address
from stepbench.wire.connection import Connection, Exchange

if TYPE_CHECKING:
    import ssl

    from stepbench.clock import Clock

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
    """

    connections: int = 64
    connect_s: float = 5.0
    answer_s: float = 10.0
    idle_s: float = 15.0


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
        host, port, tls = self.address
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._limits.connect_s):
            transport, connection = await loop.create_connection(
                lambda: Connection(self._clock), host, port, ssl=self._tls if tls else None
            )
        peer = transport.get_extra_info("peername")
        if peer and (problem := forbidden_address(peer[0])):
            # A harmless name may resolve to the metadata service.
            connection.abort()
            message = f"{host} {problem}"
            raise ConnectionRefusedError(message)
        return connection

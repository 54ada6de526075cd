"""Keep-alive connections to one server, the most recently used first."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from stepbench.model.errors import CONNECTION_CLOSED
from stepbench.wire.connect import ServerAddress, dial, find_addresses
from stepbench.wire.http1 import MAX_ANSWER_BYTES
from stepbench.wire.http1.connection import ABANDONED, HttpConnection, HttpExchange, wait_for_exchange

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator

    from stepbench.clock import Clock
    from stepbench.wire.connect import Dialled, ResolvedAddresses, TlsSession
    from stepbench.wire.http1.connection import HttpRequest, OnChange

    HttpDialled = Dialled[HttpConnection]

_DEFAULT_PORTS = {"http": 80, "https": 443}


class HttpAddress(NamedTuple):
    """A server's address; `tls`: whether to speak TLS."""

    host: str
    port: int
    tls: bool

    @property
    def authority(self) -> str:
        """Return the Host header; a default port is left out, as botocore does when it signs."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS["https" if self.tls else "http"] else f"{host}:{self.port}"


def parse_address(url: str) -> HttpAddress:
    """
    Return the address of an `http://` or `https://` URL; a path is ignored.

    Raises:
        ValueError: no such URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        message = f"{url!r} is no http:// or https:// URL"
        raise ValueError(message)
    return HttpAddress(parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme], parts.scheme == "https")


class PoolLimits(NamedTuple):
    """
    The bounds of a pool.

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


class HttpPool:
    """
    Connections to one address; requests beyond their number wait in order.

    No request is ever sent twice: a repeated write would be a second event, and its time would be wrong.
    """

    def __init__(
        self, address: HttpAddress, clock: Clock, limits: PoolLimits, tls: ssl.SSLContext | None = None
    ) -> None:
        self.address = address
        self._clock = clock
        self._limits = limits
        self._tls = (tls or ssl.create_default_context()) if address.tls else None
        self._idle_ns = int(limits.idle_s * 1e9)
        self._idle: list[HttpConnection] = []
        self._open: set[HttpConnection] = set()
        self._waiting: deque[HttpRequest] = deque()
        self._dialling: set[asyncio.Task[None]] = set()
        self._single_uses = asyncio.Semaphore(limits.connections)
        self._is_closed = False

    async def warm(self, connections: int) -> None:
        """
        Connect so many ahead of the load, so that no measured request waits for a handshake.

        Raises:
            OSError: the server cannot be reached (TimeoutError and ssl.SSLError are kinds of it).
        """
        count = min(connections, self._limits.connections) - len(self._open) - len(self._dialling)
        opened = await asyncio.gather(*(self._connect() for _ in range(count)), return_exceptions=True)
        for connection in opened:
            if isinstance(connection, HttpConnection):
                self._admit(connection)
        for failure in opened:
            if isinstance(failure, BaseException):
                raise failure

    def send(self, sending: HttpRequest, now_ns: int) -> None:
        """Send one request over a connection of its own, now or when there is one; never raises for the peer."""
        idle, oldest_ns = self._idle, now_ns - self._idle_ns
        while idle:
            connection = idle.pop()
            if connection.usable:
                if connection.idle_since_ns >= oldest_ns:
                    connection.send(sending)
                    return
                connection.abort()
        if self._is_closed:
            sending.finish(now_ns, None, CONNECTION_CLOSED)
            return
        self._waiting.append(sending)
        self._dial_for_waiting()

    def abandon(self, sending: HttpRequest) -> None:
        """Await its answer no longer."""
        if sending.connection is not None:
            sending.connection.abandon(sending)
        elif sending in self._waiting:
            self._waiting.remove(sending)
            sending.finish(self._clock.now_ns(), None, ABANDONED)

    async def exchange(self, request: bytes) -> HttpExchange:
        """Send one request and wait for its answer; never raises for the peer's doings."""
        return await wait_for_exchange(request, lambda sending: self.send(sending, self._clock.now_ns()), self.abandon)

    async def find(self) -> ResolvedAddresses:
        """
        Return the server's addresses, for `single_use`; looked up each time, since those of a service change.

        Raises:
            OSError: it has none, or not in time.
        """
        async with asyncio.timeout(self._limits.connect_s):
            return await find_addresses(self.address.host, self.address.port)

    @asynccontextmanager
    async def single_use(self, found: ResolvedAddresses) -> AsyncIterator[HttpDialled]:
        """
        Yield a connection for the block's requests only; `found` keeps a name's look-up out of its times.

        Raises:
            OSError: the server cannot be reached, or not in time.
        """
        async with self._single_uses:
            dialled = await dial_http(self.address, self._clock, self._limits, self._tls, found=found, reset=True)
            try:
                yield dialled
            finally:
                dialled.connection.abort()

    async def close(self) -> None:
        """End all connections; requests in flight end as unknown, those that wait as unsent. Safe to call twice."""
        self._is_closed = True
        for connection in list(self._open):
            connection.abort()
        self._idle.clear()
        while self._waiting:
            self._waiting.popleft().finish(self._clock.now_ns(), None, CONNECTION_CLOSED)
        for dialling in self._dialling:
            dialling.cancel()
        await asyncio.gather(*self._dialling, return_exceptions=True)

    def _dial_for_waiting(self) -> None:
        """Dial for as many as wait, where there is room."""
        while len(self._dialling) < len(self._waiting):
            if self._is_closed or len(self._open) + len(self._dialling) >= self._limits.connections:
                return
            self._dialling.add(asyncio.create_task(self._dial()))

    async def _dial(self) -> None:
        """Connect for the one that has waited longest, unless another connection was free before."""
        problem = ""
        try:
            connection = await self._connect()
        except (OSError, UnicodeError) as error:  # the latter: of a name that is none
            problem = f"connect: {type(error).__name__}"
        finally:
            self._dialling.discard(asyncio.current_task())
        if not problem:
            self._admit(connection)
        elif self._waiting:
            self._waiting.popleft().finish(self._clock.now_ns(), None, problem)
            self._dial_for_waiting()

    async def _connect(self) -> HttpConnection:
        return (await dial_http(self.address, self._clock, self._limits, self._tls, changed=self._changed)).connection

    def _admit(self, connection: HttpConnection) -> None:
        if self._is_closed:
            connection.abort()
        else:
            self._open.add(connection)
            self._changed(connection)

    def _changed(self, connection: HttpConnection) -> None:
        if not connection.usable:
            self._open.discard(connection)
            self._dial_for_waiting()
        elif self._waiting:
            connection.send(self._waiting.popleft())
        else:
            self._idle.append(connection)


async def dial_http(  # noqa: PLR0913 -- its parts
    address: HttpAddress,
    clock: Clock,
    limits: PoolLimits,
    tls: ssl.SSLContext | None,
    *,
    found: ResolvedAddresses | None = None,
    reset: bool = False,
    changed: OnChange | None = None,
) -> HttpDialled:
    """
    Connect. `found`: the addresses, if known. `reset`: `ServerAddress.reset_at_close`. `changed`: `OnChange`.

    Raises:
        OSError: nobody is there, or nobody whom we trust or may ask, or not in time.
    """

    def build(connected: socket.socket, session: TlsSession | None) -> HttpConnection:
        return HttpConnection(
            connected, clock, session, answer_s=limits.answer_s, most_bytes=limits.answer_bytes, changed=changed
        )

    async with asyncio.timeout(limits.connect_s):
        return await dial(ServerAddress(address.host, address.port, tls, reset_at_close=reset), clock, build, found)

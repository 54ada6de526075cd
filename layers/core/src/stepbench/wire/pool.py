"""Keep-alive connections to one server, the most recently used first."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from stepbench.wire.connection import ABANDONED, Connection, Exchange, awaited
from stepbench.wire.http1 import MAX_ANSWER_BYTES
from stepbench.wire.tcp import connect_tcp, find_addresses, reset_at_close
from stepbench.wire.tls_session import TlsSession

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from stepbench.clock import Clock
    from stepbench.wire.connection import Changed, Sending
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
    Connections to one address; requests beyond their number wait in order.

    No request is ever sent twice: a repeated write would be a second event, and its time would be wrong.
    """

    def __init__(self, address: Address, clock: Clock, limits: Limits, tls: ssl.SSLContext | None = None) -> None:
        self.address = address
        self._clock = clock
        self._limits = limits
        self._tls = (tls or ssl.create_default_context()) if address.tls else None
        self._idle_ns = int(limits.idle_s * 1e9)
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._waiting: deque[Sending] = deque()
        self._dialling: set[asyncio.Task[None]] = set()
        self._alone = asyncio.Semaphore(limits.connections)
        self._is_closed = False

    async def warm(self, connections: int) -> None:
        """
        Connect so many ahead of the load, so that no measured request waits for a handshake.

        Raises:
            OSError: the server cannot be reached (TimeoutError and ssl.SSLError are kinds of it).
        """
        count = min(connections, self._limits.connections) - len(self._open) - len(self._dialling)
        made = await asyncio.gather(*(self._connect() for _ in range(count)), return_exceptions=True)
        for connection in made:
            if isinstance(connection, Connection):
                self._admit(connection)
        for failure in made:
            if isinstance(failure, BaseException):
                raise failure

    def send(self, sending: Sending, now_ns: int) -> None:
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
            sending.ended(now_ns, None, "connection-closed")
            return
        self._waiting.append(sending)
        self._dial_for_waiting()

    def abandon(self, sending: Sending) -> None:
        """Await its answer no longer."""
        if sending.connection is not None:
            sending.connection.abandon(sending)
        elif sending in self._waiting:
            self._waiting.remove(sending)
            sending.ended(self._clock.now_ns(), None, ABANDONED)

    async def exchange(self, request: bytes) -> Exchange:
        """Send one request and wait for its answer; never raises for the peer's doings."""
        return await awaited(request, lambda sending: self.send(sending, self._clock.now_ns()), self.abandon)

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
        async with self._alone:
            dialled = await dial(self.address, self._clock, self._limits, self._tls, found=found, reset=True)
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
            self._waiting.popleft().ended(self._clock.now_ns(), None, "connection-closed")
        for dialling in self._dialling:
            dialling.cancel()
        await asyncio.gather(*self._dialling, return_exceptions=True)

    def _dial_for_waiting(self) -> None:
        """As many as wait, where there is room."""
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
            self._waiting.popleft().ended(self._clock.now_ns(), None, problem)
            self._dial_for_waiting()

    async def _connect(self) -> Connection:
        return (await dial(self.address, self._clock, self._limits, self._tls, changed=self._changed)).connection

    def _admit(self, connection: Connection) -> None:
        if self._is_closed:
            connection.abort()
        else:
            self._open.add(connection)
            self._changed(connection)

    def _changed(self, connection: Connection) -> None:
        if not connection.usable:
            self._open.discard(connection)
            self._dial_for_waiting()
        elif self._waiting:
            connection.send(self._waiting.popleft())
        else:
            self._idle.append(connection)


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
    changed: Changed | None = None,
) -> Dialled:
    """
    Connect. `found`: the addresses, where they are known. `reset`: as `reset_at_close`. `changed`: see `Connection`.

    Raises:
        OSError: nobody is there, or nobody whom we trust or may ask, or not in time.
    """
    async with asyncio.timeout(limits.connect_s):
        began_ns = clock.now_ns()
        connected = await connect_tcp(address.host, address.port, found)
        connected_ns = ready_ns = clock.now_ns()
        try:
            if reset:
                reset_at_close(connected)
            session = None
            if tls is not None:
                session = TlsSession(tls, address.host)
                await session.shake_hands(connected)
                ready_ns = clock.now_ns()
            connection = Connection(
                connected, clock, session, answer_s=limits.answer_s, most_bytes=limits.answer_bytes, changed=changed
            )
        except BaseException:
            connected.close()
            raise
    return Dialled(connection, began_ns, connected_ns - began_ns, ready_ns - connected_ns)

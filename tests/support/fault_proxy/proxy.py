"""The proxy: a listener on loopback, an event loop on a thread of its own, and rules that can be changed."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeVar

from tests.support.fault_proxy.connection import End, ProxiedConnection
from tests.support.fault_proxy.faults import Chooser, Duplicate, Fault, Rule, Stats, Tally, Throttle
from tests.support.fault_proxy.framing import Http1

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from tests.support.fault_proxy.framing import Framing

T = TypeVar("T")

_LOOPBACK = "127.0.0.1"
_LIMIT_S = 10.0
_CHECK_EVERY_S = 0.005


class FaultProxy:
    """
    A proxy, made by `fault_proxy`. Every method may be called from any thread.

    endpoint: `127.0.0.1:port`, where clients connect.
    """

    def __init__(self, upstream: str, framing: Callable[[], Framing]) -> None:
        host, _, port = upstream.removeprefix("http://").partition("/")[0].rpartition(":")
        self._upstream = host, int(port)
        self._framing = framing
        self._chooser = Chooser(())
        self._choosing = threading.Lock()
        self._tally = Tally()
        self._connections: set[ProxiedConnection] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._errors: list[BaseException] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._thread.start()
        listening = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._accept, _LOOPBACK, 0), self._loop)
        self._server = listening.result(_LIMIT_S)
        self.endpoint = f"{_LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"

    @property
    def url(self) -> str:
        """`http://127.0.0.1:port`."""
        return f"http://{self.endpoint}"

    @property
    def open_connections(self) -> int:
        """The number of connections that are open now."""
        return self._on_loop(lambda: len(self._connections))

    def follow(self, *rules: Rule) -> None:
        """
        Apply these rules from the next request on, instead of those before; none: everything passes.

        Raises:
            ValueError: a fault that takes HTTP/1.1, and this proxy passes on something else.
        """
        needs_http = [rule.fault.name for rule in rules if isinstance(rule.fault, Throttle | Duplicate)]
        if needs_http and not isinstance(self._framing(), Http1):
            message = f"{needs_http[0]} takes the framing http1; in front of another protocol, use Limit, Drop or Cut"
            raise ValueError(message)
        with self._choosing:
            self._chooser = Chooser(rules)

    def stats(self) -> Stats:
        """Return what has been done."""
        return self._tally.read()

    def forget(self) -> None:
        """Set the counters to 0."""
        self._tally.clear()

    def cut(self, how: Literal["rst", "fin"] = "rst") -> int:
        """End all connections that are open now; says how many."""
        return self._on_each(lambda connection: connection.cut(how))

    def black_hole(self) -> int:
        """Let nothing through on the connections that are open now, for good; says how many."""
        return self._on_each(lambda connection: connection.black_hole())

    def stall(self) -> int:
        """Hold everything on the connections that are open now until `resume`; nothing is lost. Says how many."""
        return self._on_each(lambda connection: connection.flowing.clear())

    def resume(self) -> None:
        """End `stall`."""
        self._on_each(lambda connection: connection.flowing.set())

    def await_idle(self, limit_s: float = 5.0) -> None:
        """
        Wait until no connection is open.

        Raises:
            TimeoutError: somebody keeps one.
        """
        until = time.monotonic() + limit_s
        while count := self.open_connections:
            if time.monotonic() > until:
                message = f"{count} connections to {self.endpoint} are still open after {limit_s} s"
                raise TimeoutError(message)
            time.sleep(_CHECK_EVERY_S)

    def stop(self) -> None:
        """
        End everything; safe to call twice.

        Raises:
            Exception: what went wrong in the proxy itself, such as bytes that are not of its protocol.
        """
        if not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_LIMIT_S)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_LIMIT_S)
            self._loop.close()
        if self._errors:
            raise self._errors[0]

    async def _end(self) -> None:
        self._server.close()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        for writer in self._writers:
            writer.close()
        for _ in range(3):
            await asyncio.sleep(0)  # transports report their end in one of the loop's next turns

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Coroutine[None, None, None]:
        """Note the connection for `_end`: a task that is cancelled before its first step closes nothing."""
        self._writers.add(writer)
        return self._serve(reader, writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tally.count("connections")
        client = End(reader, writer)
        try:
            await self._connect(client)
        except asyncio.CancelledError:
            pass  # `stop`; the stream server would report it as an error
        except Exception as error:  # noqa: BLE001 -- kept, and raised by `stop`
            self._errors.append(error)
        finally:
            await client.close()
            self._writers.discard(writer)

    async def _connect(self, client: End) -> None:
        connecting = asyncio.create_task(asyncio.open_connection(*self._upstream))
        try:
            server = End(*await asyncio.shield(connecting))
        except OSError:
            client.reset()
            return
        except asyncio.CancelledError:
            connecting.add_done_callback(_close_unused)
            raise
        connection = ProxiedConnection(client, server, self._framing(), self._choose, self._tally)
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)

    def _choose(self, first_bytes: bytes) -> Fault | None:
        with self._choosing:
            return self._chooser.choose(first_bytes)

    def _on_each(self, act: Callable[[ProxiedConnection], None]) -> int:
        def do() -> int:
            for connection in self._connections:
                act(connection)
            return len(self._connections)

        return self._on_loop(do)

    def _on_loop(self, call: Callable[[], T]) -> T:
        async def do() -> T:
            return call()

        return asyncio.run_coroutine_threadsafe(do(), self._loop).result(_LIMIT_S)


def _close_unused(connecting: asyncio.Task[tuple[asyncio.StreamReader, asyncio.StreamWriter]]) -> None:
    """Close a connection that came about just when nobody wanted it any more."""
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result()[1].close()


@contextmanager
def fault_proxy(upstream: str, framing: Callable[[], Framing]) -> Iterator[FaultProxy]:
    """
    Yield a proxy that ends with the block.

    Args:
        upstream: `host:port` of the server, or its `http://` URL; what follows a slash is ignored.
        framing: `http1`, `http2`, `postgresql`, `plain`, or another maker of a `Framing`.
    """
    proxy = FaultProxy(upstream, framing)
    try:
        yield proxy
    finally:
        proxy.stop()

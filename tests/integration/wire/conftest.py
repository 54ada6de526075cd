"""A Valkey of the module's own, connections that end with the test, and both event loops for them."""

from __future__ import annotations

import asyncio
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pytest
import uvloop

from stepbench.clock import AnchoredClock
from stepbench.wire.connect import ServerAddress
from stepbench.wire.resp.connection import RespConnected, connect_resp
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stores.wheels import start_valkey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sized

    from stepbench.wire.resp.connection import RespConnection
    from stepbench_tools.local.stores import LocalStore

LIMIT_S = 20
DEBUG = {"enable-debug-command": "yes"}


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Have whatever speaks RESP or gRPC, HTTP's pool, and streams, tested on both loops that may be used."""
    if item.path.parent.name in {"resp", "http2"} or item.path.name in {"test_pool.py", "test_stream.py"}:
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


async def until(said: Sized, count: int) -> None:
    """Wait until a connection has given so many to a callback."""
    async with asyncio.timeout(LIMIT_S):
        while len(said) < count:  # noqa: ASYNC110 -- it is told on the loop, which has no event for it
            await asyncio.sleep(0)


class _Closable(Protocol):
    def close(self) -> None: ...


ConnectionT = TypeVar("ConnectionT", bound=_Closable)


@contextmanager
def two_ends(
    build: Callable[[socket.socket, AnchoredClock], ConnectionT],
) -> Iterator[tuple[ConnectionT, socket.socket]]:
    """Yield a connection, and its other end, which says what the test has it say."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)  # noqa: FBT003 -- the standard library's
    connection = build(ours, AnchoredClock())
    yield connection, theirs
    connection.close()
    theirs.close()


class Connect(Protocol):
    """Connects to `host:port`; the rest is of `ServerAddress` (`tls`, `server_name`) and `connect_resp`."""

    def __call__(self, address: str, **endpoint: Any) -> Awaitable[RespConnected]:  # noqa: ANN401
        """See above."""
        ...


@pytest.fixture(scope="module")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    """Yield a Valkey from the wheel, DEBUG allowed."""
    store = start_valkey(tmp_path_factory.mktemp("valkey"), DEBUG)
    yield store
    terminate(store.pids)


@pytest.fixture
def start_valkey_with(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LocalStore]]:
    """Yield what starts servers of the test's own, with settings."""
    started: list[LocalStore] = []

    def start(**settings: str) -> LocalStore:
        named = {name.replace("_", "-"): value for name, value in settings.items()}
        started.append(start_valkey(tmp_path_factory.mktemp("valkey"), {**DEBUG, **named}))
        return started[-1]

    yield start
    for store in started:
        terminate(store.pids)


@pytest.fixture
async def connect_to() -> AsyncIterator[Connect]:
    """See `Connect`."""
    made: list[RespConnection] = []

    async def connect_to(address: str, **endpoint: Any) -> RespConnected:  # noqa: ANN401
        host, _, port = address.rpartition(":")
        server = ServerAddress(host, int(port), endpoint.pop("tls", None), endpoint.pop("server_name", ""))
        connected = await connect_resp(server, AnchoredClock(), **endpoint)
        made.append(connected.connection)
        return connected

    yield connect_to
    for connection in made:
        connection.close()

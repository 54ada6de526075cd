"""A Valkey of the module's own, connections that end with the test, and both event loops for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import pytest
import uvloop

from stepbench.clock import AnchoredClock
from stepbench.local.processes import terminate
from stepbench.local.valkey import start_valkey
from stepbench.wire.resp_connect import Connected, RespEndpoint, connect

if TYPE_CHECKING:
    from stepbench.local.processes import LocalStore
    from stepbench.wire.resp_connection import Pushed, RespConnection

DEBUG = {"enable-debug-command": "yes"}


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Whatever speaks RESP or gRPC is tested on both loops that writers may use."""
    if item.path.name.startswith(("test_resp", "test_grpc")):
        return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return {"asyncio": asyncio.new_event_loop}


class Connect(Protocol):
    """Connects to `host:port`; the rest goes into the `RespEndpoint`."""

    def __call__(self, address: str, pushed: Pushed | None = None, **endpoint: Any) -> Awaitable[Connected]:  # noqa: ANN401
        """See above."""
        ...


@pytest.fixture(scope="module")
def valkey_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    """A Valkey from the wheel, DEBUG allowed."""
    store = start_valkey(tmp_path_factory.mktemp("valkey"), DEBUG)
    yield store
    terminate(store.pids)


@pytest.fixture
def start_valkey_with(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LocalStore]]:
    """Starts servers of the test's own, with settings."""
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

    async def connect_to(address: str, pushed: Pushed | None = None, **endpoint: Any) -> Connected:  # noqa: ANN401
        host, _, port = address.rpartition(":")
        connected = await connect(RespEndpoint(host, int(port), **endpoint), AnchoredClock(), pushed)
        made.append(connected.connection)
        return connected

    yield connect_to
    for connection in made:
        connection.close()

"""Servers, another client than ours, and drivers that are closed again, for the tests of Redis."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import valkey
from tests.support.contracts.operations_subject import SILENT_LIMIT_S, contents_of

from stepbench.clock import AnchoredClock
from stepbench.drivers.access import ServerLimits
from stepbench.drivers.redis.operations import RedisOperations
from stepbench.settings import Settings
from stepbench_tools.local.processes import free_port, terminate, wait_until
from stepbench_tools.local.stores.wheels import start_valkey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from stepbench.contracts.plan import TrialSpec
    from stepbench_tools.local.stores import LocalStore

    Start = Callable[..., LocalStore]
    """It starts a server with these settings."""

LIMIT_S = 30
LIMITS = ServerLimits()
SHORT = ServerLimits(connect_s=2, operate_s=SILENT_LIMIT_S, control_s=5)
REDIS = {"store": "redis"}
CLUSTER = {**REDIS, "cluster": True}


def driver_of(spec: TrialSpec, endpoint: str, limits: ServerLimits = LIMITS, **more: str) -> RedisOperations:
    """Return a driver for the server there."""
    settings = Settings(results_table="unused", results_bucket="unused", redis_endpoint=endpoint, **more)
    return RedisOperations(spec, settings, AnchoredClock(), limits=limits)


@asynccontextmanager
async def driving(spec: TrialSpec, endpoint: str, limits: ServerLimits = LIMITS) -> AsyncIterator[RedisOperations]:
    """Yield a driver that is prepared and open, and close it; what it has written stays."""
    driver = driver_of(spec, endpoint, limits)
    async with asyncio.timeout(LIMIT_S):
        await driver.prepare()
        await driver.open()
        await driver.warm_up()
        try:
            yield driver
        finally:
            await driver.close()


@contextmanager
def other_client(store: LocalStore, password: str | None = None) -> Iterator[Any]:
    """Yield a client by which a test sees what the driver did."""
    host, _, port = store.endpoint.rpartition(":")
    client: Any = valkey.Valkey(host, int(port), password=password, socket_timeout=LIMIT_S)
    try:
        yield client
    finally:
        client.close()


def key_of(spec: TrialSpec, record: int) -> str:
    """Return the key of a preloaded record."""
    return contents_of(spec).preloaded(record).key


@contextmanager
def servers(directory: Callable[[str], Any]) -> Iterator[Start]:
    """Yield what starts servers, and end them with the block; `directory` makes a new one."""
    started: list[LocalStore] = []

    def start(**named: str) -> LocalStore:
        settings = {name.replace("_", "-"): value for name, value in named.items()}
        started.append(start_valkey(directory("valkey"), settings))
        return started[-1]

    try:
        yield start
    finally:
        for store in started:
            terminate(store.pids)


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    """Start a Valkey from the wheel, for all tests that neither end it nor set it up."""
    with servers(tmp_path_factory.mktemp) as start:
        yield start()


@pytest.fixture
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Return what starts servers of the test's own."""
    with servers(tmp_path_factory.mktemp) as start:
        yield start


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[LocalStore]]:
    """Start two nodes with half of the slots each; a new cluster takes two seconds until it serves."""
    with ExitStack() as stack:
        start = stack.enter_context(servers(tmp_path_factory.mktemp))
        buses = [free_port() for _ in range(2)]  # without being told, the server takes an ephemeral one
        stores = [start(cluster_enabled="yes", cluster_port=str(bus)) for bus in buses]
        first, second = (stack.enter_context(other_client(store)) for store in stores)
        first.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
        second.execute_command("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
        host, _, port = stores[1].endpoint.rpartition(":")
        first.execute_command("CLUSTER", "MEET", host, port, buses[1])
        wait_until("the cluster serves", lambda: all(map(_serves, (first, second))), timeout_s=LIMIT_S)
        yield stores


def _serves(client: Any) -> bool:  # noqa: ANN401 -- a client without types
    return b"cluster_state:ok" in client.execute_command("CLUSTER INFO ")

"""Servers, another client than ours, and drivers that are closed again, for the tests of Redis."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import valkey

from stepbench.clock import AnchoredClock
from stepbench.drivers.redis.access import RedisLimits
from stepbench.drivers.redis.operations import RedisOperations
from stepbench.local.processes import terminate
from stepbench.local.stores.valkey import start_valkey
from stepbench.settings import Settings
from stepbench.testing.contracts.operations_subject import SILENT_LIMIT_S, contents_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from stepbench.contracts.plan import TrialSpec
    from stepbench.local.processes import LocalStore

    Start = Callable[..., LocalStore]
    """It starts a server with these settings."""

LIMIT_S = 30
LIMITS = RedisLimits()
SHORT = RedisLimits(connect_s=2, operate_s=SILENT_LIMIT_S, control_s=5)
REDIS = {"store": "redis"}


def driver_of(spec: TrialSpec, endpoint: str, limits: RedisLimits = LIMITS, **more: str) -> RedisOperations:
    """Return a driver for the server there."""
    settings = Settings(results_table="unused", results_bucket="unused", redis_endpoint=endpoint, **more)
    return RedisOperations(spec, settings, AnchoredClock(), limits=limits)


@asynccontextmanager
async def driving(spec: TrialSpec, endpoint: str, limits: RedisLimits = LIMITS) -> AsyncIterator[RedisOperations]:
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

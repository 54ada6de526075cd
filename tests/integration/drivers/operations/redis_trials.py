"""What the tests of Redis share: servers of a test's own, another client than ours, drivers that are closed again."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import valkey

from stepbench.clock import AnchoredClock
from stepbench.drivers.operations.redis import RedisOperations
from stepbench.drivers.operations.redis_access import RedisLimits
from stepbench.local.processes import terminate
from stepbench.local.valkey import start_valkey
from stepbench.settings import Settings
from stepbench.testing.operable_subject import SILENT_LIMIT_S, contents_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from stepbench.contracts.plan import TrialSpec
    from stepbench.local.processes import LocalStore

    Start = Callable[..., LocalStore]
    """Starts a server with these settings."""

LIMIT_S = 30
LIMITS = RedisLimits()
SHORT = RedisLimits(connect_s=2, operate_s=SILENT_LIMIT_S, control_s=5)
REDIS = {"store": "redis"}


def driver_of(spec: TrialSpec, endpoint: str, limits: RedisLimits = LIMITS, **more: str) -> RedisOperations:
    """A driver for the server there."""
    settings = Settings(results_table="unused", results_bucket="unused", redis_endpoint=endpoint, **more)
    return RedisOperations(spec, settings, AnchoredClock(), limits=limits)


@asynccontextmanager
async def driving(spec: TrialSpec, endpoint: str, limits: RedisLimits = LIMITS) -> AsyncIterator[RedisOperations]:
    """Prepared, open, and afterwards closed; what it has written stays."""
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
    """Looks behind the driver's back."""
    host, _, port = store.endpoint.rpartition(":")
    client: Any = valkey.Valkey(host, int(port), password=password, socket_timeout=LIMIT_S)
    try:
        yield client
    finally:
        client.close()


def key_of(spec: TrialSpec, record: int) -> str:
    """Of a preloaded record."""
    return contents_of(spec).preloaded(record).key


@contextmanager
def servers(directory: Callable[[str], Any]) -> Iterator[Start]:
    """As many as are asked for, ended with the block; `directory` makes a new one."""
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

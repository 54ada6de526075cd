"""A store's way through a trial, for tests that hold a driver in their hands."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from stepbench.drivers.protocol import Store

StoreT = TypeVar("StoreT", bound="Store")
READY_LIMIT_S = 60
TEAR_DOWN_LIMIT_S = 120


async def until_ready(driver: Store) -> None:
    """Poll `ready`; a TimeoutError fails the test."""
    async with asyncio.timeout(READY_LIMIT_S):
        while not await driver.ready():  # noqa: ASYNC110 -- a store has no event to wait for
            await asyncio.sleep(0.05)


async def until_torn_down(driver: Store) -> None:
    """Call `tear_down` until it says done; a TimeoutError fails the test."""
    async with asyncio.timeout(TEAR_DOWN_LIMIT_S):
        while not await driver.tear_down():  # noqa: ASYNC110 -- a store has no event to wait for
            await asyncio.sleep(0.05)


@asynccontextmanager
async def running(driver: StoreT) -> AsyncIterator[StoreT]:
    """The driver prepared, ready and open; torn down and closed at the end, also after a failure."""
    try:
        await driver.prepare()
        await until_ready(driver)
        await driver.open()
        yield driver
    finally:
        await until_torn_down(driver)
        await driver.close()

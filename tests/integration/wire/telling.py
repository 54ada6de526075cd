"""For tests of connections that tell a callback what has come: waiting until they have."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sized

LIMIT_S = 20


async def until(said: Sized, count: int) -> None:
    """So many have been told."""
    async with asyncio.timeout(LIMIT_S):
        while len(said) < count:  # noqa: ASYNC110 -- it is told on the loop, which has no event for it
            await asyncio.sleep(0)

"""What has begun is waited for: a caller who is told to stop may clear up only when nothing more can come of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")


async def to_its_end(work: Awaitable[T]) -> T:
    """
    What the work returns or raises; being cancelled meanwhile, however often, takes effect at its end.

    For what a cancellation would only stop watching: a call in a thread goes on all the same, and so does what a
    server has been sent. Give it nothing without a time limit of its own.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # nobody will ask for it, and asyncio would complain
    raise cancelled

"""Work that has begun is waited for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stepbench.model.pending import uncancellable


async def test_without_a_cancellation_it_is_the_work_itself() -> None:
    """It passes results and errors on alike."""

    async def work(error: Exception | None = None) -> int:
        if error is not None:
            raise error
        return 7

    assert await uncancellable(work()) == 7
    with pytest.raises(KeyError):
        await uncancellable(work(KeyError("none")))


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("error", [None, KeyError("nobody asks for it any more")])
async def test_a_cancellation_takes_effect_at_the_end(times: int, error: Exception | None) -> None:
    """Sooner, the caller would clear up before there is anything to clear up."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
    work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(uncancellable(work))
    for _ in range(times):
        await asyncio.sleep(0)
        waiting.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert not work.done()
    if error is None:
        work.set_result(None)
    else:
        work.set_exception(error)
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    del work
    assert complaints == []


async def test_work_that_is_cancelled_itself_ends_its_caller() -> None:
    """A loop that is closed does so to all of its tasks."""
    work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(uncancellable(work))
    await asyncio.sleep(0)
    work.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled()

"""
The records that are there before the load, as `prepare` writes them: in batches, some at a time, in ascending order.

They are written in waves, and no wave is begun before the last is complete. So the last record of a wave, once it is
there, says that all waves before it are, and a retried PrepareTarget finds by some twenty reads where it has to go on.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stepbench.drivers.finishing import to_its_end
from stepbench.errors import TargetUnavailableError
from stepbench.load.operations import Contents

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Operation

    WriteBatch = Callable[[Sequence[Operation]], Awaitable[str]]
    """Writes all of them, whether they are there or not; "" or the store's error. Bounded in time."""
    Exists = Callable[[str], Awaitable[bool]]
    """Whether a record with this key is there; may raise TargetUnavailableError."""

PRELOAD_FOR_S = 540.0
"""PrepareTarget has 15 minutes, of which making a table and waiting until it is ready may take 5."""
BATCHES_PER_LANE = 8
"""In a wave: enough that lanes seldom wait for each other, and few to be written again by who goes on."""
_ATTEMPTS = 6


async def preload(  # noqa: PLR0913 -- what, how, and two sizes that differ between stores
    spec: TrialSpec,
    write_batch: WriteBatch,
    clock: Clock,
    *,
    batch: int,
    lanes: int,
    exists: Exists | None = None,
) -> None:
    """
    Write the workload's records; a refused or unanswered batch again, ever more slowly.

    It ends, by whatever, when the batches under way have: what a server has taken it writes all the same, and a caller
    who clears up next would not see it yet.

    Args:
        spec: of an operations trial.
        write_batch: for at most `batch` records, `lanes` calls at a time.
        clock: for pauses, and for the limit of `PRELOAD_FOR_S`.
        batch: records at a time.
        lanes: batches at a time.
        exists: lets a retry go on where the last attempt was; without it, all is written again.

    Raises:
        TargetUnavailableError: a batch could not be written in six attempts, or time is up. What has been written
            stays, and the next call goes on.
    """
    workload = spec.plan.workload
    if workload is None or workload.records == 0:
        return
    contents = Contents(workload, spec.tag)
    deadline_ns = clock.now_ns() + int(PRELOAD_FOR_S * 1e9)
    wave = batch * lanes * BATCHES_PER_LANE
    first = 0 if exists is None else await first_missing(contents, workload.records, wave, exists)
    for start in range(first, workload.records, wave):
        numbers = range(start, min(start + wave, workload.records))
        await _Wave(contents, numbers, write_batch, clock, deadline_ns).run(batch, lanes)


async def first_missing(contents: Contents, records: int, wave: int, exists: Exists) -> int:
    """The first record of the first wave that may be incomplete; 0 if none has been written."""
    begun, complete = -1, -(-records // wave)
    while complete - begun > 1:
        middle = (begun + complete) // 2
        last = min((middle + 1) * wave, records) - 1
        if await exists(contents.preloaded(last).key):
            begun = middle
        else:
            complete = middle
    return max(0, begun) * wave


class _Wave:
    """The records with these numbers."""

    def __init__(
        self, contents: Contents, numbers: range, write_batch: WriteBatch, clock: Clock, deadline_ns: int
    ) -> None:
        self._contents = contents
        self._numbers = numbers
        self._write_batch = write_batch
        self._clock = clock
        self._deadline_ns = deadline_ns

    async def run(self, batch: int, lanes: int) -> None:
        """Write them; the first failure ends all lanes, each after the batch that it is at."""
        portions = (self._numbers[at : at + batch] for at in range(0, len(self._numbers), batch))

        async def lane() -> None:
            for portion in portions:
                await self._insist([self._contents.preloaded(number) for number in portion])

        tasks = [asyncio.create_task(lane()) for _ in range(min(lanes, -(-len(self._numbers) // batch)))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _insist(self, records: Sequence[Operation]) -> None:
        error = ""
        for attempt in range(_ATTEMPTS):
            if self._clock.now_ns() >= self._deadline_ns:
                raise self._failure(records[0].key, error or f"not done within {PRELOAD_FOR_S:.0f} s")
            error = await to_its_end(self._write_batch(records))
            if not error:
                return
            await self._clock.sleep_async(0.05 * 2**attempt)
        raise self._failure(records[0].key, error)

    def _failure(self, key: str, error: str) -> TargetUnavailableError:
        done = self._numbers.start
        message = (
            f"the record {key[:60]!r} could not be preloaded: {error}; {done:,} are written, and a retry goes on from "
            "there; raise the store's capacity, or lower workload.records"
        )
        return TargetUnavailableError(message)

"""
The records that are there before the load, as `prepare` writes them: in batches, some at a time.

Triggers need the keys that updates overwrite and deletes remove; operations need the workload's records. The latter are
written in waves, in ascending order, and no wave is started before the last is complete. So the last record of a wave,
once it is there, says that all waves before it are, and a retried PrepareTarget finds by some twenty reads where it has
to go on.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from stepbench.contracts.identity import CANARY_PHASE, EventId, delete_key, update_key
from stepbench.contracts.workload import Kind
from stepbench.errors import TargetUnavailableError, TargetUnreachableError
from stepbench.model.errors import TIMEOUT
from stepbench.model.pending import result_of, uncancellable
from stepbench.model.request import Outcome, Request
from stepbench.workload.arrivals import slice_counts
from stepbench.workload.operations import Contents
from stepbench.workload.payloads import all_matching

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.model.request import PendingRequest
    from stepbench.workload.values import PreparedValues

    WriteBatch = Callable[[Sequence[Request]], Awaitable[str]]
    """Writes all of them, whether they are there or not; "" or the store's error. Bounded in time."""
    Exists = Callable[[str], Awaitable[bool]]
    """It returns whether a record with this key is there; may raise TargetUnavailableError."""

PRELOAD_WRITER = 0xFFFF
"""Writer number of preloaded values: no real writer has it, so AwaitTarget's own canaries stay apart from them."""
PRELOAD_FOR_S = 540.0
"""PrepareTarget has 15 minutes, of which making a table and waiting until it is ready may take 5."""
BATCHES_PER_LANE = 8
"""Batches of a lane in a wave: enough that lanes seldom wait for each other, and few to be written again by a retry."""
_ATTEMPTS = 6
BATCH_FOR_S = 60.0
"""How long a batch may take with all its attempts: six that time out take 3 minutes, and a retry as long again."""
_NEVER_NS = 2**63
_CAPACITY = "raise the store's capacity"


def preloads(spec: TrialSpec, values: PreparedValues | None = None) -> Iterator[Request]:
    """
    Yield one write per distinct key of updates, or per event of deletes; none for puts.

    values: the rows that are written, one after the other, where the trial has any.

    The values carry a canary's identity: where a store's trigger fires on them all the same, they arrive as canaries,
    outside the accounting, and not as malformed events.
    """
    record = spec.offered.record
    for index, key in enumerate(_keys(spec)):
        yield preloaded(spec.tag, key, index, record.value_bytes, values)


def preloaded(tag: str, key: str, index: int, value_bytes: int, values: PreparedValues | None = None) -> Request:
    """Return the write of a value that is no event, wherever it may turn up, or of a row."""
    event = EventId(tag, CANARY_PHASE, PRELOAD_WRITER, 0, 0, index & 0xFFFF_FFFF).text()
    if values is not None:
        return values.request(key, event, index)
    return Request(Kind.INSERT, key, event.encode().ljust(value_bytes, b"x"))


def _keys(spec: TrialSpec) -> Iterator[str]:
    plan = spec.offered
    if plan.record.operation != "delete":
        yield from (update_key(spec.tag, n, plan.record.key_bytes) for n in range(plan.record.distinct_keys or 0))
        return
    for phase, writer in itertools.product(range(len(plan.phases)), range(plan.writers)):
        for slice_, count in enumerate(slice_counts(plan, phase, writer).tolist()):
            first = EventId(spec.tag, phase, writer, slice_, 0, 0)
            for sequence, matching in enumerate(all_matching(plan.record.matching_share, count).tolist()):
                yield delete_key(first._replace(sequence=sequence, matching=matching), plan.record.key_bytes)


async def preload_keys(  # noqa: PLR0913 -- as `preload_records`, and the rows
    spec: TrialSpec,
    write_batch: WriteBatch,
    clock: Clock,
    *,
    batch: int = 1,
    lanes: int = 16,
    values: PreparedValues | None = None,
) -> None:
    """
    Write the keys of `preloads`; the arguments, the end and the error are those of `preload_records`.

    A retry writes all of them again.
    """
    writes = preloads(spec, values)
    portions = iter(lambda: list(itertools.islice(writes, batch)), [])
    await _Wave(write_batch, clock, _NEVER_NS, _CAPACITY).run(portions, lanes)


def write_each(prepare_request: Callable[[Request], PendingRequest]) -> WriteBatch:
    """Return a `WriteBatch` for batches of one, which writes them as a driver's `prepare_request` does."""

    async def write(records: Sequence[Request]) -> str:
        (record,) = records
        result = await result_of(prepare_request(record))
        return "" if result.outcome is Outcome.OK else result.error or result.outcome.name

    return write


async def preload_records(  # noqa: PLR0913 -- what, how, and two sizes that differ between stores
    spec: TrialSpec, write_batch: WriteBatch, clock: Clock, *, batch: int, lanes: int, exists: Exists | None = None
) -> None:
    """
    Write the workload's records; a refused or unanswered batch again, ever more slowly.

    It ends, in whatever way, when the batches under way have ended: what a server has taken it writes all the same, and
    a caller who clears up next would not see it yet.

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
        TargetUnreachableError: none of a batch's attempts, over a minute, had an answer; a retry would not have one.
    """
    workload = spec.offered.workload
    if workload is None or workload.records == 0:
        return
    contents = Contents(workload, spec.tag)
    deadline_ns = clock.now_ns() + int(PRELOAD_FOR_S * 1e9)
    wave = batch * lanes * BATCHES_PER_LANE
    first = 0 if exists is None else await first_missing(contents, workload.records, wave, exists)
    for start in range(first, workload.records, wave):
        numbers = range(start, min(start + wave, workload.records))
        remedy = f"{start:,} are written, and a retry goes on from there; {_CAPACITY}, or lower workload.records"
        portions = (
            [contents.preloaded(number) for number in numbers[at : at + batch]] for at in range(0, len(numbers), batch)
        )
        await _Wave(write_batch, clock, deadline_ns, remedy).run(portions, lanes)


async def first_missing(contents: Contents, records: int, wave: int, exists: Exists) -> int:
    """Return the first record of the first wave that may be incomplete; 0 if none has been written."""
    started, complete = -1, -(-records // wave)
    while complete - started > 1:
        middle = (started + complete) // 2
        last = min((middle + 1) * wave, records) - 1
        if await exists(contents.preloaded(last).key):
            started = middle
        else:
            complete = middle
    return max(0, started) * wave


class _Wave:
    """
    Batches that are written before any other is.

    Args:
        write_batch: for one of them.
        clock: for pauses.
        deadline_ns: no batch is started after it.
        remedy: what to do where a batch cannot be written.
    """

    def __init__(self, write_batch: WriteBatch, clock: Clock, deadline_ns: int, remedy: str) -> None:
        self._write_batch = write_batch
        self._clock = clock
        self._deadline_ns = deadline_ns
        self._remedy = remedy

    async def run(self, portions: Iterator[Sequence[Request]], lanes: int) -> None:
        """Write them; the first failure ends all lanes, each after the batch that it is at."""

        async def write_lane() -> None:
            for portion in portions:
                await self._write(portion)

        tasks = [asyncio.create_task(write_lane()) for _ in range(lanes)]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _write(self, records: Sequence[Request]) -> None:
        errors: list[str] = []
        gives_up_ns = self._clock.now_ns() + int(BATCH_FOR_S * 1e9)
        while len(errors) < _ATTEMPTS and self._clock.now_ns() < min(gives_up_ns, self._deadline_ns):
            error = await uncancellable(self._write_batch(records))
            if not error:
                return
            errors.append(error)
            await self._clock.sleep_async(0.025 * 2 ** len(errors))
        reason = errors[-1] if errors else f"not done within {PRELOAD_FOR_S:.0f} s"
        message = f"the record {records[0].key[:60]!r} could not be preloaded: {reason}; {self._remedy}"
        is_silent = set(errors) == {TIMEOUT} and self._clock.now_ns() >= gives_up_ns
        raise (TargetUnreachableError if is_silent else TargetUnavailableError)(message)

"""The keys that updates overwrite and deletes remove, as `prepare` writes them before the load begins."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from stepbench.contracts.identity import CANARY_PHASE, EventId, delete_key, update_key
from stepbench.drivers.finishing import to_its_end
from stepbench.drivers.protocol import Outcome, Write, Written
from stepbench.errors import TargetUnavailableError
from stepbench.load.arrivals import slice_counts
from stepbench.load.matching import all_matching

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec

PRELOAD_WRITER = 0xFFFF
"""Writer number of preloaded values: no real writer has it, so AwaitTarget's own canaries stay apart from them."""
_LANES = 16
_ATTEMPTS = 6


def preloads(spec: TrialSpec) -> Iterator[Write]:
    """
    One write per distinct key of updates, or per event of deletes; none for puts.

    The values carry a canary's identity: where a store's trigger fires on them all the same, they arrive as canaries,
    outside the accounting, and not as malformed events.
    """
    record = spec.plan.record
    for index, key in enumerate(_keys(spec)):
        yield Write(key, preloaded_value(spec.tag, index, record.value_bytes))


def preloaded_value(tag: str, index: int, value_bytes: int) -> bytes:
    """A value that is no event, wherever it may turn up."""
    event = EventId(tag, CANARY_PHASE, PRELOAD_WRITER, 0, 0, index & 0xFFFF_FFFF)
    return event.text().encode().ljust(value_bytes, b"x")


def _keys(spec: TrialSpec) -> Iterator[str]:
    plan = spec.plan
    if plan.record.operation != "delete":
        yield from (update_key(spec.tag, n, plan.record.key_bytes) for n in range(plan.record.distinct_keys or 0))
        return
    for phase, writer in itertools.product(range(len(plan.phases)), range(plan.writers)):
        for slice_, count in enumerate(slice_counts(plan, phase, writer).tolist()):
            first = EventId(spec.tag, phase, writer, slice_, 0, 0)
            for sequence, matching in enumerate(all_matching(plan.record.matching_share, count).tolist()):
                yield delete_key(first._replace(sequence=sequence, matching=matching), plan.record.key_bytes)


async def preload(spec: TrialSpec, write: Callable[[Write], Awaitable[Written]], clock: Clock) -> None:
    """
    Write all of them, some at a time; a refused or unanswered one again, ever more slowly.

    It ends, by whatever, when the writes under way have: who clears up next would not see yet what a store has taken.

    Raises:
        TargetUnavailableError: one key could not be written in six attempts.
    """
    remaining = preloads(spec)

    async def lane() -> None:
        for each in remaining:
            await _insist(each, write, clock)

    lanes = [asyncio.create_task(lane()) for _ in range(_LANES)]
    try:
        await asyncio.gather(*lanes)
    finally:
        for each in lanes:
            each.cancel()
        await asyncio.wait(lanes)


async def _insist(each: Write, write: Callable[[Write], Awaitable[Written]], clock: Clock) -> None:
    for attempt in range(_ATTEMPTS):
        last = await to_its_end(write(each))
        if last.outcome is Outcome.OK:
            return
        await clock.sleep_async(0.05 * 2**attempt)
    message = f"the key {each.key[:60]!r} could not be preloaded: {last.error}; raise the store's capacity"
    raise TargetUnavailableError(message)

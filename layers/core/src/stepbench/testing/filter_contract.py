"""
What a driver has to do whose store filters events (`record.matching_share`), against the real server.

As with `DriverContract`, a test module subclasses `FilterContract` and overrides the fixture `subject`; its `subject`
lets the trigger deliver, too. A driver with nothing but `write` and a trigger could pass `DriverContract` and hold back
everything, or nothing.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import pytest

from stepbench.contracts.identity import CANARY_PHASE, EventId, delete_key, parse_event_id, put_key
from stepbench.drivers.preload import preloaded_value
from stepbench.drivers.protocol import Outcome, Write
from stepbench.load.matching import all_matching
from stepbench.load.payloads import Payloads
from stepbench.testing.driver_subject import KEY_BYTES, VALUE_BYTES, Subject, contract_spec
from stepbench.testing.store_life import running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Watchable

    Operation = Literal["put", "update", "delete"]
    Arrived = Callable[[], Awaitable[list[tuple[int, int]]]]
    """Phase and sequence of everything that the trigger has delivered so far, repeats too."""

EVENTS = 12
SHARE = 0.5
DELIVERY_LIMIT_S = 60


class FilterSubject(Subject, Protocol):
    """A store that filters, and a trigger that is let to deliver."""

    def receiving(self, spec: TrialSpec) -> AbstractAsyncContextManager[Arrived]:
        """Entered once the driver is prepared and ready, and left before it is torn down."""
        ...


class FilterContract:
    """The tests. `operations`: those for which a plan may ask the store for a filter."""

    operations: ClassVar[tuple[Operation, ...]] = ("put", "update", "delete")

    @pytest.fixture
    def subject(self) -> FilterSubject:
        """Overridden by each driver's tests."""
        raise NotImplementedError

    async def test_the_filter_lets_the_matching_and_the_canaries_pass(self, subject: FilterSubject) -> None:
        """A matching event that is held back would count as lost; a trial whose canaries are is never ready."""
        for operation in self.operations:
            assert await _delivered(subject, operation, SHARE) == [*_places(SHARE), (CANARY_PHASE, EVENTS)], operation

    async def test_without_a_share_there_is_no_filter(self, subject: FilterSubject) -> None:
        """What is compared with a filter is the same trial without one."""
        assert await _delivered(subject, "put", 1) == [*_places(1), (CANARY_PHASE, EVENTS)]


def _places(share: float) -> list[tuple[int, int]]:
    return [(0, sequence) for sequence, matches in enumerate(all_matching(share, EVENTS).tolist()) if matches]


async def _delivered(subject: FilterSubject, operation: Operation, share: float) -> list[tuple[int, int]]:
    """What arrived, each once. The others are written first, so that they would be there before the matching."""
    spec = contract_spec(subject.target, operation, 3 if operation == "update" else None, matching_share=share)
    payloads = Payloads(spec.plan.record, EventId(spec.tag, 0, 0, 0, 0, 0), EVENTS, seed=1)
    order = sorted(range(EVENTS), key=lambda sequence: bool((0, sequence) in _places(share)))
    async with running(subject.driver(spec)) as driver, subject.receiving(spec) as arrived:
        writes = [*map(payloads.write, order), *_canary(spec, operation)]
        outcomes = [(await driver.write(write)).outcome for write in writes]
        assert set(outcomes) == {Outcome.OK}
        async with asyncio.timeout(DELIVERY_LIMIT_S):
            while not {*_places(share), (CANARY_PHASE, EVENTS)} <= set(await arrived()):  # noqa: ASYNC110 -- a bucket
                await asyncio.sleep(0.05)
        return sorted(set(await arrived()))


def _canary(spec: TrialSpec, operation: Operation) -> list[Write]:
    """As `AwaitTarget` sends it."""
    event = EventId(spec.tag, CANARY_PHASE, 0, 0, 0, EVENTS)
    if operation != "delete":
        return [Write(put_key(event, KEY_BYTES), event.text().encode().ljust(VALUE_BYTES, b"."))]
    key = delete_key(event, KEY_BYTES)
    return [Write(key, preloaded_value(spec.tag, EVENTS, VALUE_BYTES)), Write(key, b"", delete=True)]


@asynccontextmanager
async def watching(watcher: Watchable) -> AsyncIterator[Arrived]:
    """For a subject whose trigger is a watch: held from now on by a driver of its own."""
    seen: list[tuple[int, int]] = []
    established = asyncio.Event()

    async def watch() -> None:
        async for batch in watcher.watch(None):
            established.set()
            events = [parse_event_id(change.value.decode()) for change in batch.changes]
            seen.extend((event.phase, event.sequence) for event in events if event)

    async def arrived() -> list[tuple[int, int]]:
        if watch_task.done():
            watch_task.result()
        return list(seen)

    watch_task = asyncio.create_task(watch())
    try:
        async with asyncio.timeout(DELIVERY_LIMIT_S):
            await established.wait()
        yield arrived
    finally:
        watch_task.cancel()
        await asyncio.wait({watch_task})

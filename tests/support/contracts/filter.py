"""
What a driver has to do whose store filters events (`record.matching_share`), against the real server.

As with `TriggerContract`, a test module subclasses `FilterContract` and overrides the fixture `subject`; its `subject`
lets the trigger deliver, too. A driver with nothing but `write` and a trigger could pass `TriggerContract` and hold
back everything, or nothing.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import pytest
from tests.support.contracts.life import running
from tests.support.contracts.trigger_subject import KEY_BYTES, VALUE_BYTES, TriggerSubject, contract_spec

from stepbench.contracts.identity import CANARY_PHASE, EventId, delete_key, parse_event_id, put_key
from stepbench.contracts.workload import Kind
from stepbench.drivers.preload import preloaded
from stepbench.model.pending import perform
from stepbench.model.request import Outcome, Request
from stepbench.workload.payloads import Payloads, all_matching

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


class FilterSubject(TriggerSubject, Protocol):
    """A store that filters, and whose trigger can be let deliver."""

    def receiving(self, spec: TrialSpec) -> AbstractAsyncContextManager[Arrived]:
        """Entered once the driver is prepared and ready, and left before it is torn down."""
        ...


class FilterContract:
    """The tests of a filter. `operations`: those for which a plan may ask the store for one."""

    operations: ClassVar[tuple[Operation, ...]] = ("put", "update", "delete")

    @pytest.fixture
    def subject(self) -> FilterSubject:
        """Return the store; each driver's tests override it."""
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
    """Return what arrived, each once. Events to be held back are written first: they would arrive before the others."""
    spec = contract_spec(subject.target, operation, 3 if operation == "update" else None, matching_share=share)
    payloads = Payloads(spec.offered.record, EventId(spec.tag, 0, 0, 0, 0, 0), EVENTS, seed=1)
    order = sorted(range(EVENTS), key=lambda sequence: bool((0, sequence) in _places(share)))
    async with running(subject.driver(spec)) as driver, subject.receiving(spec) as arrived:
        writes = [*map(payloads.write, order), *_canary(spec, operation)]
        outcomes = [(await perform(driver, write)).outcome for write in writes]
        assert set(outcomes) == {Outcome.OK}
        async with asyncio.timeout(DELIVERY_LIMIT_S):
            while not {*_places(share), (CANARY_PHASE, EVENTS)} <= set(await arrived()):  # noqa: ASYNC110 -- a bucket
                await asyncio.sleep(0.05)
        return sorted(set(await arrived()))


def _canary(spec: TrialSpec, operation: Operation) -> list[Request]:
    """Return the requests of a canary, as `AwaitTarget` sends it."""
    event = EventId(spec.tag, CANARY_PHASE, 0, 0, 0, EVENTS)
    if operation != "delete":
        return [Request(Kind.INSERT, put_key(event, KEY_BYTES), event.text().encode().ljust(VALUE_BYTES, b"."))]
    key = delete_key(event, KEY_BYTES)
    return [preloaded(spec.tag, key, EVENTS, VALUE_BYTES), Request(Kind.DELETE, key)]


@asynccontextmanager
async def watching(watcher: Watchable) -> AsyncIterator[Arrived]:
    """Hold a watch by a driver of its own, for a subject whose trigger is one."""
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

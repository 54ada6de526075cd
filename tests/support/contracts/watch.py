"""
What the driver of a pull store has to do, against the real server: its changes are fetched by `watch`.

As with `TriggerContract`, a test module subclasses `WatchContract` and overrides the fixture `subject`. A driver whose
watch delivers nothing could pass all other contracts, and its trials would fail after minutes.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import TYPE_CHECKING, Literal, Protocol, cast

import pytest
from tests.support.contracts.life import CLOCK_TOLERANCE_NS, ProxiedSubject, running
from tests.support.contracts.trigger_subject import (
    KEY_BYTES,
    TriggerSubject,
    contract_spec,
    contract_write,
    declared,
)
from tests.support.fault_proxy import fault_proxy

from stepbench.contracts.identity import EventId, delete_key
from stepbench.contracts.workload import Kind
from stepbench.drivers.protocol import Watchable
from stepbench.errors import TargetUnavailableError
from stepbench.model.pending import perform
from stepbench.model.request import Outcome, Request

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from stepbench.drivers.protocol import Driver
    from stepbench.model.request import Change, ChangeBatch

DELIVERY_LIMIT_S = 20
QUIET_S = 0.3
"""A change that is not to come would have come by then."""
EVENTS = 30


class WatchSubject(TriggerSubject, ProxiedSubject, Protocol):
    """A store whose changes are pulled, and whose watch can be cut off."""


class WatchContract:
    """The tests of a watch."""

    @pytest.fixture
    def subject(self) -> WatchSubject:
        """Return the store; each driver's tests override it."""
        raise NotImplementedError

    async def test_a_watch_is_established_before_the_load(self, subject: WatchSubject) -> None:
        """The load begins once the watcher reports ready; what is written before that would be lost."""
        spec = contract_spec(subject.target)
        async with running(subject.driver(spec)) as driver, watch(driver, None) as batches:
            async with asyncio.timeout(DELIVERY_LIMIT_S):
                first = await anext(batches)
            assert list(first.changes) == []

    async def test_every_change_is_delivered_once_in_order(self, subject: WatchSubject) -> None:
        """Each has the value that was written, and a t4 between its send and its arrival here."""
        spec = contract_spec(subject.target)
        writes = [contract_write(spec, sequence) for sequence in range(EVENTS)]
        async with running(subject.driver(spec)) as driver, watch(driver, None) as batches:
            await anext(batches)
            before_ns = time.time_ns()
            await _write(driver, writes)
            seen, t4s_ns = await _take(batches, EVENTS)
            after_ns = time.time_ns()
        assert [change.value for change in seen] == [write.value for write in writes]
        positions = [change.position for change in seen]
        assert positions == sorted(set(positions))
        assert min(t4s_ns) >= before_ns - CLOCK_TOLERANCE_NS
        assert max(t4s_ns) <= after_ns + CLOCK_TOLERANCE_NS

    async def test_a_watch_resumes_from_a_position(self, subject: WatchSubject) -> None:
        """Watchers follow one another: what came in between reaches the next, and nothing twice."""
        spec = contract_spec(subject.target)
        writes = [contract_write(spec, sequence) for sequence in range(9)]
        async with running(subject.driver(spec)) as driver:
            async with watch(driver, None) as batches:
                await anext(batches)
                await _write(driver, writes[:3])
                seen, _ = await _take(batches, 3)
            await _write(driver, writes[3:6])
            async with watch(driver, seen[-1].position) as batches:
                await anext(batches)
                await _write(driver, writes[6:])
                later, _ = await _take(batches, 6)
        assert [change.value for change in later] == [write.value for write in writes[3:]]

    async def test_a_neighbours_changes_are_not_delivered(self, subject: WatchSubject) -> None:
        """Trials of other runs may share the store; their events would count as malformed."""
        spec, neighbour = contract_spec(subject.target), contract_spec(subject.target)
        own = contract_write(spec, 1)
        async with (
            running(subject.driver(spec)) as driver,
            running(subject.driver(neighbour)) as other,
            watch(driver, None) as batches,
        ):
            await anext(batches)
            await _write(other, [contract_write(neighbour, 0)])
            await asyncio.sleep(QUIET_S)
            await _write(driver, [own])
            seen, _ = await _take(batches, 1)
        assert [change.value for change in seen] == [own.value]

    async def test_deletions_are_delivered_with_their_key(self, subject: WatchSubject) -> None:
        """A deletion has no value: its identity is in the key. A trial of deletes sees nothing else."""
        if not declared(subject.target).deletes:
            pytest.skip(f"{subject.target} declares no deletions")
        spec = contract_spec(subject.target, "delete")
        keys = [delete_key(EventId(spec.tag, 0, 0, 0, 0, sequence), KEY_BYTES) for sequence in range(3)]
        async with running(subject.driver(spec)) as driver, watch(driver, None) as batches:
            await anext(batches)
            await _write(driver, [Request(Kind.DELETE, key) for key in keys])
            seen, _ = await _take(batches, 3)
        assert [change.value for change in seen] == [key.encode() for key in keys]

    @pytest.mark.parametrize("how", ["rst", "fin"])
    async def test_a_watch_that_the_store_ends_is_unavailable(
        self, subject: WatchSubject, how: Literal["rst", "fin"]
    ) -> None:
        """The state machine retries on this error's name; a watch that only stops does not say why."""
        spec = contract_spec(subject.target)
        async with running(subject.driver(spec)):
            with fault_proxy(subject.upstream, subject.framing) as proxy:
                async with watch(subject.through(spec, proxy), None) as batches, asyncio.timeout(DELIVERY_LIMIT_S):
                    await anext(batches)
                    assert proxy.cut(how) > 0
                    with pytest.raises(TargetUnavailableError):
                        await anext(batches, None)


def watch(driver: Driver, from_position: int | None) -> aclosing[AsyncGenerator[ChangeBatch, None]]:
    """Hold a watch of a driver that is watchable, as its target declares; it is ended on leaving."""
    assert isinstance(driver, Watchable), f"{type(driver).__name__} has no watch"
    return aclosing(cast("AsyncGenerator[ChangeBatch, None]", driver.watch(from_position)))


async def _write(driver: Driver, requests: list[Request]) -> None:
    for request in requests:
        result = await perform(driver, request)
        assert (result.outcome, result.error) == (Outcome.OK, "")


async def _take(batches: AsyncIterator[ChangeBatch], count: int) -> tuple[list[Change], list[int]]:
    """Return so many changes, with the t4 of each batch; those that come too much shortly after count, too."""
    seen: list[Change] = []
    t4s_ns: list[int] = []
    pending = asyncio.ensure_future(anext(batches))
    try:
        async with asyncio.timeout(DELIVERY_LIMIT_S):
            while len(seen) < count:
                batch = await asyncio.shield(pending)
                seen.extend(batch.changes)
                t4s_ns.append(batch.t4_ns)
                pending = asyncio.ensure_future(anext(batches))
        done, _ = await asyncio.wait({pending}, timeout=QUIET_S)
        if done:
            seen.extend(pending.result().changes)
    finally:
        pending.cancel()
        await asyncio.wait({pending})
    assert len(seen) == count, f"{len(seen)} changes came of {count}"
    return seen, t4s_ns

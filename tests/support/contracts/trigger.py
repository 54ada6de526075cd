"""
What every driver has to do, as one pytest class that runs against the real server.

A driver's test module subclasses `TriggerContract` and overrides the fixture `subject`:

    class TestS3Driver(TriggerContract):
        @pytest.fixture
        def subject(self, services: Services) -> TriggerSubject:
            return S3Subject(services)

`subject` builds drivers, and looks into the store behind the driver's back: a driver that reads its own writes back
could hide a mistake twice.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.support.contracts.life import (
    CLOCK_TOLERANCE_NS,
    LifeContract,
    ResultCollector,
    offer_to_nobody,
    running,
    until_ready,
)
from tests.support.contracts.trigger_subject import (
    KEY_BYTES,
    VALUE_BYTES,
    TriggerSubject,
    contract_spec,
    contract_write,
    declared,
)

from stepbench.contracts.identity import CANARY_PHASE, EventId, delete_key, parse_event_id, update_key
from stepbench.contracts.workload import Kind
from stepbench.model.pending import perform
from stepbench.model.request import Outcome, Request

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec
    from stepbench.drivers.protocol import Driver

AT_ONCE = 40


class TriggerContract(LifeContract[TriggerSubject]):
    """The tests of a driver for triggers."""

    @pytest.fixture
    def subject(self) -> TriggerSubject:
        """Return the store; each driver's tests override it."""
        raise NotImplementedError

    def new_spec(self, subject: TriggerSubject) -> TrialSpec:
        """See `LifeContract`."""
        return contract_spec(subject.target)

    def new_driver(self, subject: TriggerSubject, spec: TrialSpec) -> Driver:
        """See `LifeContract`."""
        return subject.driver(spec)

    def new_request(self, spec: TrialSpec) -> Request:
        """See `LifeContract`."""
        return contract_write(spec, 1)

    async def test_prepare_is_idempotent(self, subject: TriggerSubject) -> None:
        """The state machine retries PrepareTarget; the second time must neither fail nor double the trigger."""
        spec = contract_spec(subject.target)
        async with running(subject.driver(spec)):
            once = await subject.leftovers(spec)
            again = subject.driver(spec)
            await again.prepare()
            await until_ready(again)
            await again.close()
            assert await subject.leftovers(spec) == once

    async def test_an_acknowledged_write_has_plausible_times(self, subject: TriggerSubject) -> None:
        """Every latency is a difference of these: t1 after the call, t2 after t1, both before the return."""
        spec = contract_spec(subject.target)
        async with running(subject.driver(spec)) as driver:
            before_ns = time.time_ns()
            written = await perform(driver, contract_write(spec, 1))
            after_ns = time.time_ns()
        assert (written.outcome, written.error) == (Outcome.OK, "")
        assert before_ns - CLOCK_TOLERANCE_NS <= written.t1_ns < written.t2_ns <= after_ns + CLOCK_TOLERANCE_NS

    async def test_key_and_value_are_stored_as_written(self, subject: TriggerSubject) -> None:
        """The receiver reads the identity off them; a re-encoded value would be lost as malformed."""
        spec = contract_spec(subject.target)
        write = contract_write(spec, 0xABCDEF)
        async with running(subject.driver(spec)) as driver:
            await perform(driver, write)
            assert await subject.read_back(spec, write.key) == write.value

    async def test_a_second_write_overwrites(self, subject: TriggerSubject) -> None:
        """Updates are half of the experiments; a token has to tell the two changes apart."""
        spec = contract_spec(subject.target)
        first, second = contract_write(spec, 3), contract_write(spec, 3, attempt=1)
        async with running(subject.driver(spec)) as driver:
            tokens = [(await perform(driver, write)).token for write in (first, second)]
            assert await subject.read_back(spec, first.key) == second.value
        assert tokens == ["", ""] or len(set(tokens)) == 2

    async def test_writes_in_flight_keep_their_own_results(self, subject: TriggerSubject) -> None:
        """A wrong pairing of answers would swap latencies between events, unseen by any total."""
        spec = contract_spec(subject.target)
        writes = [contract_write(spec, sequence) for sequence in range(60)]
        async with running(subject.driver(spec)) as driver:
            written = await asyncio.gather(*map(partial(perform, driver), writes))
            stored = [await subject.read_back(spec, write.key) for write in writes]
        assert [result.outcome for result in written] == [Outcome.OK] * 60
        assert stored == [write.value for write in writes]
        assert len({result.token for result in written}) in (1, 60)

    async def test_writes_sent_at_once_keep_their_own_results(self, subject: TriggerSubject) -> None:
        """A burst starts like this; a wrong pairing would swap latencies between events, unseen by any total."""
        spec = contract_spec(subject.target)
        writes, collector = [contract_write(spec, sequence) for sequence in range(AT_ONCE)], ResultCollector()
        async with running(subject.driver(spec)) as driver:
            make = driver.prepare_request
            for pending in [make(write) for write in writes]:
                collector.send(pending)
            answers = list(await collector.wait(AT_ONCE))
            stored = [await subject.read_back(spec, write.key) for write in writes]
        assert [each.outcome for each in answers] == [Outcome.OK] * AT_ONCE
        assert stored == [write.value for write in writes]
        assert len({each.token for each in answers}) in (1, AT_ONCE)

    async def test_updates_find_their_keys_preloaded(self, subject: TriggerSubject) -> None:
        """An update of a key that is not there is an insert, which stores do in another way and time."""
        spec = contract_spec(subject.target, "update", distinct_keys=3)
        async with running(subject.driver(spec)) as driver:
            await driver.prepare()
            values = [await subject.read_back(spec, update_key(spec.tag, index, KEY_BYTES)) for index in range(4)]
        assert [value is not None for value in values] == [True, True, True, False]
        heads = [parse_event_id(value.decode()) for value in values if value is not None]
        assert [head and head.phase for head in heads] == [CANARY_PHASE] * 3

    async def test_deletes_find_their_keys_preloaded_and_remove_them(self, subject: TriggerSubject) -> None:
        """Each event has a key of its own; the deletion of nothing is told to nobody."""
        if not declared(subject.target).deletes:
            pytest.skip(f"{subject.target} declares no deletions")
        spec = contract_spec(subject.target, "delete")
        keys = [delete_key(EventId(spec.tag, 0, 0, 0, 0, sequence), KEY_BYTES) for sequence in (0, 99, 100)]
        canary = Request(
            Kind.INSERT, delete_key(EventId(spec.tag, CANARY_PHASE, 0, 0, 0, 7), KEY_BYTES), b"x" * VALUE_BYTES
        )
        async with running(subject.driver(spec)) as driver:
            before = [await subject.read_back(spec, key) is not None for key in keys]
            written = [await perform(driver, Request(Kind.DELETE, keys[0])), await perform(driver, canary)]
            written.append(await perform(driver, Request(Kind.DELETE, canary.key)))
            after = [await subject.read_back(spec, key) is not None for key in (*keys, canary.key)]
        assert before == [True, True, False]
        assert [each.outcome for each in written] == [Outcome.OK] * 3
        assert after == [False, True, False, False]

    async def test_an_unreachable_store_is_an_outcome(self, subject: TriggerSubject) -> None:
        """A store that dies in the middle of a trial is a result; a hang or a stray exception loses the records."""
        spec = contract_spec(subject.target)
        driver = subject.unreachable(spec)
        await offer_to_nobody(driver, lambda: perform(driver, contract_write(spec, 0)))

    async def test_tear_down_leaves_nothing(self, subject: TriggerSubject) -> None:
        """Data that is left behind costs money, and the next trial's trigger fires on it."""
        spec = contract_spec(subject.target)
        async with running(subject.driver(spec)) as driver:
            await asyncio.gather(*(perform(driver, contract_write(spec, sequence)) for sequence in range(5)))
            assert await subject.leftovers(spec)
        assert await subject.leftovers(spec) == []

    async def test_tear_down_spares_the_neighbour(self, subject: TriggerSubject) -> None:
        """Trials of other runs may share the bucket, database or cluster."""
        spec, neighbour = contract_spec(subject.target), contract_spec(subject.target)
        write = contract_write(neighbour, 0)
        async with running(subject.driver(neighbour)) as other:
            await perform(other, write)
            kept = await subject.leftovers(neighbour)
            async with running(subject.driver(spec)) as driver:
                await perform(driver, contract_write(spec, 0))
            assert await subject.leftovers(neighbour) == kept
            assert await subject.read_back(neighbour, write.key) == write.value

"""Preloaded keys: complete, recognisable, and written with patience."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from stepbench.contracts.identity import CANARY_PHASE, EventId, parse_event_id, update_key
from stepbench.contracts.plan import TrialPlan
from stepbench.drivers.preload import PRELOAD_WRITER, preload, preloads
from stepbench.drivers.protocol import Outcome
from stepbench.errors import TargetUnavailableError
from stepbench.load.arrivals import slice_counts
from stepbench.load.payloads import Payloads
from stepbench.testing.driver_subject import KEY_BYTES, VALUE_BYTES, contract_spec
from stepbench.testing.fake_clock import FakeClock
from stepbench.testing.memory_driver import MemoryDriver

SPEC = contract_spec({"store": "s3"}, "update", distinct_keys=40)


def test_puts_need_no_keys() -> None:
    """They make their own."""
    assert list(preloads(contract_spec({"store": "s3"}))) == []


def test_each_value_is_a_canary_of_the_plans_size() -> None:
    """An update that changes an item's size measures something else."""
    writes = list(preloads(SPEC))
    assert [write.key for write in writes] == [update_key(SPEC.tag, index, KEY_BYTES) for index in range(40)]
    assert {len(write.value) for write in writes} == {VALUE_BYTES}
    events = [parse_event_id(write.value.decode()) for write in writes]
    assert [(event.phase, event.writer, event.sequence) for event in events if event] == [
        (CANARY_PHASE, PRELOAD_WRITER, index) for index in range(40)
    ]


@pytest.mark.parametrize("share", [1, 0.5])
def test_each_deletion_has_a_key_of_its_own(share: float) -> None:
    """Those that the writers will delete, of all phases, writers and slices: no more and no fewer."""
    phases = [
        {"name": "warm-up", "measured": False, "load": [{"rate_per_s": 3, "count": 7}]},
        {"name": "long", "load": [{"rate_per_s": 0.01, "duration_s": 1_300}]},
    ]
    plan = {
        "target": {"store": "s3"},
        "record": {"operation": "delete", "matching_share": share},
        "phases": phases,
        "writers": 2,
    }
    spec = SPEC.model_copy(update={"plan": TrialPlan.model_validate({**plan, "arrivals": "poisson"})})
    offered = {
        Payloads(spec.plan.record, EventId(spec.tag, phase, writer, slice_, attempt, 0), count, seed=7).write(sequence)
        for phase, writer, attempt in itertools.product(range(2), range(2), range(2))
        for slice_, count in enumerate(slice_counts(spec.plan, phase, writer).tolist())
        for sequence in range(count)
    }
    written = list(preloads(spec))
    assert all(write.delete and write.value == b"" for write in offered)
    assert sorted(write.key for write in written) == sorted(write.key for write in offered)
    assert len(written) > 7
    events = [parse_event_id(write.value.decode()) for write in written]
    assert {(event.phase, event.writer) for event in events if event} == {(CANARY_PHASE, PRELOAD_WRITER)}


def test_every_key_is_written_once() -> None:
    """Sixteen lanes share one list."""
    clock = FakeClock()
    driver = MemoryDriver(clock, service_ns=(1_000_000,))
    clock.run(preload(SPEC, driver.write, clock))
    assert sorted(write.key for write in driver.offered) == sorted(write.key for write in preloads(SPEC))
    assert driver.most_in_flight == 16


def test_a_throttled_write_is_tried_again() -> None:
    """A new table throttles a preload as a matter of course; the plan is not wrong for that."""
    clock = FakeClock()
    driver = MemoryDriver(clock, outcomes={0: Outcome.FAILED, 1: Outcome.UNKNOWN})
    clock.run(preload(SPEC, driver.write, clock))
    assert (len(driver.offered), len(driver.stored)) == (42, 40)


def test_a_store_that_keeps_refusing_ends_the_preload() -> None:
    """Six attempts at one key, then the trial fails with the reason."""
    clock = FakeClock()
    spec = contract_spec({"store": "s3"}, "update", distinct_keys=1)
    driver = MemoryDriver(clock, outcomes=dict.fromkeys(range(6), Outcome.FAILED))
    with pytest.raises(TargetUnavailableError, match="refused"):
        clock.run(preload(spec, driver.write, clock))
    assert len(driver.offered) == 6


def test_what_is_under_way_ends_before_a_cancelled_preload_does() -> None:
    """A bucket has the object all the same: one that comes after the clearing up would be left."""
    clock = FakeClock()
    driver = MemoryDriver(clock, service_ns=(1_000_000_000,))

    async def cancelled() -> bool:
        preloading = asyncio.create_task(preload(SPEC, driver.write, clock))
        await clock.sleep_async(0.5)
        preloading.cancel()
        await asyncio.wait({preloading})
        return preloading.cancelled()

    assert clock.run(cancelled())
    assert len(driver.offered) == len(driver.stored) == 16


def test_after_a_failure_nothing_more_is_written() -> None:
    """TearDownTarget comes next."""
    clock = FakeClock()
    driver = MemoryDriver(clock, service_ns=(1_000_000,), outcomes=dict.fromkeys(range(10_000), Outcome.FAILED))

    async def failing() -> int:
        with pytest.raises(TargetUnavailableError):
            await preload(SPEC, driver.write, clock)
        offered = len(driver.offered)
        await clock.sleep_async(60)
        return offered

    assert clock.run(failing()) == len(driver.offered)

"""What is there before the load: complete, recognisable, written with patience and in bounded time."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.contracts.operations_subject import contents_of, operations_spec
from tests.support.contracts.trigger_subject import KEY_BYTES, VALUE_BYTES, contract_spec
from tests.support.fake_clock import FakeClock
from tests.support.memory_driver import MemoryDriver

from stepbench.contracts.identity import CANARY_PHASE, EventId, parse_event_id, update_key
from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.workload import Kind
from stepbench.drivers.preload import (
    BATCHES_PER_LANE,
    PRELOAD_FOR_S,
    PRELOAD_WRITER,
    preload_keys,
    preload_records,
    preloads,
    write_each,
)
from stepbench.errors import TargetUnavailableError, TargetUnreachableError
from stepbench.model.request import Outcome
from stepbench.workload.arrivals import slice_counts
from stepbench.workload.payloads import Payloads

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from stepbench.model.request import Request

SPEC = contract_spec({"store": "s3"}, "update", distinct_keys=40)
BATCH, LANES = 5, 2
WAVE = BATCH * LANES * BATCHES_PER_LANE
RECORDS = 3 * WAVE + 7
RECORDS_SPEC = operations_spec({"store": "etcd"}, records=RECORDS)
KEYS = [contents_of(RECORDS_SPEC).preloaded(number).key for number in range(RECORDS)]


async def _cancel(preloading: Coroutine[Any, Any, None], clock: FakeClock, after_s: float) -> None:
    """Cancel a preload after a while, and return at its end."""
    task = asyncio.create_task(preloading)
    await clock.sleep_async(after_s)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


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
        Payloads(spec.offered.record, EventId(spec.tag, phase, writer, slice_, attempt, 0), count, seed=7).write(
            sequence
        )
        for phase, writer, attempt in itertools.product(range(2), range(2), range(2))
        for slice_, count in enumerate(slice_counts(spec.offered, phase, writer).tolist())
        for sequence in range(count)
    }
    written = list(preloads(spec))
    assert all(write.kind is Kind.DELETE and write.value == b"" for write in offered)
    assert sorted(write.key for write in written) == sorted(write.key for write in offered)
    assert len(written) > 7
    events = [parse_event_id(write.value.decode()) for write in written]
    assert {(event.phase, event.writer) for event in events if event} == {(CANARY_PHASE, PRELOAD_WRITER)}


def test_every_key_is_written_once() -> None:
    """Sixteen lanes share one list."""
    clock = FakeClock()
    driver = MemoryDriver(clock, service_ns=(1_000_000,))
    clock.run(preload_keys(SPEC, write_each(driver.prepare_request), clock))
    assert sorted(write.key for write in driver.offered) == sorted(write.key for write in preloads(SPEC))
    assert driver.most_in_flight == 16


def test_a_throttled_write_is_tried_again() -> None:
    """A new table throttles a preload as a matter of course; the plan is not wrong for that."""
    clock = FakeClock()
    driver = MemoryDriver(clock, outcomes={0: Outcome.FAILED, 1: Outcome.UNKNOWN})
    clock.run(preload_keys(SPEC, write_each(driver.prepare_request), clock))
    assert (len(driver.offered), len(driver.stored)) == (42, 40)


def test_a_store_that_keeps_refusing_ends_the_preload() -> None:
    """Six attempts at one key, then the trial fails with the reason."""
    clock = FakeClock()
    spec = contract_spec({"store": "s3"}, "update", distinct_keys=1)
    driver = MemoryDriver(clock, outcomes=dict.fromkeys(range(6), Outcome.FAILED))
    with pytest.raises(TargetUnavailableError, match="refused"):
        clock.run(preload_keys(spec, write_each(driver.prepare_request), clock))
    assert len(driver.offered) == 6


def test_keys_under_way_are_written_before_a_cancelled_preload_ends() -> None:
    """A bucket has the object all the same: one that comes after the clearing up would be left."""
    clock = FakeClock()
    driver = MemoryDriver(clock, service_ns=(1_000_000_000,))
    clock.run(_cancel(preload_keys(SPEC, write_each(driver.prepare_request), clock), clock, after_s=0.5))
    assert len(driver.offered) == len(driver.stored) == 16


def test_after_a_failure_nothing_more_is_written() -> None:
    """TearDownTarget comes next, and would not see it yet."""
    clock = FakeClock()
    driver = MemoryDriver(clock, service_ns=(1_000_000,), outcomes=dict.fromkeys(range(10_000), Outcome.FAILED))

    async def failing() -> int:
        with pytest.raises(TargetUnavailableError):
            await preload_keys(SPEC, write_each(driver.prepare_request), clock)
        offered = len(driver.offered)
        await clock.sleep_async(60)
        return offered

    assert clock.run(failing()) == len(driver.offered)


class Shelf:
    """A store in memory; `refuse` says no to a batch, by its number among all and its first key."""

    def __init__(self, clock: FakeClock, refuse: Callable[[int, str], str] = lambda _number, _key: "") -> None:
        self.clock = clock
        self.refuse = refuse
        self.records: dict[str, bytes] = {}
        self.batches: list[int] = []
        self.looked_up = 0
        self.under_way = self.most_under_way = 0

    async def write_batch(self, records: Sequence[Request]) -> str:
        """Write a batch, which takes a second."""
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        self.batches.append(len(records))
        number = len(self.batches)
        await self.clock.sleep_async(1)
        self.under_way -= 1
        error = self.refuse(number, records[0].key)
        if not error:
            self.records |= {each.key: each.value for each in records}
        return error

    async def exists(self, key: str) -> bool:
        """Return whether a key is there."""
        self.looked_up += 1
        return key in self.records

    def fill(self) -> None:
        """Preload into it."""
        self.clock.run(
            preload_records(RECORDS_SPEC, self.write_batch, self.clock, batch=BATCH, lanes=LANES, exists=self.exists)
        )


def test_all_records_are_written_once_and_as_they_were_made() -> None:
    """None comes twice, none is left out, and at most so many are under way at a time."""
    shelf = Shelf(FakeClock())
    shelf.fill()
    assert list(shelf.records) == KEYS
    assert all(
        shelf.records[key] == contents_of(RECORDS_SPEC).preloaded(number).value for number, key in enumerate(KEYS)
    )
    assert (sum(shelf.batches), max(shelf.batches), shelf.most_under_way) == (RECORDS, BATCH, LANES)


def test_a_refused_batch_is_written_again() -> None:
    """A throttled table takes it a little later."""
    shelf = Shelf(FakeClock(), lambda number, _key: "ThrottlingException" if number % 3 == 0 else "")
    shelf.fill()
    assert sorted(shelf.records) == sorted(KEYS)


def test_a_batch_that_is_refused_for_good_is_named_with_the_error() -> None:
    """The user has to see which capacity to raise."""
    first = KEYS[2 * WAVE + BATCH]
    shelf = Shelf(FakeClock(), lambda _number, key: "AccessDenied" if key == first else "")
    with pytest.raises(TargetUnavailableError, match=f"{first[:60]}.*AccessDenied.*{2 * WAVE} are written"):
        shelf.fill()


@pytest.mark.parametrize(("error", "kind"), [("timeout", TargetUnreachableError), ("53200", TargetUnavailableError)])
def test_a_batch_that_takes_minutes_is_given_up(error: str, kind: type[TargetUnavailableError]) -> None:
    """A Redis that left out a reply took 13 minutes to fail: six attempts of 30 s, four times."""
    clock = FakeClock()
    began_ns = clock.now_ns()

    async def write(_records: Sequence[Request]) -> str:
        await clock.sleep_async(30)
        return error

    with pytest.raises(TargetUnavailableError, match=error) as raised:
        clock.run(preload_records(RECORDS_SPEC, write, clock, batch=BATCH, lanes=LANES))
    assert type(raised.value) is kind  # the former is not retried by the machine
    assert (clock.now_ns() - began_ns) / 1e9 < 61


def test_a_retry_goes_on_in_the_wave_that_was_broken_off() -> None:
    """Whatever lanes had written of it: some reads instead of all writes."""
    clock = FakeClock()
    shelf = Shelf(clock, lambda _number, key: "AccessDenied" if key == KEYS[2 * WAVE + BATCH] else "")
    with pytest.raises(TargetUnavailableError):
        shelf.fill()
    shelf.refuse, shelf.batches, shelf.looked_up = lambda _number, _key: "", [], 0
    shelf.fill()
    assert sorted(shelf.records) == sorted(KEYS)
    assert sum(shelf.batches) <= RECORDS - WAVE
    assert shelf.looked_up <= 3


def test_a_store_that_is_full_is_looked_at_and_left() -> None:
    """A second PrepareTarget after the first: the last wave may be incomplete, so that one is written again."""
    shelf = Shelf(FakeClock())
    shelf.fill()
    shelf.batches = []
    shelf.fill()
    assert sum(shelf.batches) == RECORDS - 3 * WAVE


def test_preloading_ends_before_its_function_does() -> None:
    """PrepareTarget killed in the middle leaves no reason; an error says how far it came, and is retried."""
    clock = FakeClock()
    shelf = Shelf(clock)
    began_ns = clock.now_ns()

    async def slow(records: Sequence[Request]) -> str:
        await clock.sleep_async(60)
        return await shelf.write_batch(records)

    with pytest.raises(TargetUnavailableError, match="not done within 540 s; 80 are written"):
        clock.run(preload_records(RECORDS_SPEC, slow, clock, batch=BATCH, lanes=LANES))
    assert (clock.now_ns() - began_ns) / 1e9 < PRELOAD_FOR_S + 2 * 61


def test_records_under_way_are_written_before_a_cancelled_preload_ends() -> None:
    """A server writes what it was sent: records that come after the clearing up would be left for ever."""
    clock = FakeClock()
    shelf = Shelf(clock)
    preloading = preload_records(RECORDS_SPEC, shelf.write_batch, clock, batch=BATCH, lanes=LANES)
    clock.run(_cancel(preloading, clock, after_s=2.5))
    assert shelf.under_way == 0
    assert len(shelf.records) == sum(shelf.batches) == 3 * LANES * BATCH


def test_a_failure_waits_for_the_other_lanes() -> None:
    """TearDownTarget comes next, and would not see it yet."""
    shelf = Shelf(FakeClock(), lambda _number, key: "AccessDenied" if key == KEYS[0] else "")
    with pytest.raises(TargetUnavailableError, match="AccessDenied"):
        shelf.fill()
    assert shelf.under_way == 0


def test_without_records_the_store_is_not_asked() -> None:
    """A workload of inserts alone needs none."""
    clock = FakeClock()
    spec = operations_spec({"store": "etcd"}, records=0, workload={"mix": {"insert": 1}})
    shelf = Shelf(clock)
    clock.run(preload_records(spec, shelf.write_batch, clock, batch=BATCH, lanes=LANES, exists=shelf.exists))
    assert (shelf.batches, shelf.looked_up) == ([], 0)

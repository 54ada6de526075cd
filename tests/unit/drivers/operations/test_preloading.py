"""Preloaded records of operations: complete, in bounded time, and gone on with where the last attempt was."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from stepbench.drivers.operations.preloading import BATCHES_PER_LANE, PRELOAD_FOR_S, preload
from stepbench.errors import TargetUnavailableError
from stepbench.testing.fake_clock import FakeClock
from stepbench.testing.operable_subject import contents_of, operations_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepbench.drivers.protocol import Operation

BATCH, LANES = 5, 2
WAVE = BATCH * LANES * BATCHES_PER_LANE
RECORDS = 3 * WAVE + 7
SPEC = operations_spec({"store": "etcd"}, records=RECORDS)
KEYS = [contents_of(SPEC).preloaded(number).key for number in range(RECORDS)]


class Shelf:
    """A store in memory; `refuse` says no to a batch, by its number among all and its first key."""

    def __init__(self, clock: FakeClock, refuse: Callable[[int, str], str] = lambda _number, _key: "") -> None:
        self.clock = clock
        self.refuse = refuse
        self.records: dict[str, bytes] = {}
        self.batches: list[int] = []
        self.looked_up = 0
        self.under_way = self.most_under_way = 0

    async def write_batch(self, records: Sequence[Operation]) -> str:
        """Takes a second."""
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
        """By key."""
        self.looked_up += 1
        return key in self.records

    def fill(self) -> None:
        """Preload into it."""
        self.clock.run(preload(SPEC, self.write_batch, self.clock, batch=BATCH, lanes=LANES, exists=self.exists))


def test_all_records_are_written_once_and_as_they_were_made() -> None:
    """None twice, none left out, and at most so many at a time."""
    shelf = Shelf(FakeClock())
    shelf.fill()
    assert list(shelf.records) == KEYS
    assert all(shelf.records[key] == contents_of(SPEC).preloaded(number).value for number, key in enumerate(KEYS))
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

    async def slow(records: Sequence[Operation]) -> str:
        await clock.sleep_async(60)
        return await shelf.write_batch(records)

    with pytest.raises(TargetUnavailableError, match="not done within 540 s; 80 are written"):
        clock.run(preload(SPEC, slow, clock, batch=BATCH, lanes=LANES))
    assert (clock.now_ns() - began_ns) / 1e9 < PRELOAD_FOR_S + 2 * 61


def test_what_is_under_way_ends_before_a_cancelled_preload_does() -> None:
    """A server writes what it was sent: records that come after the clearing up would be left for ever."""
    clock = FakeClock()
    shelf = Shelf(clock)

    async def cancelled() -> bool:
        preloading = asyncio.create_task(preload(SPEC, shelf.write_batch, clock, batch=BATCH, lanes=LANES))
        await clock.sleep_async(2.5)
        preloading.cancel()
        await asyncio.wait({preloading})
        return preloading.cancelled()

    assert clock.run(cancelled())
    assert shelf.under_way == 0
    assert len(shelf.records) == sum(shelf.batches) == 3 * LANES * BATCH


def test_a_failure_waits_for_the_other_lanes() -> None:
    """TearDownTarget comes next."""
    shelf = Shelf(FakeClock(), lambda _number, key: "AccessDenied" if key == KEYS[0] else "")
    with pytest.raises(TargetUnavailableError, match="AccessDenied"):
        shelf.fill()
    assert shelf.under_way == 0


def test_without_records_the_store_is_not_asked() -> None:
    """A workload of inserts alone."""
    clock = FakeClock()
    spec = operations_spec({"store": "etcd"}, records=0, workload={"mix": {"insert": 1}})
    shelf = Shelf(clock)
    clock.run(preload(spec, shelf.write_batch, clock, batch=BATCH, lanes=LANES, exists=shelf.exists))
    assert (shelf.batches, shelf.looked_up) == ([], 0)

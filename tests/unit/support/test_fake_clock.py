from __future__ import annotations

import asyncio

import pytest
from tests.support.fake_clock import START_NS, FakeClock


def test_sleepers_wake_in_order_and_to_the_nanosecond() -> None:
    """Tests of everything timed compare exact times."""
    clock, woken = FakeClock(), []

    async def sleeper(seconds: float) -> None:
        await clock.sleep_async(seconds)
        woken.append((seconds, clock.now_ns() - START_NS))

    async def run() -> None:
        await asyncio.gather(sleeper(0.3), sleeper(0.1), sleeper(86_400))

    clock.run(run())
    assert woken == [(0.1, 100_000_000), (0.3, 300_000_000), (86_400, 86_400_000_000_000)]


def test_a_deadlock_is_an_error_and_no_hang() -> None:
    """A test that waits for ever says nothing."""

    async def run() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="deadlock"):
        FakeClock().run(run())


def test_threads_run_in_place() -> None:
    """While a real one ran, this clock would have run on."""
    clock = FakeClock()

    async def run() -> int:
        return await asyncio.to_thread(clock.now_ns)

    assert clock.run(run()) == START_NS


def test_an_error_in_a_thread_reaches_whoever_waits() -> None:
    """As it would from a real one."""

    async def run() -> None:
        await asyncio.to_thread(int, "no number")

    with pytest.raises(ValueError, match="no number"):
        FakeClock().run(run())


def test_blocking_sleep_lets_time_pass_and_is_remembered() -> None:
    """Control stages poll with it."""
    clock = FakeClock(5)
    clock.sleep(1.5)
    clock.sleep(-1)
    assert clock.now_ns() == 1_500_000_005
    assert clock.slept_s == [1.5, -1]
    assert clock.drift_ns() == 0

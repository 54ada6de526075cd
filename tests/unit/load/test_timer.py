from __future__ import annotations

import asyncio
import socket

import pytest
from tests.support.fake_clock import START_NS, FakeClock

from stepbench.clock import AnchoredClock, Clock
from stepbench.load import timer as timer_module
from stepbench.load.timer import MOST_SPINNING, SPIN_NS, LoopTimer, Timer, TimerFd, best_timer, spin_ns

MS = 1_000_000
LIMIT_S = 60


async def ring(timer: Timer, clock: Clock, due_ns: int) -> int:
    """Return how late one alarm was, ns."""
    rung = asyncio.get_running_loop().create_future()
    timer.call_at(due_ns, lambda: rung.set_result(clock.now_ns()))
    return int(await asyncio.wait_for(rung, LIMIT_S)) - due_ns


@pytest.mark.parametrize("spin_ns", [0, 200_000])
async def test_the_system_timer_rings_after_it_is_due(spin_ns: int) -> None:
    """An early send would be a latency that is too long."""
    clock = AnchoredClock()
    timer = best_timer(clock, spin_ns)
    assert isinstance(timer, TimerFd)
    try:
        assert await ring(timer, clock, clock.now_ns() + 2 * MS) >= 0
        assert await ring(timer, clock, clock.now_ns() - MS) >= MS
    finally:
        timer.close()
        timer.close()


async def test_a_new_alarm_replaces_the_one_before() -> None:
    """Two would offer the same event twice."""
    clock, rung = AnchoredClock(), []
    timer = best_timer(clock)
    timer.call_at(clock.now_ns() + MS, lambda: rung.append("old"))
    assert await ring(timer, clock, clock.now_ns() + 3 * MS) >= 0
    timer.close()
    assert rung == []


async def test_without_timerfd_the_loops_own_timer_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A laptop without Linux runs the same plan, less punctually."""

    def no_libc() -> None:
        raise AttributeError

    monkeypatch.setattr(timer_module, "_libc", no_libc)
    clock = AnchoredClock()
    timer = best_timer(clock)
    assert isinstance(timer, LoopTimer)
    assert await ring(timer, clock, clock.now_ns() + MS) >= -MS
    timer.close()


async def test_a_system_that_refuses_the_timer_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of file descriptors is no reason to offer no load."""

    class Refusing:
        def timerfd_create(self, *_: int) -> int:
            return -1

    monkeypatch.setattr(timer_module, "_libc", Refusing)
    with pytest.raises(OSError, match="timerfd_create"):
        TimerFd(AnchoredClock())


def test_the_loops_timer_keeps_fake_time_exactly() -> None:
    """Tests of the engine count on it to the nanosecond."""
    clock = FakeClock()

    async def run() -> int:
        rung = asyncio.get_running_loop().create_future()
        timer = LoopTimer(clock)
        timer.call_at(START_NS + 5, lambda: rung.set_result(0))
        timer.call_at(START_NS + 123_456_789, lambda: rung.set_result(clock.now_ns()))
        return int(await rung)

    assert clock.run(run()) == START_NS + 123_456_789


async def test_answers_are_taken_while_an_alarm_is_waited_for_without_sleeping() -> None:
    """A loop that only watched the clock would stamp them late: punctual sends bought with wrong latencies."""
    clock = FakeClock()  # stands still until it is moved
    timer = best_timer(clock, spin_ns=500 * MS)
    ours, theirs = socket.socketpair()
    seen: list[str] = []
    loop = asyncio.get_running_loop()
    loop.add_reader(ours, lambda: seen.append(ours.recv(9).decode()))
    try:
        waiting = loop.create_task(ring(timer, clock, clock.now_ns() + 300 * MS))
        theirs.send(b"answer")
        async with asyncio.timeout(LIMIT_S):
            while not seen:  # noqa: ASYNC110 -- what is tested is that the loop goes round
                await asyncio.sleep(0)
        assert seen == ["answer"]
        assert not waiting.done()
        clock.advance(300 * MS)
        assert await waiting == 0
    finally:
        loop.remove_reader(ours)
        ours.close()
        theirs.close()
        timer.close()


async def test_an_alarm_that_rang_is_silent_until_it_is_set_again() -> None:
    """A descriptor that stayed readable would keep the loop going round for ever."""
    clock, turns = AnchoredClock(), 0
    timer = TimerFd(clock)
    await ring(timer, clock, clock.now_ns() + MS)
    rang = timer._ring
    try:
        timer._loop.remove_reader(timer._fd)

        def counted() -> None:
            nonlocal turns
            turns += 1
            rang()

        timer._loop.add_reader(timer._fd, counted)
        await asyncio.sleep(0.02)
        assert turns == 0
    finally:
        timer.close()


@pytest.mark.parametrize(
    ("alarms_per_s", "cores", "wanted"),
    [
        (20, 1, SPIN_NS),
        (3_000, 1, SPIN_NS),
        (15_000, 1, 0),
        (20, 0.5, 0),
        (0.99 * MOST_SPINNING * 1e9 / SPIN_NS, 1, SPIN_NS),
    ],
)
def test_alarms_are_waited_for_without_sleeping_where_there_is_time_to_spare(
    alarms_per_s: float, cores: float, wanted: int
) -> None:
    """A function with a part of a core is stopped when its share is used up: worse than any timer."""
    assert spin_ns(alarms_per_s, cores) == wanted

from __future__ import annotations

import pytest
from tests.support.fake_clock import START_NS, FakeClock
from tests.support.memory_driver import MemoryDriver

from stepbench.contracts.capacity import OnDemandCapacity
from stepbench.contracts.phase import Scale
from stepbench.contracts.workload import Kind
from stepbench.drivers.protocol import Scalable, Watchable
from stepbench.errors import TargetUnavailableError
from stepbench.model.pending import perform
from stepbench.model.request import Outcome, Request, Result


def test_it_answers_as_ordered() -> None:
    """Tests of the engine order stalls and failures by the number of the write."""
    clock = FakeClock()
    driver = MemoryDriver(clock, service_ns=(5, 1), outcomes={1: Outcome.FAILED})

    async def run() -> list[Result]:
        return [await perform(driver, Request(Kind.INSERT, f"key-{number}", b"value")) for number in range(3)]

    assert clock.run(run()) == [
        Result(START_NS, START_NS + 5, Outcome.OK, token="1"),  # noqa: S106 -- no password
        Result(START_NS + 5, START_NS + 6, Outcome.FAILED, error="refused"),
        Result(START_NS + 6, START_NS + 7, Outcome.OK, token="2"),  # noqa: S106 -- no password
    ]
    assert set(driver.stored) == {"key-0", "key-2"}


def test_it_lives_through_a_drivers_life() -> None:
    """Tests of the control stages check what was called, and in what order."""
    clock = FakeClock()
    driver = MemoryDriver(clock, ready_after=1)

    async def run() -> list[bool]:
        await driver.open()
        await driver.prepare()
        ready = [await driver.ready(), await driver.ready()]
        scaled = await driver.scale(Scale(capacity=OnDemandCapacity()))
        gone = await driver.tear_down()
        await driver.close()
        return [*ready, scaled, gone]

    assert isinstance(driver, Watchable)
    assert isinstance(driver, Scalable)
    assert clock.run(run()) == [False, True, True, True]
    assert driver.calls == ["open", "prepare", "ready", "ready", "scale to on_demand", "tear_down", "close"]
    assert clock.run(driver.provider()) == "memory"


def test_it_can_be_away() -> None:
    """As a store whose address is wrong."""
    clock = FakeClock()
    with pytest.raises(TargetUnavailableError):
        clock.run(MemoryDriver(clock, unavailable=True).prepare())

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.services import MemoryServices, small_plan, stored_trial
from tests.support.fake_clock import FakeClock
from tests.support.memory_driver import MemoryDriver

from stepbench.contracts.plan import TrialRef
from stepbench.contracts.tasks import ScaleTargetInput
from stepbench.errors import TargetUnavailableError, TrialCancelledError
from stepbench.records.storage import layout
from stepbench.stages.scale_target import SCALE_LIMIT_S, scale_target
from stepbench.stages.target_driver import UNDO_LIMIT_S, UNDO_POLL_S

if TYPE_CHECKING:
    from stepbench.contracts.plan import Scale

LOAD = [{"rate_per_s": 1, "count": 2}]
PHASES = [
    {"name": "before", "load": LOAD},
    {"name": "after", "load": LOAD, "scale": {"capacity": {"mode": "provisioned", "write_units": 50}}},
]


class Slow(MemoryDriver):
    """Its new capacity is never active."""

    async def scale(self, scale: Scale) -> bool:
        """Ask, and be not there yet."""
        await super().scale(scale)
        return False


class Overtaken(MemoryDriver):
    """Its trial is cancelled while the capacity is being changed; `refusals` calls of tear-down are not enough."""

    def __init__(self, memory: MemoryServices, tag: str, refusals: float) -> None:
        super().__init__(memory.services.clock)
        self.table = memory.services.table
        self.tag = tag
        self.refusals = refusals

    async def scale(self, scale: Scale) -> bool:
        """Change it, in vain."""
        self.table.set_flag(self.tag, layout.CANCELLED, "Ctrl-C")
        return await super().scale(scale)

    async def tear_down(self) -> bool:
        """Be busy at first, as a table that is being updated."""
        self.refusals -= 1
        return await super().tear_down() and self.refusals < 0


class Fixed:
    """A store without any capacity to change; it is opened and closed, and asked for nothing else."""

    async def open(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


def scale(memory: MemoryServices, ref: TrialRef, driver: Any, phase: int = 1) -> bool:  # noqa: ANN401 -- some driver
    """Call the stage once."""
    task = ScaleTargetInput(ref=ref, phase=phase)
    return scale_target(task, memory.services, build=lambda _spec, _settings, _clock: driver).done


def scene() -> tuple[MemoryServices, TrialRef]:
    """Return a DynamoDB trial whose second phase is scaled."""
    memory = MemoryServices(FakeClock(now_ns=0))
    return memory, stored_trial(memory.services, small_plan("dynamodb", phases=PHASES))


def test_the_store_is_asked_for_the_phase_s_capacity() -> None:
    """And the connection is closed again."""
    memory, ref = scene()
    driver = MemoryDriver(memory.services.clock)
    assert scale(memory, ref, driver)
    assert driver.calls == ["open", "scale to provisioned", "close"]


def test_a_phase_without_scaling_does_not_touch_the_store() -> None:
    """A connection to it would already be a disturbance."""
    memory, ref = scene()
    driver = MemoryDriver(memory.services.clock)
    assert scale(memory, ref, driver, phase=0)
    assert driver.calls == []


def test_scaling_is_waited_for_and_given_up_in_the_end() -> None:
    """The limit holds over all calls of the loop, which know nothing of one another."""
    memory, ref = scene()
    assert not scale(memory, ref, Slow(memory.services.clock))
    memory.services.clock.sleep(SCALE_LIMIT_S)
    assert not scale(memory, ref, Slow(memory.services.clock))
    memory.services.clock.sleep(1)
    with pytest.raises(TargetUnavailableError, match=f"did not reach .*write_units=50.* within {SCALE_LIMIT_S} s"):
        scale(memory, ref, Slow(memory.services.clock))
    assert scale(memory, ref, MemoryDriver(memory.services.clock))


def test_a_store_without_capacity_says_so() -> None:
    """Validation refuses such plans; a driver that loses the ability must not pass for scaled."""
    memory, ref = scene()
    with pytest.raises(TargetUnavailableError, match="has no capacity to scale"):
        scale(memory, ref, Fixed())


def test_a_cancelled_trial_is_not_scaled() -> None:
    """Capacity costs money."""
    memory, ref = scene()
    memory.services.table.set_flag(ref.tag, layout.CANCELLED, "Ctrl-C")
    driver = MemoryDriver(memory.services.clock)
    with pytest.raises(TrialCancelledError):
        scale(memory, ref, driver)
    assert driver.calls == []


def test_what_was_scaled_for_a_trial_that_is_to_stop_is_taken_back() -> None:
    """The sweeper may have torn down before the change was made, and nobody would come again."""
    memory, ref = scene()
    driver = Overtaken(memory, ref.tag, refusals=2)
    with pytest.raises(TrialCancelledError, match="Ctrl-C"):
        scale(memory, ref, driver)
    assert driver.calls == ["open", "scale to provisioned", *["tear_down"] * 3, "close"]


def test_taking_back_is_given_up_in_the_end() -> None:
    """The function has 15 minutes, and the hourly sweeper comes again."""
    memory, ref = scene()
    driver = Overtaken(memory, ref.tag, refusals=float("inf"))
    with pytest.raises(TrialCancelledError, match="Ctrl-C"):
        scale(memory, ref, driver)
    assert driver.calls[-1] == "close"
    assert UNDO_LIMIT_S <= memory.services.clock.now_ns() / 1e9 <= UNDO_LIMIT_S + UNDO_POLL_S

from __future__ import annotations

import asyncio

import pytest
from tests.samples.services import MemoryServices, stored_trial
from tests.support.memory_driver import MemoryDriver

from stepbench.errors import TargetUnavailableError
from stepbench.stages.target_driver import open_driver


class OneMore(MemoryDriver):
    """A store that always has one more thing to ask for."""

    async def ready(self) -> bool:
        """Ask for it, for ever."""
        while await asyncio.sleep(0, result=True):
            pass
        return True


class Late(MemoryDriver):
    """A driver with a time-out of its own."""

    async def ready(self) -> bool:
        """Be late."""
        message = "its own"
        raise TimeoutError(message)


def test_a_step_of_a_driver_ends_in_total() -> None:
    """Each request has a limit of its own, and there may be any number: the function would be killed without a word."""
    memory = MemoryServices()
    spec = memory.services.trial(stored_trial(memory.services))
    with (
        open_driver(spec, memory.services, lambda _spec, _settings, clock: OneMore(clock)) as opened,
        pytest.raises(TargetUnavailableError, match=r"s3#target: no whole answer within 0\.05 s"),
    ):
        opened.run(opened.driver.ready(), limit_s=0.05)
    with (
        open_driver(spec, memory.services, lambda _spec, _settings, clock: Late(clock)) as opened,
        pytest.raises(TimeoutError, match="its own"),
    ):
        opened.run(opened.driver.ready())

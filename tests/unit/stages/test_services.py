from __future__ import annotations

import asyncio
import sys

import pytest  # noqa: TC002 -- fixtures are annotated

from stepbench.stages.services import repeat, run_measuring
from stepbench.testing.fake_clock import START_NS, FakeClock


async def loop_module() -> str:
    """Return whose loop it is."""
    return type(asyncio.get_running_loop()).__module__


def test_the_measured_path_runs_on_uvloop() -> None:
    """Its share of a request is a third of asyncio's own."""
    assert run_measuring(loop_module()).startswith("uvloop")


def test_without_uvloop_asyncio_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not built for every system."""
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert run_measuring(loop_module()).startswith("asyncio")


def test_actions_keep_their_interval_and_end_between_two_of_them() -> None:
    """Broken off in the middle, a sign of life could arrive after the last one."""
    clock, log = FakeClock(), []

    async def action() -> None:
        log.append(("begins", (clock.now_ns() - START_NS) / 1e9))
        await asyncio.sleep(0.4)
        log.append(("ends", (clock.now_ns() - START_NS) / 1e9))

    async def run() -> None:
        done = asyncio.Event()
        asyncio.get_running_loop().call_later(1.2, done.set)
        await repeat(1.0, action, done)

    clock.run(run())
    assert log == [("begins", 0.0), ("ends", 0.4), ("begins", 1.0), ("ends", 1.4)]

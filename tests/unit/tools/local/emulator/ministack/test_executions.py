"""The wait before an execution, which is MiniStack's alone."""

from __future__ import annotations

from types import SimpleNamespace

from stepbench_tools.local.emulator.ministack import executions


def test_only_the_wait_before_the_first_state_is_left_out() -> None:
    """A Wait state's time has to pass; and whatever else the module `time` has, is still there."""
    slept: list[float] = []
    service = SimpleNamespace(time=SimpleNamespace(sleep=slept.append, monotonic=lambda: 7.0))
    executions.begin_at_once(service)
    for seconds in (executions.BEFORE_FIRST_STATE_S, 0.2, 1):
        service.time.sleep(seconds)
    assert (slept, service.time.monotonic()) == ([0.2, 1], 7.0)

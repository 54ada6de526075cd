from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.fake_clock import FakeClock

from stepbench_tools.local.executions import NotStoppedError, Stopping


class Moving(Stopping):
    """An attempt to stop what comes to rest at that second, if ever."""

    at_rest_s: float = 0

    def moving(self) -> list[str]:
        """Return one writer until then."""
        return ["2 writers"] if self.clock.now_ns() < self.at_rest_s * 10**9 else []


@pytest.fixture
def attempt() -> Moving:
    """Return one on a clock of its own."""
    notes: list[str] = []
    executions = cast("Any", SimpleNamespace(run=SimpleNamespace(run_id="r")))
    return Moving(executions, FakeClock(0), notes.append)


def test_who_waits_for_a_stop_hears_what_is_waited_for(attempt: Moving) -> None:
    """On a busy host writers take half a minute, in which nothing else is said."""
    notes = cast("Any", attempt.notify).__self__
    attempt.at_rest_s = 12
    attempt.await_rest()
    assert notes == ["waiting for 2 writers"] * 2


def test_what_never_comes_to_rest_is_named(attempt: Moving) -> None:
    """The wait has an end."""
    attempt.at_rest_s = float("inf")
    with pytest.raises(NotStoppedError, match="run r still moves: 2 writers"):
        attempt.await_rest()

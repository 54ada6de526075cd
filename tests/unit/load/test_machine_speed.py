"""Looks at the machine's own cores; what they find there depends on the machine, and decides nothing here."""

from __future__ import annotations

import os

import pytest

from stepbench.load.machine_speed import check_cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not let threads choose a core")
def test_each_core_is_looked_at_and_the_thread_is_free_again() -> None:
    """A process that stayed on one core would share it with all that it starts."""
    before = os.sched_getaffinity(0)
    found = check_cores(seconds=0.02)
    assert os.sched_getaffinity(0) == before
    assert found.looked_s >= 0.02 * min(2, len(before))
    assert 0 <= found.share <= 1
    assert check_cores((max(before),), seconds=0.02).looked_s >= 0.02


def test_without_a_way_to_choose_one_look_has_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS."""
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    assert check_cores(seconds=0.02).looked_s >= 0.02

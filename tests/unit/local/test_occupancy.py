"""Who is in an environment, and what a command finds that comes after a `kill -9`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from stepbench.errors import LocalEnvironmentError
from stepbench.local.occupancy import OCCUPIED, occupied

if TYPE_CHECKING:
    from pathlib import Path


def test_a_second_run_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    """Both would be measured with the other's load, and the first to end would end the other's servers."""
    with occupied(tmp_path) as first:
        first.begin(warm=False)
        with (
            pytest.raises(LocalEnvironmentError, match=rf"a run \(pid {os.getpid()}\).*STEPBENCH_HOME"),
            occupied(tmp_path),
        ):
            pass


def test_up_or_down_at_work_is_named_as_such(tmp_path: Path) -> None:
    """They are no runs, and soon over."""
    with occupied(tmp_path), pytest.raises(LocalEnvironmentError, match="another stepbench"), occupied(tmp_path):
        pass


def test_an_orderly_end_leaves_no_note(tmp_path: Path) -> None:
    """The next run must not throw a warm environment away."""
    with occupied(tmp_path) as first:
        first.begin(warm=True)
        first.end()
    with occupied(tmp_path) as second:
        assert (second.killed, second.was_warm) == (False, False)


@pytest.mark.parametrize("warm", [True, False])
def test_a_killed_run_is_known_by_its_note(tmp_path: Path, *, warm: bool) -> None:
    """The kernel has taken the lock back, and nobody has written the end."""
    with occupied(tmp_path) as first:
        first.begin(warm=warm)
    with occupied(tmp_path) as second:
        assert (second.killed, second.was_warm) == (True, warm)
    assert (tmp_path / OCCUPIED).read_text().startswith(str(os.getpid()))

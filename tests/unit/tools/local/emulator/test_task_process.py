"""The process beside a task's: how it passes on what it is told, and what it says of the task's end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from stepbench_tools.local.emulator import task_process
from stepbench_tools.local.processes import await_end, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

DEAF = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(60)
"""
HEARS = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(60)
"""


class Keeper:
    """A started keeper and the task that it keeps."""

    def __init__(self, folder: Path, program: str, stop_s: float) -> None:
        self.note = folder / "pid"
        command = [sys.executable, task_process.__file__, str(stop_s), sys.executable, "-c", program, str(self.note)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE)
        wait_until("the task runs", lambda: self.note.exists() and self.note.read_text() != "", timeout_s=30)
        self.task = psutil.Process(int(self.note.read_text()))

    def close(self) -> None:
        """End both."""
        self.process.kill()
        self.process.wait(30)
        if self.process.stdin is not None:
            self.process.stdin.close()


@pytest.fixture
def started(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Keeper]:
    """Start a keeper with the program of the parameter."""
    program, stop_s = request.param
    keeper = Keeper(tmp_path, program, stop_s)
    yield keeper
    keeper.close()


@pytest.mark.parametrize("code", [0, 3])
def test_its_exit_code_is_the_task_s(code: int) -> None:
    """ECS says it of the container, and the state machine fails by it."""
    command = [sys.executable, "-c", f"raise SystemExit({code})"]
    keeper = subprocess.Popen([sys.executable, task_process.__file__, "30", *command], stdin=subprocess.PIPE)
    assert keeper.wait(30) == code
    assert keeper.stdin is not None
    keeper.stdin.close()


@pytest.mark.parametrize("started", [(HEARS, 30)], indirect=True)
def test_what_hears_sigterm_ends_by_itself(started: Keeper) -> None:
    """It stores what it has; its own exit code stands."""
    started.process.terminate()
    assert started.process.wait(30) == 0


@pytest.mark.parametrize("started", [(DEAF, 0.1)], indirect=True)
def test_what_does_not_is_killed_after_the_stop_timeout(started: Keeper) -> None:
    """As ECS does; 137 is how a container says so."""
    started.process.terminate()
    assert started.process.wait(30) == 128 + signal.SIGKILL


@pytest.mark.parametrize("started", [(DEAF, 30)], indirect=True)
def test_a_task_ends_when_nobody_holds_its_lifeline(started: Keeper) -> None:
    """The emulator held it; the kernel has closed it."""
    assert started.process.stdin is not None
    started.process.stdin.close()
    assert await_end([started.task], 30) == []


@pytest.mark.parametrize("started", [(DEAF, 30)], indirect=True)
def test_a_task_does_not_outlive_its_keeper(started: Keeper) -> None:
    """Whoever kills the keeper has killed the task."""
    os.kill(started.process.pid, signal.SIGKILL)
    assert await_end([started.task], 30) == []

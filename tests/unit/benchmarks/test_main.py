"""How a benchmark ends that is to end before it is done."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from benchmarks import __main__ as benchmarks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STOPS = """
import os, pathlib, signal, sys, time
try:
    print("ready", flush=True)
    {meanwhile}
    time.sleep(60)
finally:
    time.sleep(0.5)  # twice what subprocess.run would grant
    pathlib.Path("stopped").write_text(str(os.getpgrp() == os.getpid()))
"""
"""The script stands for a benchmark whose servers take a while to stop."""


@pytest.fixture(autouse=True)
def ctrl_c() -> Iterator[None]:
    """Heed Ctrl-C also where a shell has put us into the background, and told us to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def child(directory: Path, script: str) -> subprocess.Popen[bytes]:
    """Start a script, and wait until it runs."""
    command = [sys.executable, "-c", script]
    made = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, process_group=0)
    assert made.stdout is not None
    with made.stdout as said:
        said.readline()
    return made


def test_ctrl_c_leaves_a_benchmark_time_to_stop_its_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They live in sessions of their own; and a second signal, the terminal's, would break the stopping off."""
    (tmp_path / "benchmarks").mkdir()
    is_awaited = "any(pathlib.Path('awaited').exists() or time.sleep(0.01) for _ in range(6_000))"
    script = STOPS.format(meanwhile=f"{is_awaited}\n    os.kill(os.getppid(), signal.SIGINT)")
    (tmp_path / "benchmarks" / "redis.py").write_text(script)
    wait = subprocess.Popen.wait

    def noted(child: subprocess.Popen[bytes], limit_s: float | None = None) -> int:
        (tmp_path / "awaited").touch()
        return wait(child, limit_s)

    monkeypatch.setattr(subprocess.Popen, "wait", noted)
    monkeypatch.setattr(benchmarks, "ROOT", tmp_path)
    with pytest.raises(KeyboardInterrupt):
        benchmarks.run("redis", [])
    assert (tmp_path / "stopped").read_text() == "True"


def test_so_does_the_time_limit(tmp_path: Path) -> None:
    """It is met by a benchmark that hangs, with its servers up."""
    with pytest.raises(subprocess.TimeoutExpired):
        benchmarks.awaited(child(tmp_path, STOPS.format(meanwhile="pass")), limit_s=0.01)
    assert (tmp_path / "stopped").exists()


def test_one_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    """The others have their turn."""
    deaf = child(tmp_path, "import signal, time; signal.signal(2, signal.SIG_IGN); print(flush=True); time.sleep(60)")
    with pytest.raises(subprocess.TimeoutExpired):
        benchmarks.awaited(deaf, limit_s=0.01, grace_s=0.01)
    assert deaf.returncode == -signal.SIGKILL

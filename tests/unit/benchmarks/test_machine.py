from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from benchmarks import machine

if TYPE_CHECKING:
    from collections.abc import Iterator


class Kernel:
    """One that lets us use some cores, and keeps what was pinned; threads in `ended` are gone."""

    def __init__(self, *cores: int) -> None:
        self.of_ours = set(cores)
        self.pinned: list[set[int]] = []
        self.ended = 0

    def set(self, _thread: int, cores: set[int]) -> None:
        """As `os.sched_setaffinity`, which also narrows what the next look shows."""
        if self.ended:
            self.ended -= 1
            raise ProcessLookupError
        self.of_ours = cores
        self.pinned.append(cores)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """A container that has cores 2 and 5."""
    made = Kernel(5, 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: made.of_ours)
    monkeypatch.setattr(os, "sched_setaffinity", made.set)
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/taskset")
    machine._cores.cache_clear()
    yield made
    machine._cores.cache_clear()


def test_cores_are_those_that_we_may_use(kernel: Kernel) -> None:
    """In a container core 0 may be somebody else's, and to ask for it fails."""
    with machine.pinned():
        assert kernel.of_ours == {2}
        assert machine.on_core(["server"]) == ["taskset", "--cpu-list", "5", "server"]
        machine.pin_pids([os.getpid()])
        assert kernel.of_ours == {5}
    assert kernel.of_ours == {2, 5}


def test_one_core_is_shared(kernel: Kernel) -> None:
    """However many the machine has."""
    kernel.of_ours = {5}
    assert machine.on_core(["server"]) == ["server"]
    assert machine.notes() == (machine.SHARED,)


def test_what_has_ended_meanwhile_is_let_go(kernel: Kernel) -> None:
    """A server's helper that ends between listing and pinning would fail the benchmark."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    machine.pin_pids([child.pid])
    assert kernel.pinned == []
    kernel.ended = 1
    machine.pin_pids([os.getpid()])  # its first thread is gone
    machine.pin_pids([os.getpid()])
    assert {5} in kernel.pinned

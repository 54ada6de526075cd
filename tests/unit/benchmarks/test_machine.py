from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import pytest
from benchmarks import machine

from stepbench.contracts.findings import SlowSpells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Kernel:
    """A kernel that lets us use some cores, and keeps what was pinned; the first `ended` threads are gone."""

    def __init__(self, *cores: int) -> None:
        self.of_ours = set(cores)
        self.pinned: list[set[int]] = []
        self.ended = 0

    def set(self, _thread: int, cores: set[int]) -> None:
        """Narrow what the next look shows, in the place of `os.sched_setaffinity`."""
        if self.ended:
            self.ended -= 1
            raise ProcessLookupError
        self.of_ours = cores
        self.pinned.append(cores)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """Yield the kernel of a container that has cores 2 and 5."""
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
    """What the machine has beyond ours does not help."""
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


def seen(share: float) -> SlowSpells:
    """Return what a look has seen: two spells of 50 ms, or none."""
    return SlowSpells(looked_s=1.3, share=share, longest_ms=50 if share else 0, spells=2 if share else 0)


class Host:
    """
    A host that takes a share of the second core under each part of each round, which lasts one second.

    `slow`: shares of the time in which cores were slow in the looks, one before each round.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *shares: float) -> None:
        self.shares = iter(shares)
        self.slow: Iterator[float] = iter(())
        self.stolen_s = self.now_s = 0.0
        self.parts = ""
        monkeypatch.setattr(machine, "_kept", [])
        monkeypatch.setattr(machine, "_left_out", [])
        monkeypatch.setattr("time.monotonic", lambda: self.now_s)

    def part(self, name: str) -> int:
        """Run a part that the host disturbs; return its number among all."""
        self.now_s += 1
        self.stolen_s += next(self.shares, 0)
        self.parts += name
        return len(self.parts) - 1

    def calmest(self, wanted: int, parts: str = "a") -> list[tuple[int, ...]]:
        """Return the numbers of the parts that are kept."""
        measured = [partial(self.part, name) for name in parts]
        return machine.calmest(wanted, measured, lambda: (0, self.stolen_s), lambda: seen(next(self.slow, 0)))


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Host]:
    """Return a function that makes a host."""
    return lambda *shares: Host(monkeypatch, *shares)


def test_calm_rounds_are_kept_as_they_come(host: Callable[..., Host]) -> None:
    """Nothing is measured again, there is nothing to say, and the parts take turns in who goes first."""
    resting = host()
    assert resting.calmest(3, "ab") == [(0, 1), (3, 2), (4, 5)]
    assert resting.parts == "abbaab"
    assert machine.steal_notes() == machine.speed_notes() == ()


def test_rounds_are_measured_until_enough_are_calm(host: Callable[..., Host]) -> None:
    """Both orders count; the rounds kept stay in the order in which they were measured."""
    assert host(0.4, 0.01, 0, 0.1, 0.015).calmest(3) == [(1,), (2,), (4,)]
    (note,) = machine.steal_notes()
    assert "1.0% of a core in the median round, 1.5% in the worst; 2 of 5 rounds were left out" in note


def test_both_orders_are_kept_alike(host: Callable[..., Host]) -> None:
    """Two calm rounds of the first order are no substitute for one of the second."""
    assert host(0, 0.5, 0, 0.01).calmest(2) == [(0,), (3,)]


def test_one_disturbed_part_disturbs_its_round(host: Callable[..., Host]) -> None:
    """The other part's calm does not make up for it."""
    assert host(0, 0.03).calmest(2, "ab") == [(3, 2), (4, 5)]


def test_it_ends_where_the_host_never_rests(host: Callable[..., Host]) -> None:
    """Then the calmest stand, and the note says how calm they were."""
    restless = host(0.5, 0.3, 0.4, 0.2)
    assert restless.calmest(2) == [(2,), (3,)]
    assert restless.now_s == 2 * machine.MOST_TIMES
    assert "30.0% of a core in the median round, 40.0% in the worst; 2 of 4 rounds" in machine.steal_notes()[0]


def test_rounds_of_a_slow_machine_are_left_out(host: Callable[..., Host]) -> None:
    """It takes nothing that a kernel counts, and makes tails all the same."""
    slow = host()
    slow.slow = iter([0.077, 0, 0, 0.005])
    assert slow.calmest(3) == [(1,), (2,), (4,)]
    assert machine.steal_notes() == ()
    (note,) = machine.speed_notes()
    assert note.startswith(
        "This machine ran below 60 % of its speed in 1.6 % of the 6.5 s that were looked at, for up to"
    )
    assert note.endswith("There were such spells before 1 of 5 rounds, of which 0 were kept.")


def test_a_machine_that_is_always_slow_is_marked(host: Callable[..., Host]) -> None:
    """There are no better rounds to have; whoever reads the figures has to know."""
    slow = host()
    slow.slow = iter([0.077] * 4)
    assert slow.calmest(2) == [(0,), (1,)]
    assert machine.speed_notes()[0].endswith("before 4 of 4 rounds, of which 2 were kept.")


def test_a_single_round_is_measured_once(host: Callable[..., Host]) -> None:
    """A quick look stays quick."""
    assert host(0.5).calmest(1) == [(0,)]


def test_the_kernel_tells_what_was_stolen() -> None:
    """Each round is kept or left out by the real clock and the kernel's own figures, whatever these are."""
    numbers = count()
    assert len(machine.calmest(2, [lambda: next(numbers)], look=lambda: seen(0))) == 2
    assert next(numbers) >= 2

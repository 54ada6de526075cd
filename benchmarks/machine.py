"""
The machine of a benchmark: what it is, and which core does what.

Ours and its comparators run on the first core, servers on the second, so that neither takes the other's time and a
figure of "one core" is one. Where there is only one, or no way to choose, everything shares it, and `apart()` says so.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import time
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil
from benchmarks.result import Machine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

LOAD_CORE, SERVER_CORE = 0, 1
"""Of those that we may use, in their order: a container may have any."""
_ENDED = (FileNotFoundError, ProcessLookupError)
"""What /proc and the kernel say of a process or thread that is gone."""
SHARED = "Load and servers shared the cores: this machine has one, or no way to choose (taskset)."


def apart() -> bool:
    """Whether load and servers can have a core each."""
    return len(_cores()) > SERVER_CORE and bool(shutil.which("taskset"))


def cores() -> tuple[int, ...]:
    """Those of load and servers; all that we may use where these share them."""
    return _cores()[: SERVER_CORE + 1] if apart() else _cores()


@cache
def _cores() -> tuple[int, ...]:
    """What we may use, as it was before we pinned ourselves; none where there is no way to choose."""
    return tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()


def notes() -> tuple[str, ...]:
    """What a result has to say of the cores; nothing where all is as it should be."""
    return () if apart() else (SHARED,)


@contextlib.contextmanager
def pinned(core: int = LOAD_CORE) -> Iterator[None]:
    """This process on one core, with all its threads and what it starts; as before afterwards."""
    if not apart():
        yield
        return
    before = os.sched_getaffinity(0)
    _pin_threads(os.getpid(), {_cores()[core]})
    try:
        yield
    finally:
        _pin_threads(os.getpid(), before)


def on_core(command: Sequence[str | Path], core: int = SERVER_CORE) -> list[str]:
    """The command that runs this one on a core."""
    parts = [str(part) for part in command]
    return ["taskset", "--cpu-list", str(_cores()[core]), *parts] if apart() else parts


def pin_pids(pids: Iterable[int], core: int = SERVER_CORE) -> None:
    """Processes that run already, with their threads and children; what these start later inherits it."""
    if not apart():
        return
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = psutil.Process(pid)
            for process in (parent, *parent.children(recursive=True)):
                _pin_threads(process.pid, {_cores()[core]})


def _pin_threads(pid: int, cores: set[int]) -> None:
    with contextlib.suppress(*_ENDED):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(*_ENDED):
                os.sched_setaffinity(int(thread.name), cores)


def load_average() -> float:
    """Of the last minute: what else the machine does."""
    return round(os.getloadavg()[0], 2)


class Pauses(NamedTuple):
    """What a loop that only looks at the clock did not get of its core: a share of the time, and the longest pause."""

    share: float
    longest_ms: float

    def words(self) -> str:
        """A note for a result that depends on it."""
        return (
            f"The core itself paused: just before, a loop that only looked at the clock lost {self.share:.1%} of its "
            f"time, {self.longest_ms:.1f} ms at the longest, to other processes or to the host of a virtual machine."
        )


def pauses(seconds: float = 2.0, least_ns: int = 50_000) -> Pauses:
    """
    Spin, and count the gaps of `least_ns` or more between two looks at the clock.

    A virtual machine's host may take a core away without saying so (steal time stays 0): no loop can be more punctual
    than this.
    """
    begin_ns = last_ns = time.monotonic_ns()
    end_ns, lost_ns, longest_ns = begin_ns + round(seconds * 1e9), 0, 0
    while last_ns < end_ns:
        now_ns = time.monotonic_ns()
        if now_ns - last_ns >= least_ns:
            lost_ns, longest_ns = lost_ns + now_ns - last_ns, max(longest_ns, now_ns - last_ns)
        last_ns = now_ns
    return Pauses(lost_ns / (last_ns - begin_ns), longest_ns / 1e6)


def describe(load_at_start: float) -> Machine:
    """Of the machine and the moment; to be called at a benchmark's end."""
    return Machine(
        cpu=_cpu_model(),
        cores=os.cpu_count() or 1,
        memory_gb=round(psutil.virtual_memory().total / 1e9, 1),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        load_average=(load_at_start, load_average()),
    )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = dict(line.split(":", 1) for line in lines if ":" in line)
    names = {name.strip(): value.strip() for name, value in named.items()}
    return names.get("model name", platform.machine())

"""
The machine of a benchmark: what it is, and which core does what.

Ours and its comparators run on the first core, servers on the second, so that neither takes the other's time and a
figure of "one core" is one. Where there is only one, or no way to choose, everything shares it, and `apart()` says so.

A virtual machine's host takes its cores away at times, and tells it as steal. More rounds are measured while there are
too few during which it took less than `CALM` of a core; kept are the calmest. Some hosts slow a core down instead, for
a twentieth of a second at a time, and do not tell: before each round a loop counts its own work on both cores, and
rounds in whose look there were such spells count as disturbed, too. What decides is the host's doing alone: no round's
figures are looked at. As many of those kept began with the first as with the last of what is compared, or one more.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import statistics
import time
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
from benchmarks.result import Machine

from stepbench.analysis.slow_spells import describe_slow_spells
from stepbench.contracts.findings import SlowSpells
from stepbench.load.machine_speed import check_cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence


LOAD_CORE, SERVER_CORE = 0, 1
"""They count those that we may use, in order: a container may have any."""
_ENDED = (FileNotFoundError, ProcessLookupError)
"""What /proc and the kernel say of a process or thread that is gone."""
SHARED = "Load and servers shared the cores: this machine has one, or no way to choose (taskset)."


def apart() -> bool:
    """Tell whether load and servers can have a core each."""
    return len(_cores()) > SERVER_CORE and bool(shutil.which("taskset"))


def cores() -> tuple[int, ...]:
    """Return the cores of load and servers; all that we may use where these share them."""
    return _cores()[: SERVER_CORE + 1] if apart() else _cores()


@cache
def _cores() -> tuple[int, ...]:
    """Return what we may use, as it was before we pinned ourselves; none where there is no way to choose."""
    return tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()


def notes() -> tuple[str, ...]:
    """Return what a result has to say of the cores; nothing where all is as it should be."""
    return () if apart() else (SHARED,)


@contextlib.contextmanager
def pinned(core: int = LOAD_CORE) -> Iterator[None]:
    """Keep this process on one core, with all its threads and what it starts; as before afterwards."""
    if not apart():
        yield
        return
    before = os.sched_getaffinity(0)
    _pin_threads(os.getpid(), {_cores()[core]})
    try:
        yield
    finally:
        _pin_threads(os.getpid(), before)


@contextlib.contextmanager
def shared() -> Iterator[None]:
    """Give this process, and what it starts, all cores within `pinned`: for a server that is to have more than one."""
    if not apart():
        yield
        return
    _pin_threads(os.getpid(), set(_cores()))
    try:
        yield
    finally:
        _pin_threads(os.getpid(), {_cores()[LOAD_CORE]})


def on_core(command: Sequence[str | Path], core: int = SERVER_CORE) -> list[str]:
    """Return the command that runs this one on a core."""
    parts = [str(part) for part in command]
    return ["taskset", "--cpu-list", str(_cores()[core]), *parts] if apart() else parts


def pin_pids(pids: Iterable[int], core: int = SERVER_CORE) -> None:
    """Pin processes that run already, with their threads and children; what these start later inherits it."""
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
    """Return the load of the last minute: what else the machine does."""
    return round(os.getloadavg()[0], 2)


class Pauses(NamedTuple):
    """The time that a loop which only looks at the clock did not get of its core: a share, and the longest pause."""

    share: float
    longest_ms: float

    def words(self) -> str:
        """Return a note for a result that depends on it."""
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
    """Describe the machine and the moment; to be called at a benchmark's end."""
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


CALM = 0.02
"""So much of any core's time under a part of the round may be the host's."""
MOST_TIMES = 2
"""So many times as many rounds as are wanted are measured at most."""

SPEED_CHECK_S = 0.65
"""Of each core: half of the time in which such hosts slow one down twice."""

_kept: list[_Round] = []
_left_out: list[_Round] = []
"""This benchmark's rounds, without what they have found."""


class _Round(NamedTuple):
    """share: the host's, of the core and under the part that it took most of. slow: the cores' spells before it."""

    share: float
    slow: SlowSpells | None
    number: int
    found: tuple[Any, ...]

    @property
    def disturbed(self) -> float:
        return self.share + (self.slow.share if self.slow is not None and self.slow.matter else 0.0)


def calmest(
    wanted: int,
    parts: Sequence[Callable[[], Any]],
    stolen_s: Callable[[], Sequence[float]] | None = None,
    look: Callable[[], SlowSpells] | None = None,
) -> list[tuple[Any, ...]]:
    """
    Return what the parts of so many rounds have given, in the order in which these were measured.

    Args:
        wanted: how many rounds; a single one is measured once.
        parts: all that a round measures; every other round begins with the last.
        stolen_s: tells what the host has taken so far, by core.
        look: tells how fast the cores are; before each round, but not before a single one.
    """
    stolen_s = stolen_s or _stolen_s
    look = look or (lambda: check_cores(cores() or None, SPEED_CHECK_S))
    measured: list[_Round] = []
    while len(measured) < (wanted if wanted == 1 else MOST_TIMES * wanted) and not _are_calm(measured, wanted):
        slow = look() if wanted > 1 else None
        measured.append(_measured(len(measured), parts, stolen_s)._replace(slow=slow))
    kept = sorted((each for some in _halves(measured, wanted) for each in some), key=attrgetter("number"))
    _kept.extend(each._replace(found=()) for each in kept)
    _left_out.extend(each._replace(found=()) for each in measured if each not in kept)
    return [each.found for each in kept]


def steal_notes() -> tuple[str, ...]:
    """Return what a result has to say of the host; nothing where it took next to nothing."""
    if max((each.share for each in (*_kept, *_left_out)), default=0) < CALM / 2:
        return ()
    kept, left_out = [each.share for each in _kept], len(_left_out)
    usual, worst = statistics.median(kept), max(kept)
    for_calmer = f"; {left_out:,} of {left_out + len(_kept):,} rounds were left out for calmer ones" if left_out else ""
    shares = f"{usual:.1%} of a core in the median round, {worst:.1%} in the worst"
    return (f"The host of this virtual machine took {shares}{for_calmer}.",)


def speed_notes() -> tuple[str, ...]:
    """Return what a result has to say of the cores' speed; nothing where none was slow for spells at a time."""
    looks = [each.slow for each in (*_kept, *_left_out) if each.slow is not None]
    kept = sum(each.slow is not None and each.slow.matter for each in _kept)
    slow, seen = sum(each.matter for each in looks), SlowSpells.merged(looks)
    if seen is None or not slow:
        return ()
    counts = f"before {slow:,} of {len(looks):,} rounds, of which {kept:,} were kept"
    return (f"{describe_slow_spells(seen)}. There were such spells {counts}.",)


def _measured(number: int, parts: Sequence[Callable[[], Any]], stolen_s: Callable[[], Sequence[float]]) -> _Round:
    found: dict[int, Any] = {}
    share = 0.0
    for place in sorted(range(len(parts)), reverse=bool(number % 2)):
        before_s, begun_s = stolen_s(), time.monotonic()
        found[place] = parts[place]()
        took_s = time.monotonic() - begun_s
        share = max(share, *((after - before) / took_s for before, after in zip(before_s, stolen_s(), strict=True)))
    return _Round(share, None, number, tuple(found[place] for place in range(len(parts))))


def _halves(measured: Sequence[_Round], wanted: int) -> tuple[list[_Round], list[_Round]]:
    """Return the calmest rounds that began with the first part, and those that began with the last."""
    first, last = (sorted(measured[begin::2], key=attrgetter("disturbed", "number")) for begin in (0, 1))
    return first[: wanted - wanted // 2], last[: wanted // 2]


def _are_calm(measured: Sequence[_Round], wanted: int) -> bool:
    kept = [each for some in _halves(measured, wanted) for each in some]
    return len(kept) == wanted and all(each.disturbed <= CALM for each in kept)


def _stolen_s() -> list[float]:
    """Return what was stolen of the cores that load and servers have, or of all."""
    by_core = [float(getattr(each, "steal", 0.0)) for each in psutil.cpu_times(percpu=True)]
    return [by_core[core] for core in cores() if core < len(by_core)] or by_core

"""Where a Java server spends its processor time, by what its threads are called: a profile without an agent."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_USER, _SYSTEM = 11, 12
"""Fields of /proc's stat behind the name, from 0."""
_NAMED = {
    "C1 CompilerThre": "JIT compiler",
    "C2 CompilerThre": "JIT compiler",
    "CompactionExecu": "compaction",
    "G1 Conc": "garbage collection",
    "G1 Main Marker": "garbage collection",
    "G1 Refine": "garbage collection",
    "G1 Service": "garbage collection",
    "GC Thread": "garbage collection",
    "MemtableFlushWr": "memtable flush",
    "MutationStage": "writes",
    "Native-Transpor": "requests",
    "PERIODIC-COMMIT": "commit log",
    "COMMIT-LOG-ALLO": "commit log",
    "ReadStage": "reads",
    "epollEventLoopG": "network",
}


def thread_times_s(pid: int) -> dict[str, float]:
    """Return a process's processor time so far, in seconds, by kind of thread; threads that have ended are left out."""
    times: dict[str, float] = defaultdict(float)
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            name, fields = _parse((task / "stat").read_text())
            times[_kind(name)] += (int(fields[_USER]) + int(fields[_SYSTEM])) / _TICKS_PER_S
    return times


def words(before: Mapping[str, float], after: Mapping[str, float], own_s: float, at_least: float = 0.03) -> str:
    """Return the shares of what was spent between two looks, and by the load itself, the largest first."""
    spent = {name: each - before.get(name, 0.0) for name, each in after.items()} | {"the load itself": own_s}
    total = sum(spent.values()) or 1.0
    ordered = sorted(spent.items(), key=itemgetter(1), reverse=True)
    return ", ".join(f"{name} {each / total:.0%}" for name, each in ordered if each / total >= at_least)


def _parse(stat: str) -> tuple[str, list[str]]:
    """Return name and further fields; a name may hold spaces and brackets."""
    name, _, rest = stat.partition("(")[2].rpartition(")")
    return name, rest.split()


def _kind(name: str) -> str:
    return next((kind for start, kind in _NAMED.items() if name.startswith(start)), "other threads")

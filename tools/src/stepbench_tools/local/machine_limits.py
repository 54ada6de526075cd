"""
What a run needs of this machine, asked once at its start: open files, threads, memory, disk, and room for results.

A server that meets a limit says so in its own log at best, and who waits for it learns of a time-out, minutes later.
"""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil

from stepbench.digits import count
from stepbench.errors import PlanError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepbench.contracts.plan import Plan
    from stepbench_tools.local.paths import Paths

MIB = 1 << 20
MEMORY_BYTES = 1_024 * MIB
"""`quick-unloaded` takes twice as much at its peak: with less than this it swaps, or is ended by the kernel."""
HOME_BYTES, BUILD_BYTES = 512 * MIB, 2_560 * MIB
"""Disk space for servers' data and logs; for the first build with its caches, which later ones use again."""
LEAST_BYTES = 1 << 20
"""How much is written as a test, and how much a page may take, or a trial's result and its share of the page."""
BYTES_AN_EVENT = 200
"""Bytes of column files and Parquet together; large runs have about 60, small ones more."""
_CGROUP = Path("/sys/fs/cgroup")


class Need(NamedTuple):
    """
    One limit of a process, or of its user.

    option: of `ulimit`. number: in `resource`. least: what has to be allowed. unit: bytes of one of `ulimit`'s, or 1.
    """

    option: str
    number: int
    least: int
    what: str
    unit: int = 1


NEEDS = (
    Need("-n", resource.RLIMIT_NOFILE, 1_024, "open files, as Lambda's functions have"),
    Need("-u", resource.RLIMIT_NPROC, 512, "processes and threads more"),
    Need("-v", resource.RLIMIT_AS, 4_096 * MIB, "KiB of addresses for a process (10 GiB for etcd's)", 1_024),
    Need("-d", resource.RLIMIT_DATA, 2_048 * MIB, "KiB of data for a process", 1_024),
    Need("-f", resource.RLIMIT_FSIZE, 256 * MIB, "KiB for a file", 1_024),
    Need("-t", resource.RLIMIT_CPU, 3_600, "s of CPU for a process"),
)


class Room(NamedTuple):
    """
    It holds what is left to a local run.

    limits: by `ulimit`'s option, those that there are. memory_bytes: to be had without swapping. disk: free and needed
    bytes by folder.
    """

    limits: Mapping[str, int]
    memory_bytes: int
    disk: Mapping[str, tuple[int, int]]


def require_room(paths: Paths, *, starts: bool) -> None:
    """
    See that a local run has what it needs, before anything is started; limits are raised where the user may.

    Args:
        paths: where servers' data and the build go.
        starts: whether servers are still to be started: what they take of memory and disk is not taken already.

    Raises:
        PlanError: something is too little; with all that is, what is needed, and what to do.
    """
    limits = {need.option: limit for need in NEEDS if (limit := _left(need)) is not None}
    disk = {str(folder): (_free_bytes(folder), needed) for folder, needed in _folders(paths)} if starts else {}
    memory_bytes = _available_bytes() if starts else MEMORY_BYTES
    if problems := find_shortages(Room(limits, memory_bytes, disk)):
        raise PlanError(problems)


def find_shortages(room: Room) -> list[Problem]:
    """Return a problem for each thing of which there is too little."""
    problems = []
    for option, _, least, what, unit in NEEDS:
        if room.limits.get(option, least) < least:
            needed, found = count(least // unit), count(room.limits[option] // unit)
            remedy = f"Raise it; above the hard limit (`ulimit -H{option[1]}`) only root can."
            problems.append(Problem(f"ulimit {option}", found, f"a local run needs {needed} {what}", remedy))
    if room.memory_bytes < MEMORY_BYTES:
        message = f"a local run needs {count(MEMORY_BYTES // MIB)} MiB at least"
        remedy = "Close what else runs here, `stepbench down` other environments, or give the container more."
        problems.append(Problem("memory", f"{count(room.memory_bytes // MIB)} MiB available", message, remedy))
    for folder, (free, wanted) in room.disk.items():
        if free < wanted:
            message = f"a local run needs {count(wanted // MIB)} MiB there"
            remedy = "Free some, or have STEPBENCH_HOME, or the clone, on another disk."
            problems.append(Problem(folder, f"{count(free // MIB)} MiB free", message, remedy))
    return problems


def _left(need: Need) -> int | None:
    """Return what a limit leaves, raised to what is needed where the hard one lets it; None where there is none."""
    soft, hard = resource.getrlimit(need.number)
    counts_user = need.number == resource.RLIMIT_NPROC
    if soft == resource.RLIM_INFINITY or (counts_user and os.getuid() == 0):
        return None
    taken = _own_threads() if counts_user else 0
    least = need.least + taken
    if soft < least:
        soft = least if hard == resource.RLIM_INFINITY else min(least, hard)
        resource.setrlimit(need.number, (soft, hard))
    return max(soft - taken, 0)


def _own_threads() -> int:
    """Return how many threads this user has, which is what the kernel counts as processes."""
    found = psutil.process_iter(["uids", "num_threads"])
    return sum(each.info["num_threads"] or 0 for each in found if each.info["uids"].real == os.getuid())


def _available_bytes() -> int:
    """Return the memory that can be had, of the machine or of our control group, whichever has less."""
    machine = int(psutil.virtual_memory().available)
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
        kept = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no control groups of version 2, or no limit (`max`)
        return machine
    return min(machine, limit - used + int(kept.get("inactive_file", 0)))


def _folders(paths: Paths) -> list[tuple[Path, int]]:
    is_built = paths.build.exists()
    return [(paths.home, HOME_BYTES), *([] if is_built else [(paths.installed, BUILD_BYTES)])]


def _free_bytes(folder: Path) -> int:
    """Return the free bytes of the disk that a folder is on, or will be."""
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    return shutil.disk_usage(existing).free


def expected_bytes(plans: Sequence[Plan]) -> int:
    """Estimate what the results of plans take on disk."""
    trials = [trial for plan in plans for trial in plan.trials]
    data = sum((BYTES_AN_EVENT * trial.events + LEAST_BYTES) * trial.copies for trial in trials)
    return data + LEAST_BYTES * len(plans)


def require_writable(out: Path, needed_bytes: int = LEAST_BYTES) -> None:
    """
    Make the folder for results, and see that they will have room there: before a run, not after it.

    Raises:
        PlanError: nothing can be written, or not so much (bad input).
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out) as probe:
            probe.write(bytes(LEAST_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
        space = os.statvfs(out)
    except OSError as error:
        message = f"cannot hold results: {error.strerror}"
        remedy = "Name a folder that you may write to, on a disk that is not full."
        raise PlanError([Problem(path="--out", value=f'"{out}"', message=message, remedy=remedy)]) from error
    if (free := space.f_bavail * space.f_frsize) < needed_bytes:
        message = f"has {count(free >> 20)} MiB free, and the results may take {count((needed_bytes >> 20) + 1)} MiB"
        remedy = "Free some, or name a folder on another disk."
        raise PlanError([Problem(path="--out", value=f'"{out}"', message=message, remedy=remedy)])

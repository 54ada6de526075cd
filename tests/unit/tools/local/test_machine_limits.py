"""What a local run needs of its machine is asked at its start, and said with what is there."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from stepbench.errors import PlanError
from stepbench_tools.local import machine_limits
from stepbench_tools.local.machine_limits import BUILD_BYTES, HOME_BYTES, MEMORY_BYTES, NEEDS, Room, find_shortages
from stepbench_tools.local.paths import Paths

if TYPE_CHECKING:
    from pathlib import Path

ENOUGH = Room({need.option: need.least for need in NEEDS}, MEMORY_BYTES, {"/home": (HOME_BYTES, HOME_BYTES)})


def test_enough_is_enough_and_no_limit_is_none() -> None:
    """A refusal of what has always run would be worse than a late one."""
    assert find_shortages(ENOUGH) == []
    assert find_shortages(ENOUGH._replace(limits={})) == []


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: need.option)
def test_each_limit_is_named_with_what_is_there_and_what_is_needed(need: machine_limits.Need) -> None:
    """In the unit that `ulimit` counts in."""
    (found,) = find_shortages(ENOUGH._replace(limits={**ENOUGH.limits, need.option: need.least // 2}))
    assert (found.path, found.value) == (f"ulimit {need.option}", f"{need.least // 2 // need.unit:,}")
    assert found.message == f"a local run needs {need.least // need.unit:,} {need.what}"
    assert f"`ulimit -H{need.option[1]}`" in found.remedy


def test_all_that_is_too_little_is_said_at_once() -> None:
    """Who mends one thing should not meet the next in the next run."""
    room = Room({"-n": 64, "-f": 0}, MEMORY_BYTES - 1, {"/home": (0, HOME_BYTES), "/clone": (1 << 30, BUILD_BYTES)})
    found = {problem.path: problem.value for problem in find_shortages(room)}
    assert found == {
        "ulimit -n": "64",
        "ulimit -f": "0",
        "memory": "1,023 MiB available",
        "/home": "0 MiB free",
        "/clone": "1,024 MiB free",
    }


def test_memory_of_a_control_group_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container has less than its machine; what it holds of files can be dropped."""
    monkeypatch.setattr(machine_limits, "_CGROUP", tmp_path)
    for name, text in {
        "memory.max": "300\n",
        "memory.current": "250\n",
        "memory.stat": "anon 1\ninactive_file 40\n",
    }.items():
        (tmp_path / name).write_text(text)
    room = Paths(tmp_path, tmp_path)
    with pytest.raises(PlanError, match=r"memory: a local run needs 1,024 MiB at least \(got 0 MiB available\)"):
        machine_limits.require_room(room, starts=True)
    machine_limits.require_room(room, starts=False)  # its servers have what they need already


PROGRAM = """
import os, resource, sys
from pathlib import Path
from stepbench.errors import PlanError
from stepbench_tools.local.machine_limits import require_room
from stepbench_tools.local.paths import Paths
number, soft, hard = map(int, sys.argv[1:])
resource.setrlimit(number, (soft, hard))
if number == resource.RLIMIT_NPROC and os.getuid() == 0:
    os.setuid(65_534)  # nobody: root has no such limit
try:
    require_room(Paths(Path(), Path()), starts=False)
except PlanError as error:
    print(error)
else:
    print(resource.getrlimit(number)[0])
"""


@pytest.mark.parametrize(
    ("number", "soft", "hard", "said"),
    [
        (
            resource.RLIMIT_NOFILE,
            256,
            256,
            "ulimit -n: a local run needs 1,024 open files, as Lambda's functions have (got 256)",
        ),
        (resource.RLIMIT_NOFILE, 64, 2_048, "1024"),
        (resource.RLIMIT_NPROC, 100, 100, "ulimit -u: a local run needs 512 processes and threads more (got "),
        (resource.RLIMIT_FSIZE, 1 << 20, 1 << 20, "ulimit -f: a local run needs 262,144 KiB for a file (got 1,024)"),
        (resource.RLIMIT_FSIZE, 1 << 20, 1 << 40, str(256 << 20)),
        (resource.RLIMIT_CPU, 60, 60, "ulimit -t: a local run needs 3,600 s of CPU for a process (got 60)"),
    ],
)
def test_a_hard_limit_is_refused_and_a_soft_one_is_raised(number: int, soft: int, hard: int, said: str) -> None:
    """A process of its own: a hard limit cannot be taken back. Each sandbox used to fail at it, and nobody said so."""
    command = [sys.executable, "-c", PROGRAM, str(number), str(soft), str(hard)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert answer.stdout.startswith(said)

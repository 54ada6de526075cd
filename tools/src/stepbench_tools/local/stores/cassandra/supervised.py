"""A node of the environment: a process of ours that runs Cassandra, lets it be tuned, and ends with it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from stepbench_tools.local.processes import LocalStore, spawn, wait_for_start
from stepbench_tools.local.stores.cassandra.__main__ import SERVING
from stepbench_tools.local.stores.cassandra.java import FETCHED, fetch_jars, find_installation, jars_of
from stepbench_tools.local.stores.cassandra.node import LOG

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench_tools.local.paths import Paths

CONTROL = "cassandra-control"
_START_LIMIT_S = 300.0
"""The node itself has less time, since its own message says more."""


def start_supervised(directory: Path, paths: Paths, *, fast: bool = False) -> tuple[LocalStore, LocalStore]:
    """
    Start a node as released or, for tests, `fast`, with its jars fetched if need be; wait until it serves.

    Returns:
        The node, and `cassandra-control` at its operator's URL: two names of one process, whose child is Java.

    Raises:
        LocalEnvironmentError: jars or Java cannot be had, or it does not come up; nothing is left running.
    """
    jars = jars_of(paths)
    if not (jars / FETCHED).exists():
        fetch_jars(paths)
    find_installation(jars)
    serving, log = directory / SERVING, directory / LOG
    serving.unlink(missing_ok=True)
    program = [sys.executable, "-m", "stepbench_tools.local.stores.cassandra", str(directory)]
    pid = spawn([*program, "--fast"] if fast else program, log=log, cwd=directory)
    wait_for_start("Cassandra serves", serving.exists, timeout_s=_START_LIMIT_S, pid=pid, log=log)
    found = json.loads(serving.read_text())
    return (
        LocalStore("cassandra", found["version"], found["endpoint"], (pid,)),
        LocalStore(CONTROL, found["version"], found["control"], (pid,)),
    )

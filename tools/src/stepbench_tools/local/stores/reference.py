"""The reference store of this machine: against it Stepbench itself is measured, so it is no store under test."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import stepbench
from stepbench_tools.local.processes import LOOPBACK, LocalStore, spawn, wait_for_start

if TYPE_CHECKING:
    from pathlib import Path

TRUTH = "truth"
_START_LIMIT_S = 20.0


def start_reference(directory: Path, parent: int | None = None) -> LocalStore:
    """
    Start the server with its log in `directory` and its truth in `directory/truth`; wait until it serves.

    Args:
        directory: made if need be.
        parent: a process (the caller's own) whose end is the server's, too; None leaves it to `terminate`.

    Raises:
        LocalEnvironmentError: it did not come up; nothing is left running.
    """
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "reference.log"
    log.unlink(missing_ok=True)  # the port is read from it
    watched = () if parent is None else ("--parent", str(parent))
    truth = str(directory / TRUTH)
    command = (sys.executable, "-m", "stepbench_tools.calibration.reference_store.server", "--truth", truth, *watched)
    pid = spawn(command, log=log)
    wait_for_start(
        "the reference store says its port", lambda: _port(log) > 0, timeout_s=_START_LIMIT_S, pid=pid, log=log
    )
    return LocalStore("reference", stepbench.__version__, f"{LOOPBACK}:{_port(log)}", (pid,))


def _port(log: Path) -> int:
    """Return the port of the first line; 0 while there is none."""
    line, end, _ = log.read_text().partition("\n")
    return int(json.loads(line)["port"]) if end and line.startswith("{") else 0

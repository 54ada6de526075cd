"""Processes and files that belong to a folder, and their end."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import psutil

from stepbench.local.processes import await_end

GRACE_S = 5.0


def end_leftovers(folder: Path) -> list[str]:
    """End every process that has something to do with the folder, and remove it; return which there were."""
    left = processes_of(folder)
    await_end(left, GRACE_S)  # some are about to end by themselves
    left = processes_of(folder)
    described = [describe(process) for process in left]
    for process in left:
        _call(process, "terminate")
    for process in (stubborn := await_end(left, GRACE_S)):
        _call(process, "kill")
    await_end(stubborn, GRACE_S)
    shutil.rmtree(folder, ignore_errors=True)
    return described


def processes_of(folder: Path) -> list[psutil.Process]:
    """Return all processes but ours that have the folder in their environment, arguments or directory."""
    ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [process for process in psutil.process_iter() if process.pid not in ours and _belongs(process, str(folder))]


def _belongs(process: psutil.Process, folder: str) -> bool:
    try:
        texts = [process.cwd(), *process.cmdline(), *process.environ().values()]
        return process.status() != psutil.STATUS_ZOMBIE and any(folder in each for each in texts)
    except psutil.Error:  # it has ended, or is another user's
        return False


def describe(process: psutil.Process) -> str:
    """Return a process's number and command line, as far as it is still there."""
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:150]}"
    except psutil.Error:
        return str(process.pid)


def _call(process: psutil.Process, method: str) -> None:
    with contextlib.suppress(psutil.Error):
        getattr(process, method)()

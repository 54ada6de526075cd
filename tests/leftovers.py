"""
What a run of the suite starts ends with it, also after Ctrl-C, when xdist kills its workers with their fixtures.

All that is started gets the run's own temporary folder, in its environment or as its home: by that it is known.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil

GRACE_S = 5.0


def give_folder() -> Path:
    """Let this process and all that it starts put temporary files into a new folder; pytest's stay where they were."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix="sb-"))
    folder.chmod(0o755)  # a PostgreSQL that root starts runs as another user
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # to be looked up anew
    return folder


def end_leftovers(folder: Path) -> list[str]:
    """End every process that has something to do with the folder, and remove it; say which there were."""
    left = _alive(folder)
    psutil.wait_procs(left, GRACE_S)  # some are about to end by themselves
    left = _alive(folder)
    told = [_describe(process) for process in left]
    for process in left:
        _tell(process, "terminate")
    _, stubborn = psutil.wait_procs(left, GRACE_S)
    for process in stubborn:
        _tell(process, "kill")
    psutil.wait_procs(stubborn, GRACE_S)
    shutil.rmtree(folder, ignore_errors=True)
    return told


def _alive(folder: Path) -> list[psutil.Process]:
    ours = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [process for process in psutil.process_iter() if process.pid not in ours and _belongs(process, str(folder))]


def _belongs(process: psutil.Process, folder: str) -> bool:
    try:
        told = [process.cwd(), *process.cmdline(), *process.environ().values()]
        return process.status() != psutil.STATUS_ZOMBIE and any(folder in each for each in told)
    except psutil.Error:  # it has ended, or is another user's
        return False


def _describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:150]}"
    except psutil.Error:
        return str(process.pid)


def _tell(process: psutil.Process, what: str) -> None:
    try:
        getattr(process, what)()
    except psutil.Error:
        return

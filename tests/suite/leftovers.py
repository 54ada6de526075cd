"""
Processes that a run of the suite starts end with it, also after Ctrl-C, when xdist kills its workers.

All that is started gets the run's own temporary folder, in its environment or as its home: by that it is known.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from pathlib import Path

import psutil
import pytest

from stepbench.local.processes import await_end

GRACE_S = 5.0
RUN_FOLDER = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Mark what this run starts; xdist's workers are started by it."""
    if not hasattr(config, "workerinput"):
        config.stash[RUN_FOLDER] = give_folder()
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """End what fixtures did not; after a run that was not interrupted there should be nothing."""
    folder = session.config.stash.get(RUN_FOLDER, None)
    left = end_leftovers(folder) if folder else []
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if left and reporter is not None:
        reporter.section("processes that tests had left running, now ended")
        reporter.write("\n".join([*left, ""]))


def give_folder() -> Path:
    """Let this process and all that it starts put temporary files into a new folder; pytest's stay where they were."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix="sb-"))
    folder.chmod(0o755)  # a PostgreSQL that root starts runs as another user
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # to be looked up anew
    return folder


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

"""
What a run of the suite starts ends with it: processes, also after Ctrl-C, when xdist kills its workers, and threads.

All processes that are started get the run's own temporary folder, in their environment or as their home, or one of
pytest's: by that they are known. A thread that a test leaves takes its share of what the tests after it do in the same
process, so one that is there at the end fails the run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import psutil
import pytest

from stepbench_tools.local.processes import await_end

GRACE_S, THREADS_GRACE_S = 5.0, 60.0
THREADS_LEFT = 6
"""Exit code of a run that has left threads, though all passed; what fails in the middle may leave its own."""
RUN_FOLDER = pytest.StashKey[Path]()
BEFORE = pytest.StashKey[set[int | None]]()
"""The threads that were there before the first test: pytest's own, and xdist's."""
LEFT = pytest.StashKey[list[str]]()
"""The threads that tests have left, in the words of `describe_thread`."""


def pytest_configure(config: pytest.Config) -> None:
    """Mark what this run starts; xdist's workers are started by it."""
    if not hasattr(config, "workerinput"):
        config.stash[RUN_FOLDER] = give_folder()
        for number in (signal.SIGTERM, signal.SIGINT):  # the second is ignored by what a shell starts in the background
            signal.signal(number, signal.default_int_handler)
    config.stash[BEFORE] = set()
    config.stash[LEFT] = []


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remember which threads there are."""
    session.config.stash[BEFORE] = {thread.ident for thread in threading.enumerate()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # noqa: ANN401  # xdist is untyped
    """Take over what a worker reports of its threads."""
    node.config.stash[LEFT] += getattr(node, "workeroutput", {}).get("threads", [])


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """End the processes that fixtures did not; fail a run that was not interrupted and has left threads."""
    config = session.config
    if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        config.stash[LEFT] += threads_left(config.stash[BEFORE])
    if hasattr(config, "workeroutput"):
        config.workeroutput["threads"] = config.stash[LEFT]
        return
    if config.stash[LEFT] and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = THREADS_LEFT
    folder = config.stash.get(RUN_FOLDER, None)
    left = end_leftovers(folder, config._tmp_path_factory.getbasetemp()) if folder else []  # type: ignore[attr-defined]
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if left and reporter is not None:
        reporter.section("processes that tests had left running, now ended")
        reporter.write("\n".join([*left, ""]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the threads that were left, and where they stood."""
    if config.stash[LEFT]:
        terminalreporter.section("threads that tests have left running, which fails the run")
        terminalreporter.write("\n".join([*config.stash[LEFT], ""]))


def threads_left(before: set[int | None]) -> list[str]:
    """Describe the threads that have begun since and do not end by themselves within `THREADS_GRACE_S`."""
    until_s = time.monotonic() + THREADS_GRACE_S
    while (left := [each for each in threading.enumerate() if each.ident not in before]) and time.monotonic() < until_s:
        left[0].join(until_s - time.monotonic())
    return [describe_thread(each) for each in left]


def describe_thread(thread: threading.Thread) -> str:
    """Return a thread's name and the lines at which it stands, from what it was started with on."""
    frame = sys._current_frames().get(thread.ident or 0)
    stack = traceback.extract_stack(frame) if frame else []
    lines = stack[3:] or stack  # threading's own come first
    return f"{thread.name}: {' > '.join(f'{Path(line.filename).name}:{line.lineno} {line.name}' for line in lines)}"


def give_folder() -> Path:
    """Let this process and all that it starts put temporary files into a new folder; pytest's stay where they were."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    folder = Path(tempfile.mkdtemp(prefix="sb-"))
    folder.chmod(0o755)  # a PostgreSQL that root starts runs as another user
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # to be looked up anew
    return folder


def end_leftovers(folder: Path, *others: Path) -> list[str]:
    """End every process that has something to do with the folders, and remove the first; return which there were."""
    left = _of_any(folder, *others)
    await_end(left, GRACE_S)  # some are about to end by themselves
    left = _of_any(folder, *others)
    described = [describe(process) for process in left]
    for process in left:
        _call(process, "terminate")
    for process in (stubborn := await_end(left, GRACE_S)):
        _call(process, "kill")
    await_end(stubborn, GRACE_S)
    shutil.rmtree(folder, ignore_errors=True)
    return described


def _of_any(*folders: Path) -> list[psutil.Process]:
    return list({process for folder in folders for process in processes_of(folder)})


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

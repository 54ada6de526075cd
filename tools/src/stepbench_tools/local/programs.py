"""Programs that end by themselves, each within its time, and logs of servers and tools while they are written."""

from __future__ import annotations

import contextlib
import pwd
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.processes import log_tail, spawn, terminate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from stepbench_tools.local.state import Server

LIMIT_S = 60.0
POLL_S = 0.5
_MOST_OUTPUT = 2_000


def run_program(
    command: Sequence[str | Path], what: str, *, user: str | None = None, timeout_s: float = LIMIT_S
) -> str:
    """
    Return the output of a program; `what` it does is for the message.

    Raises:
        LocalEnvironmentError: it cannot be started, fails, or is not done in time; with the end of its output.
    """
    group = pwd.getpwnam(user).pw_gid if user else None
    try:
        done = subprocess.run(  # noqa: S603 -- no shell, arguments are ours
            command,
            check=False,
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=timeout_s,
            user=user,
            group=group,
            extra_groups=[] if user else None,
        )
    except OSError as error:
        message = f"{command[0]} does not run on this machine: {error.strerror or error}"
        raise LocalEnvironmentError(message) from error
    except subprocess.TimeoutExpired as error:
        said = (error.output or b"").decode(errors="replace")[-_MOST_OUTPUT:]
        message = f"{what} did not end within {timeout_s:g} s: {said or 'it said nothing'}"
        raise LocalEnvironmentError(message) from error
    if done.returncode:
        message = f"{what} failed with status {done.returncode}: {done.stdout[-_MOST_OUTPUT:]}"
        raise LocalEnvironmentError(message)
    return done.stdout


def run_logged(  # noqa: PLR0913 -- the program, and what bounds it
    command: Sequence[str | Path],
    what: str,
    *,
    log: Path,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    needs: Server | None = None,
    look: Callable[[], None] | None = None,
) -> None:
    """
    Run a program in a session of its own, so that an interrupt ends its children with it; its output goes to `log`.

    Args:
        command: program and arguments.
        what: it is, for the message.
        log: made anew.
        timeout_s: after which it is ended.
        env: the whole environment; None inherits ours.
        cwd: where it runs.
        needs: a server that it talks to, whose end ends it at once.
        look: called twice a second meanwhile, to notify how far it is.

    Raises:
        LocalEnvironmentError: it failed, was not done in time, or what it needs has ended; with the ends of their logs.
    """
    log.unlink(missing_ok=True)
    pid = spawn(command, log=log, env=env, cwd=cwd)
    process, deadline_s = psutil.Process(pid), time.monotonic() + timeout_s
    why = ""
    try:
        while (code := _exit_code(process, min(POLL_S, timeout_s))) is None and not why:
            if look is not None:
                look()
            if needs is not None and not needs.runs():
                why = f"was given up, since {needs.name} has ended{log_tail(Path(needs.log))}"
            elif time.monotonic() > deadline_s:
                why = f"did not end within {timeout_s:g} s{log_tail(log)}{log_tail(Path(needs.log)) if needs else ''}"
    finally:
        if process.is_running():
            terminate([pid])
    if code or code is None:
        message = f"{what} {why or f'failed with exit code {code}{log_tail(log)}'}"
        raise LocalEnvironmentError(message)


def _exit_code(process: psutil.Process, wait_s: float) -> int | None:
    """Return a child's exit code, or None while it runs."""
    try:
        return int(process.wait(wait_s) or 0)
    except psutil.TimeoutExpired:
        return None


EVERY_S = 0.5
"""Reading costs time on the machine that is being measured."""


class LogReader:
    """It reads what is new in a folder's logs since it was last asked, of files that begin anew, too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read = {path: path.stat().st_size for path in folder.glob("*.log")}

    def new_lines(self) -> Iterator[str]:
        """Yield `etcd: the line`; an unfinished line waits for its end."""
        for path in sorted(self._folder.glob("*.log")):
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                begin = self._read.get(path, 0)
                begin = begin if begin <= path.stat().st_size else 0
                file.seek(begin)
                whole, newline, _ = file.read().rpartition(b"\n")
                self._read[path] = begin + len(whole) + len(newline)
                lines = whole.decode(errors="replace").split("\n") if newline else ()
                yield from (f"{path.stem}: {line}" for line in lines)


@contextlib.contextmanager
def following_logs(folder: Path, notify: Callable[[str], None]) -> Iterator[None]:
    """Show new lines of all logs in a folder, every half second until the end."""
    reader, ended = LogReader(folder), threading.Event()

    def follow() -> None:
        while not ended.wait(EVERY_S):
            for line in reader.new_lines():
                notify(line)

    thread = threading.Thread(target=follow, name="logs", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for line in reader.new_lines():
            notify(line)

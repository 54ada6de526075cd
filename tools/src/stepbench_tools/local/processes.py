"""Servers of the embedded run, in sessions of their own: logged, and ended for certain."""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import os
import pwd
import secrets
import shlex
import socket
import subprocess
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from stepbench.errors import LocalEnvironmentError, StepbenchError, harmless
from stepbench.wire.http1.whole_calls import LimitedHandler, within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

LOOPBACK = "127.0.0.1"
_POLL_S = 0.02
_KILLED_S = 5
_PORTS = range(20_000, 32_768)
_PORT_TRIES = 100
_given_ports: set[int] = set()
_LOG_TAIL_LINES = 20
_COMMAND_CHARS = 160
_USERS = ("AWS_", "BOTO_CONFIG", "CASSANDRA_", "ETCD", "PG", "REDISCLI_", "VALKEYCLI_")
"""How variables begin that stores' programs and libraries read, and AWS's."""


@dataclass(frozen=True)
class ProcessId:
    """The id names a process for good: a pid alone may by now belong to another program."""

    pid: int
    started_at: float

    def find(self) -> psutil.Process | None:
        """Return the process, unless it has ended (a zombie has ended)."""
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started_at) < 1
            if same and process.status() != psutil.STATUS_ZOMBIE:
                return process
        return None


def identify(pid: int) -> ProcessId | None:
    """Return the process that has this pid now, or None."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return ProcessId(pid, psutil.Process(pid).create_time())
    return None


def describe_process(pid: str) -> str:
    """Return the command of a process whose number a lock file has, with that and since when it runs."""
    try:
        process = psutil.Process(int(pid))
        command = harmless(shlex.join(process.cmdline()) or process.name())[:_COMMAND_CHARS]
        since = datetime.fromtimestamp(process.create_time(), UTC)
    except (ValueError, psutil.Error):  # it has ended meanwhile, or is another user's
        return f"another stepbench (pid {pid or 'unknown'})"
    return f"`{command}` (pid {pid}, since {since:%Y-%m-%d %H:%M:%S} UTC)"


def free_port() -> int:
    """
    Return a loopback TCP port that nobody listens on at this moment, and that no other process of ours has been given.

    It is this process's until that ends: a server may take seconds to bind it. At random from below the ephemeral
    ports, because one that the kernel itself gives out could become the local end of anybody's connection until then.
    """
    for _ in range(_PORT_TRIES):
        port = secrets.choice(_PORTS)
        if port in _given_ports:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            fcntl.lockf(_port_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            _given_ports.add(port)
            probe.bind((LOOPBACK, port))
            return port
    message = f"no free port on {LOOPBACK} between {_PORTS.start} and {_PORTS.stop - 1}"
    raise LocalEnvironmentError(message)


@cache
def _port_locks() -> int:
    """Open the file of which a process locks the byte at each port that it gives out."""
    path = Path(tempfile.gettempdir()) / f"stepbench-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


@contextlib.contextmanager
def without_users_settings() -> Iterator[None]:
    """
    Hide variables meanwhile that libraries and servers of this machine's environment would take for theirs.

    `PGSSLMODE` or `AWS_PROFILE` are about the user's own servers and account; children inherit none of them, either.
    """
    hidden = {name: value for name, value in os.environ.items() if name.startswith(_USERS)}
    for name in hidden:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(hidden)


def spawn(
    argv: Sequence[str | Path],
    *,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    user: str | None = None,
) -> int:
    """
    Start a server in its own session, so that no Ctrl-C of the terminal reaches it; its output goes to `log`.

    Args:
        argv: program and arguments; never a shell line.
        log: appended to.
        env: the whole environment; None inherits ours.
        cwd: where it runs.
        user: run as this user with its primary group only (only root may ask for it).

    Returns:
        Its pid. End it with `terminate`.

    Raises:
        LocalEnvironmentError: the program does not exist or cannot be run.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        try:
            process = subprocess.Popen(  # noqa: S603 -- no shell, arguments are ours
                [str(part) for part in argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if env is None else dict(env),
                cwd=cwd,
                user=user,
                group=pwd.getpwnam(user).pw_gid if user else None,
                extra_groups=[] if user else None,
                start_new_session=True,
            )
        except OSError as error:
            message = f"cannot start {argv[0]}: {error}"
            raise LocalEnvironmentError(message) from error
    process.returncode = 0  # the server outlives this object, whose finaliser would warn; psutil reaps it
    return process.pid


def wait_until(
    what: str, condition: Callable[[], bool], *, timeout_s: float, pid: int | None = None, log: Path | None = None
) -> None:
    """
    Poll until the condition holds.

    Args:
        what: the thing awaited, for the message ("etcd answers at 127.0.0.1:2379").
        condition: polled some 50 times a second; must be quick. One that raises does not hold, for that reason.
        timeout_s: after which it is an error.
        pid: a server whose early end is an error at once.
        log: whose last lines belong into the message.

    Raises:
        LocalEnvironmentError: the time is up or the server has ended.
    """
    deadline = time.monotonic() + timeout_s
    identity = None if pid is None else identify(pid)
    while True:
        try:
            holds, reason = condition(), ""
        except (OSError, StepbenchError, subprocess.SubprocessError) as error:
            holds, reason = False, f" ({error})"
        # Looked at after the condition, too: what answers may be a stranger who got the port first.
        if pid is not None and (identity is None or identity.find() is None):
            message = f"{what}: the process ended before that{reason}{log_tail(log)}"
            raise LocalEnvironmentError(message)
        if holds:
            return
        if time.monotonic() > deadline:
            message = f"{what}: not within {timeout_s:g} s{reason}{log_tail(log)}"
            raise LocalEnvironmentError(message)
        time.sleep(_POLL_S)


def start_server(  # noqa: PLR0913 -- as `spawn` and `wait_until` take them
    what: str,
    argv: Sequence[str | Path],
    serves: Callable[[], bool],
    *,
    timeout_s: float,
    log: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    user: str | None = None,
) -> int:
    """Return the pid of a server, started as by `spawn`, that serves; whatever ends the waiting before ends it, too."""
    pid = spawn(argv, log=log, env=env, cwd=cwd, user=user)
    try:
        wait_until(what, serves, timeout_s=timeout_s, pid=pid, log=log)
    except BaseException:
        terminate([pid])
        raise
    return pid


def fetch_direct(url: str, timeout_s: float) -> tuple[int, bytes]:
    """
    Return status and body of a GET to a server of ours, past any proxy that the user has set.

    Raises:
        OSError: no answer, none that is HTTP, or a refusal (urllib's errors are kinds of it).
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), LimitedHandler)
    try:
        with within(timeout_s), opener.open(url, timeout=timeout_s) as answer:
            return answer.status, answer.read()
    except http.client.HTTPException as error:
        message = f"{url}: {error}"
        raise OSError(message) from error


def family(pids: Iterable[int]) -> list[psutil.Process]:
    """Return the processes and all their descendants, parents first."""
    found: dict[int, psutil.Process] = {}
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            for member in [process, *process.children(recursive=True)]:
                found.setdefault(member.pid, member)
    return list(found.values())


def await_end(processes: Sequence[psutil.Process], limit_s: float) -> list[psutil.Process]:
    """
    Wait for processes to end, and return those that have not when the time is up.

    One that has ended stays a zombie until its parent asks for it, which may be never, as with a container's first
    process: it is not waited for.
    """
    deadline_s = time.monotonic() + limit_s
    while (alive := [each for each in processes if not has_ended(each)]) and time.monotonic() < deadline_s:
        time.sleep(_POLL_S)
    return alive


def has_ended(process: psutil.Process) -> bool:
    """Return whether a process has ended, also where its parent has not asked for it; a child of ours is asked for."""
    try:
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            return False
        process.wait(0)  # reaped, if it is a child of ours
    except (psutil.NoSuchProcess, psutil.TimeoutExpired):
        pass
    return True


def terminate(pids: Iterable[int], *, grace_s: float = 10) -> None:
    """
    End processes and all their descendants: SIGTERM to those given, SIGKILL to whatever is left after `grace_s`.

    Raises:
        LocalEnvironmentError: something survived SIGKILL (or belongs to somebody else).
    """
    roots = list(pids)
    members = family(roots)
    for member in members:
        if member.pid in roots:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                member.terminate()
    alive = await_end(members, grace_s)
    for member in alive:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            member.kill()
    if left := await_end(alive, _KILLED_S):
        message = f"cannot end {', '.join(f'{member.name()} (pid {member.pid})' for member in left)}; end it by hand"
        raise LocalEnvironmentError(message)


def log_tail(log: Path | None) -> str:
    """Return the last lines of a server's log, as the end of an error message."""
    if log is None or not log.is_file():
        return ""
    lines = log.read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
    return f"\n--- end of {log}\n" + "\n".join(lines) if lines else ""

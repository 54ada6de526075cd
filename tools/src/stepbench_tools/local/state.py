"""
What is running in an environment, in a file between `up`, `run` and `down`; who occupies it, and which servers end.

Two runs at once would measure each other, and the first to end would take the servers from under the second. The lock
is the kernel's, so it ends with its process however that ends; the note in the locked file stays then, and shows the
next command that a run was killed, which may still be going on inside the emulator.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pydantic import Field, ValidationError

from stepbench.contracts.base import Contract
from stepbench.contracts.documents import EndedServer
from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.processes import ProcessId, describe_process, identify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import AnyTrial, TrialSpec
    from stepbench_tools.local.processes import ProcessId

STATE, OCCUPIED = "state.json", "occupied"
_WARM, _COLD = "warm", "cold"


class Server(Contract):
    """A server of the environment; `endpoint` is what the stack's parameter takes, `log` the file of its output."""

    name: str
    version: str
    endpoint: str
    processes: tuple[ProcessId, ...]
    log: str = ""

    def runs(self) -> bool:
        """Return whether all of its processes are still there."""
        return all(process.find() for process in self.processes)


class EnvironmentState(Contract):
    """
    The state of one environment.

    `complete` is set last: without it, `up` was interrupted. `skipped` says for each store that could not start, why.
    """

    servers: tuple[Server, ...] = ()
    skipped: dict[str, str] = Field(default_factory=dict)
    stack: str = ""
    complete: bool = False

    def server(self, name: str) -> Server | None:
        """Return the server of that name, if it was started."""
        return next((server for server in self.servers if server.name == name), None)

    def members(self, name: str) -> tuple[Server, ...]:
        """Return a store's servers: the one of that name, or those of a cluster, which are numbered (`etcd-1`)."""
        return tuple(each for each in self.servers if re.fullmatch(rf"{name}(-\d+)?", each.name))

    def runs(self) -> bool:
        """Return whether the environment is complete and everything of it is still there."""
        return self.complete and all(server.runs() for server in self.servers)


def running_server(name: str, version: str, endpoint: str, pids: tuple[int, ...]) -> Server:
    """Return the state of a server that was just started; a process that has ended since is left out."""
    found = [identify(pid) for pid in pids]
    log = next(filter(None, map(output_of, pids)), "")
    return Server(name=name, version=version, endpoint=endpoint, processes=tuple(filter(None, found)), log=log)


def output_of(pid: int) -> str:
    """
    Return the file that a process appends its output to; "" if it is gone, belongs to another user, or has none.

    A file that was removed since is named all the same.
    """
    try:
        flags = next(
            line for line in Path(f"/proc/{pid}/fdinfo/1").read_text().splitlines() if line.startswith("flags:")
        )
        name = str(Path(f"/proc/{pid}/fd/1").readlink())
    except (OSError, StopIteration):
        return ""
    return name.removesuffix(" (deleted)") if int(flags.split()[1], 8) & os.O_APPEND and name.startswith("/") else ""


def read_state(home: Path) -> EnvironmentState:
    """Return the state as last written; an empty one where there is none, or none that can be read."""
    try:
        return EnvironmentState.model_validate_json((home / STATE).read_bytes())
    except (FileNotFoundError, ValidationError):
        return EnvironmentState()


def write_state(home: Path, state: EnvironmentState) -> None:
    """Replace the file at once, so that a reader never sees half of it."""
    home.mkdir(parents=True, exist_ok=True)
    draft = home / f"{STATE}.{os.getpid()}"
    draft.write_text(state.model_dump_json(indent=1))
    draft.replace(home / STATE)


@dataclass(frozen=True)
class Occupancy:
    """
    The environment is occupied by this process.

    Attributes:
        killed: whether the last run ended without a clean-up.
        was_warm: whether it had found the environment up, so that `up` had been asked for before.
    """

    killed: bool
    was_warm: bool
    _note: TextIO

    def begin(self, *, warm: bool) -> None:
        """Note that a run starts: from here to `end`, a process that vanishes leaves a trace."""
        self._write(f"{os.getpid()} {_WARM if warm else _COLD}")

    def end(self) -> None:
        """Clear the note: all is in order again."""
        self._write("")

    def _write(self, text: str) -> None:
        self._note.seek(0)
        self._note.truncate()
        self._note.write(text)
        self._note.flush()


@contextlib.contextmanager
def occupied(home: Path) -> Iterator[Occupancy]:
    """
    Keep every other run, `up` and `down` out of a home.

    Raises:
        LocalEnvironmentError: somebody else is in it; with the command and the pid of a run.
    """
    home.mkdir(parents=True, exist_ok=True)
    with (home / OCCUPIED).open("a+") as note:
        note.seek(0)
        try:
            fcntl.flock(note, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = note.read().partition(" ")[0]
            who = describe_process(pid) if pid else "another stepbench"
            message = (
                f"{who} is using the environment in {home}; wait for it, stop it with Ctrl-C (or `kill`), "
                "or set STEPBENCH_HOME to a folder of your own"
            )
            raise LocalEnvironmentError(message) from error
        left = note.read()
        yield Occupancy(killed=bool(left), was_warm=left.endswith(_WARM), _note=note)


_LOG_LINES, _LOG_CHARS, _TAIL_BYTES = 8, 240, 8_192
_SHELLS_SIGNAL = 128
"""A shell in front of a server exits with this, and the number of the signal that ended the server."""
_GONE = "is gone"


@dataclass
class ServerWatch:
    """
    The watch notices each server's end once; a look at all of them takes about a millisecond.

    How a server ended is known of children of this process only: `stepbench up` has left its servers to others.
    `needed` names the servers without which a trial cannot run.
    """

    servers: Sequence[Server]
    clock: Clock
    needed: Callable[[AnyTrial], frozenset[str]]
    _left: list[Server] = field(init=False)
    _suspected: set[str] = field(default_factory=set)
    _ends: dict[ProcessId, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._left = list(self.servers)

    def poll(self, ahead: Sequence[TrialSpec]) -> list[EndedServer]:
        """Return the servers that have ended since the last look, with those of the trials `ahead` that need them."""
        found = [(server, self._how(server)) for server in self._left]
        ended = [self._account(server, how, ahead) for server, how in found if how]
        names = {each.server for each in ended}
        self._left = [server for server in self._left if server.name not in names]
        return ended

    def _how(self, server: Server) -> str:
        """
        Return how a server ended, "" while it runs.

        Of PostgreSQL, the server itself may be gone a moment before the shell that has its signal: one more look.
        The kernel says once how a child has ended, and one process may be several servers, as Redis with and without
        TLS is.
        """
        self._ends.update((each, how) for each in server.processes if each not in self._ends and (how := _end_of(each)))
        ends = [self._ends[each] for each in server.processes if each in self._ends]
        known = [how for how in ends if how != _GONE]
        if known or not ends or len(server.processes) == 1 or server.name in self._suspected:
            return (known or ends or [""])[0]
        self._suspected.add(server.name)
        return ""

    def _account(self, server: Server, how: str, ahead: Sequence[TrialSpec]) -> EndedServer:
        seen = datetime.fromtimestamp(self.clock.now_ns() // 10**9, UTC)
        return EndedServer(
            server=server.name,
            version=server.version,
            pids=tuple(process.pid for process in server.processes),
            how=how,
            seen_at=seen.isoformat(),
            log=last_words(server.log),
            trials=tuple(spec.index for spec in ahead if server.name in self.needed(spec.plan)),
        )


def last_words(log: str) -> tuple[str, ...]:
    """Return the last lines of a log, long ones cut; none if it cannot be read."""
    try:
        with Path(log).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ()
    return tuple(line[:_LOG_CHARS] for line in text.splitlines()[-_LOG_LINES:])


def _end_of(process: ProcessId) -> str:
    try:
        pid, status = os.waitpid(process.pid, os.WNOHANG)
    except ChildProcessError:  # nobody's, or not ours
        return "" if process.find() else _GONE
    return _describe(os.waitstatus_to_exitcode(status)) if pid else ""


def _describe(code: int) -> str:
    number = -code if code < 0 else code - _SHELLS_SIGNAL
    try:
        return f"was ended by {signal.Signals(number).name}"
    except ValueError:
        return f"ended by itself with exit code {code}"

"""Servers of the environment that end while a run needs them: which, when, how, and their last words."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from stepbench.contracts.documents import EndedServer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from stepbench.clock import Clock
    from stepbench.contracts.plan import AnyTrial, TrialSpec
    from stepbench_tools.local.processes import ProcessId
    from stepbench_tools.local.state import Server

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

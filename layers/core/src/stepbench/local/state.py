"""What is running, kept in a file between `up`, `run` and `down`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from stepbench.contracts.base import Contract
from stepbench.local.processes import ProcessId, identify

if TYPE_CHECKING:
    from pathlib import Path

STATE = "state.json"


class RunningProcess(Contract):
    """A pid with the start time of its process, since pids are used again."""

    pid: int
    started_at: float

    def runs(self) -> bool:
        """Whether that very process is still there."""
        return ProcessId(self.pid, self.started_at).find() is not None


class Server(Contract):
    """One server of the environment; `endpoint` is what the stack's parameter takes."""

    name: str
    version: str
    endpoint: str
    processes: tuple[RunningProcess, ...]

    def runs(self) -> bool:
        """Whether all of its processes are still there."""
        return all(process.runs() for process in self.processes)


class EnvironmentState(Contract):
    """
    One environment.

    `complete` is set last: without it, `up` was interrupted. `skipped` says for each store that could not start, why.
    """

    servers: tuple[Server, ...] = ()
    skipped: dict[str, str] = Field(default_factory=dict)
    stack: str = ""
    complete: bool = False

    def server(self, name: str) -> Server | None:
        """The server of that name, if it was started."""
        return next((server for server in self.servers if server.name == name), None)

    def runs(self) -> bool:
        """Whether everything that was started is still there, and it was all."""
        return self.complete and all(server.runs() for server in self.servers)


def running_server(name: str, version: str, endpoint: str, pids: tuple[int, ...]) -> Server:
    """A server that has just been started; a process that has ended since is left out."""
    found = [identify(pid) for pid in pids]
    processes = tuple(RunningProcess(pid=each.pid, started_at=each.started_at) for each in found if each)
    return Server(name=name, version=version, endpoint=endpoint, processes=processes)


def read_state(home: Path) -> EnvironmentState:
    """The state as last written; an empty one where there is none, or none that can be read."""
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

"""The dashboard that `stepbench up` leaves running: a server of the environment, which ends with it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from stepbench.contracts.base import Contract
from stepbench_tools.local.processes import ProcessId, free_port, identify, start_server, terminate
from stepbench_tools.local.proxy import Server
from stepbench_tools.local.stack import Upstream, local_stack
from stepbench_tools.local.state import read_state

if TYPE_CHECKING:
    from stepbench_tools.local.paths import Paths
    from stepbench_tools.local.state import EnvironmentState

_START_S = 30
_EMULATOR = "emulator"


class Running(Contract):
    """Where the dashboard is; only its user may read the file, since the address holds the token."""

    address: str
    process: ProcessId


def start_dashboard(paths: Paths) -> str:
    """
    Return the address of the environment's dashboard, which is started unless it runs.

    Raises:
        LocalEnvironmentError: it does not start.
    """
    running = _find(paths.data)
    if running is not None and running.process.find():
        return running.address
    _file(paths.data).unlink(missing_ok=True)
    pid = start_server(
        "the dashboard has started",
        [sys.executable, "-m", __name__, str(paths.home), str(paths.data)],
        lambda: _find(paths.data) is not None,
        timeout_s=_START_S,
        log=paths.logs / "dashboard.log",
    )
    found = _find(paths.data)
    if found is not None and found.process.pid != pid:  # another command was quicker: one server is enough
        terminate([pid])
    return found.address if found else ""


def open_environment(home: Path) -> tuple[Upstream, EnvironmentState]:
    """Return the API of the stack that runs in a home."""
    state = read_state(home)
    emulator = state.server(_EMULATOR)
    return Upstream(local_stack(state.stack, emulator.endpoint if emulator else "")), state


def emulator_runs(state: EnvironmentState) -> bool:
    """Return whether there is still something to show."""
    emulator = state.server(_EMULATOR)
    return emulator is not None and emulator.runs()


def main(arguments: list[str]) -> None:
    """Serve the environment whose home and folder of data are the arguments, until it is gone."""
    home, data = map(Path, arguments)
    upstream, state = open_environment(home)
    process = identify(os.getpid())
    with Server(free_port(), upstream.send) as server:
        if process is None:
            return
        _write(data, Running(address=server.gate.address, process=process))
        server.serve_while(lambda: emulator_runs(state))


def _file(data: Path) -> Path:
    return data / "dashboard.json"


def _find(data: Path) -> Running | None:
    try:
        return Running.model_validate_json(_file(data).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def _write(data: Path, running: Running) -> None:
    """Replace the file at once; nobody else may read it."""
    data.mkdir(parents=True, exist_ok=True)
    draft = data / f"dashboard.{os.getpid()}"
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(running.model_dump_json())
    draft.replace(_file(data))


if __name__ == "__main__":
    main(sys.argv[1:])

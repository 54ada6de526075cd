"""
The embedded environment: emulator, clock reference and local stores, up and down as one, in a home that is `occupied`.

Half an environment is none: where anything of it has ended, `up` takes the rest down and starts all of it anew. The
state file is written after each step, and what was started in between is known by its log file, so `down` finds
everything whenever `up` was interrupted.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.emulator.server import CHOICE, answers, emulator_name, start_emulator
from stepbench_tools.local.processes import family, terminate
from stepbench_tools.local.state import (
    STATE,
    EnvironmentState,
    Server,
    last_words,
    output_of,
    read_state,
    running_server,
    write_state,
)
from stepbench_tools.local.stores import LocalStore
from stepbench_tools.local.stores.postgresql import discard_postgresql
from stepbench_tools.local.stores.references import start_clock_reference
from stepbench_tools.local.stores.servers import ETCD, POSTGRESQL, POSTGRESQL_TLS, SERVERS, Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench_tools.local.paths import Paths
    from stepbench_tools.local.stores.certificates import Certificates

    Notify = Callable[[str], None]
    """It prints for the person at the terminal what is being done."""

EMULATOR, CLOCK = "emulator", "clock-reference"
LOCAL_STORES = tuple(name for name, server in SERVERS.items() if not server.on_demand)
_CERTIFICATES, AUTHORITY = "certificates", "authority.crt"


def is_up(paths: Paths) -> bool:
    """Return whether the environment is complete and answers."""
    state = read_state(paths.home)
    emulator = state.server(EMULATOR)
    return state.runs() and emulator is not None and answers(emulator.endpoint)


@dataclass(frozen=True)
class EnvironmentOptions:
    """What an environment is to have: so many members of etcd (None: what runs, or else one), and stores on demand."""

    etcd_members: int | None = None
    on_demand: frozenset[str] = frozenset()


DEFAULT_OPTIONS = EnvironmentOptions()


def up(
    paths: Paths,
    notify: Notify,
    deploy: Callable[[EnvironmentState], str],
    options: EnvironmentOptions = DEFAULT_OPTIONS,
) -> EnvironmentState:
    """
    Start what is not running, and deploy.

    Args:
        paths: of this environment.
        notify: for progress.
        deploy: given the running servers, deploys the stack, unless nothing has changed, and returns its name.
        options: what there is to be; more that runs already is left.

    Raises:
        LocalEnvironmentError: emulator or clock reference do not start, or the stack cannot be deployed. Nothing is
            left running then.
    """
    state = read_state(paths.home)
    if not (is_up(paths) and _has_members(state, options.etcd_members) and _has_emulator(state)):
        for text in ended_since(state):
            notify(text)
        _name_lost_runs(paths, notify)
        down(paths)
        state = EnvironmentState()
    try:
        if not state.complete:
            state = _start(paths, notify, options.etcd_members or 1)
        for name in sorted(options.on_demand):
            if state.server(name) is None:
                state = _start_one(name, paths, notify, state)
        state = state.model_copy(update={"stack": deploy(state), "complete": True})
        write_state(paths.home, state)
    except BaseException:
        down(paths)
        raise
    return state


def _name_lost_runs(paths: Paths, notify: Notify) -> None:
    from stepbench_tools.local.fetching import save_or_name  # noqa: PLC0415 -- who lists stores needs none of its imports

    save_or_name(paths, notify)


def _has_members(state: EnvironmentState, etcd_members: int | None) -> bool:
    return etcd_members is None or ETCD in state.skipped or len(state.members(ETCD)) == etcd_members


def _has_emulator(state: EnvironmentState) -> bool:
    """Return whether it is the one that was asked for, if any was."""
    emulator = state.server(EMULATOR)
    return CHOICE not in os.environ or (emulator is not None and emulator.version == emulator_name())


def ended_since(state: EnvironmentState) -> list[str]:
    """Describe what has become of each server of a complete environment that has ended since."""
    gone = [server for server in state.servers if not server.runs()] if state.complete else []
    return [f"{_account(server)}; everything is started anew" for server in gone]


def _account(server: Server) -> str:
    said = f"{server.name} ({server.version}) has ended since it was started"
    if not Path(server.log).is_file():
        return said
    written = datetime.fromtimestamp(Path(server.log).stat().st_mtime, UTC)
    last = "".join(f"; its log ends with: {line}" for line in last_words(server.log)[-1:])
    return f"{said}; it last wrote to its log at {written:%Y-%m-%d %H:%M:%S} UTC{last}"


def down(paths: Paths) -> list[str]:
    """
    End everything, and remove its data; logs stay. Return the names of the processes that were ended.

    Raises:
        LocalEnvironmentError: something is still there.
    """
    state = read_state(paths.home)
    known = {process.pid for server in state.servers for process in server.processes if process.find()}
    pids = known | {process.pid for process in strays(paths.home)}
    names = [_name(process) for process in family(pids)]
    terminate(pids)
    left = strays(paths.home)
    if left:
        message = f"still running: {', '.join(_name(process) for process in left)}"
        raise LocalEnvironmentError(message)
    for server in (POSTGRESQL, POSTGRESQL_TLS):
        discard_postgresql(paths.data / server)  # as root, its files may lie outside
    shutil.rmtree(paths.data, ignore_errors=True)
    (paths.home / STATE).unlink(missing_ok=True)
    return names


def _start(paths: Paths, notify: Notify, etcd_members: int) -> EnvironmentState:
    shutil.rmtree(paths.logs, ignore_errors=True)
    state = EnvironmentState()
    notify(f"starting {emulator_name()}")
    emulator = start_emulator(paths)
    state = _record_server(paths, state, running_server(EMULATOR, emulator.name, emulator.endpoint, emulator.pids))
    clock_pid, reference = start_clock_reference(paths.logs)
    state = _record_server(paths, state, running_server(CLOCK, "SNTP", reference, (clock_pid,)))
    for name in LOCAL_STORES:
        if state.server(name) is None:
            state = _start_one(name, paths, notify, state, etcd_members)
    return state


def _start_one(
    name: str, paths: Paths, notify: Notify, state: EnvironmentState, etcd_members: int = 1
) -> EnvironmentState:
    """Start a store and note it, or why it cannot start."""
    takes = " (as released; that takes ten seconds and more)" if SERVERS[name].on_demand else ""
    notify(f"starting {name}{takes}")
    emulator = state.server(EMULATOR)
    skipped = {store: reason for store, reason in state.skipped.items() if store != name}
    try:
        stores = start_store(name, paths, emulator.endpoint if emulator else "", etcd_members)
    except LocalEnvironmentError as error:
        notify(f"{name} is skipped: {error}")
        return state.model_copy(update={"skipped": {**skipped, name: str(error)}})
    state = state.model_copy(update={"skipped": skipped})
    for store in stores:
        server = running_server(store.name, store.version, store.endpoint, store.pids)
        state = _record_server(paths, state, server)
    return state


def start_store(name: str, paths: Paths, lambda_endpoint: str, etcd_members: int = 1) -> tuple[LocalStore, ...]:
    """
    Start one local store, etcd with so many members.

    Raises:
        LocalEnvironmentError: it cannot start on this machine.
    """
    if name not in SERVERS:
        message = f"no {name} can be started here; the stores are {', '.join(SERVERS)}"
        raise LocalEnvironmentError(message)
    folder = paths.data / name
    folder.mkdir(parents=True, exist_ok=True)
    given = Surroundings(folder, paths, lambda_endpoint, etcd_members, partial(certificates, paths))
    try:
        started = SERVERS[name].start(given)
    except ImportError as error:
        raise _lacking(error) from error
    except (OSError, subprocess.SubprocessError) as error:
        raise LocalEnvironmentError(str(error)) from error
    return (started,) if isinstance(started, LocalStore) else started


def certificates(paths: Paths) -> Certificates:
    """
    Return the certificates that this environment's servers with TLS show; the first call makes them.

    Raises:
        LocalEnvironmentError: the library that makes them is not there.
    """
    try:
        from stepbench_tools.local.stores.certificates import certificates_in, make_certificates  # noqa: PLC0415 -- optional
    except ImportError as error:
        raise _lacking(error) from error
    folder = paths.data / _CERTIFICATES
    found = certificates_in(folder)
    return found if found.authority.exists() else make_certificates(folder)


def _lacking(error: ImportError) -> LocalEnvironmentError:
    return LocalEnvironmentError(f"{error}; install stepbench[local]")


def find_authority(paths: Paths) -> Path | None:
    """Return the authority that signed the certificates; None where no server needs one."""
    found = paths.data / _CERTIFICATES / AUTHORITY
    return found if found.exists() else None


def _record_server(paths: Paths, state: EnvironmentState, server: Server) -> EnvironmentState:
    state = state.model_copy(update={"servers": (*state.servers, server)})
    write_state(paths.home, state)
    return state


def strays(home: Path) -> list[psutil.Process]:
    """
    Find servers of this environment without its state file: they append to a log file below `home`, also a removed one.

    (An editor or a pager holds a log open too, but not for appending.)
    """
    return [process for process in psutil.process_iter() if process.pid != os.getpid() and _appends(process, home)]


def _appends(process: psutil.Process, home: Path) -> bool:
    logs = f"{home}{os.sep}"
    if output_of(process.pid).startswith(logs):
        return True
    with contextlib.suppress(psutil.Error):
        return any(file.path.startswith(logs) and getattr(file, "mode", "") == "a" for file in process.open_files())
    return False


def _name(process: psutil.Process) -> str:
    try:
        return f"{process.name()} (pid {process.pid})"
    except psutil.NoSuchProcess:
        return f"pid {process.pid}"

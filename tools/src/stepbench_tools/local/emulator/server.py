"""
The AWS emulator of an environment: MiniStack, or what STEPBENCH_EMULATOR names, LocalStack or the URL of another.

A kind of emulator is a folder with two modules: `server.py`, which says how it is started, and `shim.py`, which
`start.py` loads in the emulator's own process, and which makes it run Lambdas as processes under AWS's runtime client.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.emulator.localstack import server as localstack
from stepbench_tools.local.emulator.ministack import server as ministack
from stepbench_tools.local.processes import LOOPBACK, fetch_direct, free_port, spawn, wait_for_start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench_tools.local.paths import Paths

CHOICE = "STEPBENCH_EMULATOR"
DECISIONS = ministack.DECISIONS
_HEALTH = "/_localstack/health"  # MiniStack answers it, too


class Kind(Protocol):
    """How one kind of emulator is started."""

    NAME: str
    TOOL: str
    RUNS_TASKS: bool
    CONCURRENCY: str
    START_S: float

    def environment(self, paths: Paths, port: int, scratch: Path, wait_scale: float) -> dict[str, str]:
        """Return what its process gets beside what both get; `wait_scale` is a factor on every Wait state."""


KINDS: Mapping[str, Kind] = {"ministack": ministack, "localstack": localstack}


@dataclass(frozen=True)
class Emulator:
    """A running emulator: `endpoint` is its URL; nobody else's process is in `pids`."""

    name: str
    endpoint: str
    pids: tuple[int, ...]

    @property
    def pid(self) -> int:
        """Return the process that we have started."""
        return self.pids[0]


def emulator_name() -> str:
    """
    Return the name of the emulator that is chosen, with its version if we start it.

    Raises:
        LocalEnvironmentError: there is no such emulator.
    """
    chosen = _chosen()
    return f"the emulator at {chosen}" if _is_url(chosen) else KINDS[chosen].NAME


def runs_tasks() -> bool:
    """Return whether the emulator that is chosen runs tasks of ECS; of one that is not ours nobody knows."""
    chosen = _chosen()
    return not _is_url(chosen) and KINDS[chosen].RUNS_TASKS


def _chosen() -> str:
    chosen = os.environ.get(CHOICE) or "ministack"
    if chosen not in KINDS and not _is_url(chosen):
        message = f"{CHOICE} is {chosen!r}; name {' or '.join(KINDS)}, or the URL of an emulator that runs (http://…)"
        raise LocalEnvironmentError(message)
    return chosen.rstrip("/")


def _is_url(chosen: str) -> bool:
    return re.match(r"https?://[^/]", chosen) is not None


def start_emulator(paths: Paths, *, wait_scale: float = 1, concurrency: int | None = None) -> Emulator:
    """
    Start the emulator that is chosen, and wait until it answers; one that runs is taken as it is.

    Args:
        paths: where its environment and Lambda's are, and where files go.
        wait_scale: factor on every Wait state; tests shorten them.
        concurrency: the account's limit; None leaves the emulator's own: 1,000, of MiniStack fewer on a small machine.

    Raises:
        LocalEnvironmentError: its environment is missing, or it does not start; with the end of its log.
    """
    chosen = _chosen()
    if _is_url(chosen):
        if not answers(chosen):
            message = f"{CHOICE} is {chosen}, where no emulator answers; start it first"
            raise LocalEnvironmentError(message)
        return Emulator(emulator_name(), chosen, ())
    kind, port = KINDS[chosen], free_port()
    scratch, log = paths.data / "emulator", paths.logs / "emulator.log"
    scratch.mkdir(parents=True, exist_ok=True)
    environment = {**_environment(paths, scratch), **kind.environment(paths, port, scratch, wait_scale)}
    command: list[str | Path] = [paths.tool(kind.TOOL, "python"), "-P", Path(__file__).with_name("start.py"), chosen]
    if concurrency is not None:
        environment[kind.CONCURRENCY] = str(concurrency)
    pid = spawn(command, log=log, env=environment, cwd=scratch)
    endpoint = f"http://{LOOPBACK}:{port}"
    wait_for_start(
        f"the emulator answers at {endpoint}", lambda: _is_healthy(endpoint), timeout_s=kind.START_S, pid=pid, log=log
    )
    return Emulator(kind.NAME, endpoint, (pid,))


def answers(endpoint: str) -> bool:
    """Return whether an emulator is healthy there."""
    try:
        return _is_healthy(endpoint)
    except OSError:
        return False


def _is_healthy(endpoint: str) -> bool:
    return fetch_direct(endpoint + _HEALTH, timeout_s=2)[0] == HTTPStatus.OK


def _environment(paths: Paths, scratch: Path) -> dict[str, str]:
    """Return a fresh environment: nobody's AWS profile or proxy may leak into the emulator."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "LAMBDA_PYTHON": str(paths.tool("lambda", "python")),
        "LAMBDA_LAYERS": str(paths.layers),
    }

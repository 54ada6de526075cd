"""
What is measured against on this machine: an SNTP server for clocks, and the reference store for Stepbench itself.

On one machine all clocks are one, so every offset that sandboxes measure here as they do on AWS is nothing but the
error of the measurement: a check on it. The reference store is no store under test.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from typing import TYPE_CHECKING

import stepbench
from stepbench.clock import SystemClock, measure_offset, sntp_answer
from stepbench_tools.local.processes import LOOPBACK, free_port, start_server
from stepbench_tools.local.stores import LocalStore

if TYPE_CHECKING:
    from pathlib import Path


def start_clock_reference(logs: Path) -> tuple[int, str]:
    """
    Start the server.

    Returns:
        Its pid and its address, as the stack's parameter `ClockReference` takes it.

    Raises:
        LocalEnvironmentError: it does not answer.
    """
    port = free_port()
    reference = f"{LOOPBACK}:{port}"
    pid = start_server(
        f"the clock reference answers at {reference}",
        [sys.executable, "-m", __name__, str(port)],
        lambda: measure_offset(reference, SystemClock()) is not None,
        timeout_s=_START_LIMIT_S,
        log=logs / "clock-reference.log",
    )
    return pid, reference


def serve(server: socket.socket) -> None:
    """Answer one client after the other until the process ends."""
    while True:
        packet, client = server.recvfrom(512)
        received_ns = time.time_ns()
        reply = sntp_answer(packet, received_ns, time.time_ns())
        if reply is not None:
            server.sendto(reply, client)


def main(arguments: list[str]) -> None:
    """Serve on the loopback port that is the only argument."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((LOOPBACK, int(arguments[0])))
        serve(server)


if __name__ == "__main__":
    main(sys.argv[1:])


TRUTH = "truth"
_START_LIMIT_S = 20.0


def start_reference(directory: Path, parent: int | None = None) -> LocalStore:
    """
    Start the server with its log in `directory` and its truth in `directory/truth`; wait until it serves.

    Args:
        directory: made if need be.
        parent: a process (the caller's own) whose end is the server's, too; None leaves it to `terminate`.

    Raises:
        LocalEnvironmentError: it did not come up; nothing is left running.
    """
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / "reference.log"
    log.unlink(missing_ok=True)  # the port is read from it
    watched = () if parent is None else ("--parent", str(parent))
    truth = str(directory / TRUTH)
    command = (sys.executable, "-m", "stepbench_tools.calibration.reference_store.server", "--truth", truth, *watched)
    what = "the reference store says its port"
    pid = start_server(what, command, lambda: _port(log) > 0, timeout_s=_START_LIMIT_S, log=log)
    return LocalStore("reference", stepbench.__version__, f"{LOOPBACK}:{_port(log)}", (pid,))


def _port(log: Path) -> int:
    """Return the port of the first line; 0 while there is none."""
    line, end, _ = log.read_text().partition("\n")
    return int(json.loads(line)["port"]) if end and line.startswith("{") else 0
